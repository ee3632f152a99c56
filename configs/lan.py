r"""BiLSTM-LAN, the label attention network (Cui and Zhang, EMNLP 2019).

    jaxner train lan                              # the embedded sample
    jaxner train lan:conll2003

A baseline of UANet (Gui et al., 2020). Published there: entity F1 on CoNLL-2003 test
90.77, on OntoNotes 5 88.16, accuracy on WSJ 97.58. Users report about 85 on OntoNotes 5
with BIO labels.

Three BiLSTMs with attention to label vectors (see `jaxner.models.lan`), no CRF; an LSTM
reads the characters. Settings are as in the authors' README, but biases start at 0,
where PyTorch draws them; training stops after ten epochs without a better dev score.

After the colon: the data set, and

    layers=N      number of BiLSTMs, 3 by default
    crf           a CRF on the scores of the last layer (not in the paper)
"""

from jaxner import configuration, families


@configuration.options(layers=3, crf=False)
def get_config(config, arg):
    families.gui(config)
    config.patience = 10
    chars = {"name": "lstm", "dim": 30, "hidden_dim": 25, "pool": "last"}
    chars |= {"forget_bias": 0.0, **families.NCRFPP_DRAWS}
    config.model.representation.chars = chars
    hidden_dim = 50 if arg.dataset == "sample" else 200
    lan = {"name": "lan", "num_layers": arg.layers, "hidden_dim": hidden_dim}
    lan |= {"num_heads": 5, "dropout": 0.5, "weight_dropout": 0.5, "forget_bias": 0.0}
    initializers = {"initializer": "torch", "kernel_initializer": "torch"}
    config.model.encoder = {**lan, **initializers, "label_bound": 0.0025}
    config.model.head = {"name": "scores", "transitions": arg.crf}
    rate = 0.05 if arg.dataset == "sample" else 0.01
    config.optimizer = families.sgd(rate, 0.035, momentum=0.9, weight_decay=1e-8)
