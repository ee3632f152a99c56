r"""BiLSTM-Seq2seq: labels that depend on all labels before them (Zhang et al., 2018).

    jaxner train seq2seq                          # the embedded sample
    jaxner train seq2seq:conll2003,fusion=joint,beam=4

A baseline of UANet (Gui et al., 2020). Published there: entity F1 on CoNLL-2003 test
91.22, accuracy on WSJ 97.59.

A BiLSTM reads the words, an LSTM the labels so far (in training, the gold labels). We
only have the abstract (IJCAI 2018), so the formulas and all sizes are ours (see
`jaxner.models.seq2seq`). The optimizer is that of UANet's draft; with clipped gradients
and no momentum, as before, it learns far more slowly. The rest is NCRF++'s.

After the colon: the data set, and

    fusion=shared       the tag LSTM also reads the words (the default)
    fusion=integrate    it does not; one layer joins its state and the words' features
    fusion=joint        it does not; words and labels have separate scores, which add up
    beam=N              hypotheses of the beam search; the default, 1, is greedy
"""

from jaxner import configuration, families


@configuration.options(fusion=("shared", "integrate", "joint"), beam=1)
def get_config(config, arg):
    families.gui(config)
    config.model.encoder = families.torch_bilstm(hidden_dim=100)
    head = {"name": "seq2seq", "fusion": arg.fusion, "beam_size": arg.beam}
    head |= {"tag_dim": 50, "hidden_dim": 200, "dropout": 0.5, "forget_bias": 0.0}
    head |= {"initializer": "torch", "lstm_initializer": "torch"}
    config.model.head = {**head, "table_initializer": "lecun"}
    config.optimizer = families.sgd(0.015, 0.05, momentum=0.9, weight_decay=1e-6)
