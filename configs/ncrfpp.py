r"""BiLSTM-Softmax and BiLSTM-CRF as in NCRF++ (Yang and Zhang, ACL 2018).

    jaxner train ncrfpp                           # the embedded sample
    jaxner train ncrfpp:conll2003,crf

Baselines of UANet (Gui et al., 2020). Published there: entity F1 on CoNLL-2003 test
90.77 and 91.21; NCRF++ itself gives 90.73 and 91.35 with these settings. Under an hour
on a CPU.

Words and a character CNN, one BiLSTM of 200 features (100 in each direction), plain
SGD without momentum or clipping, the loss summed over a batch of ten sentences. Biases
start at 0, where PyTorch draws them from U(±1/√fan-in). Characters start as PyTorch
draws them: vectors from U(±√(3/D)), filters from U(±1/√fan-in).

After the colon: the data set, and

    crf             a CRF instead of independent labels
    chars=intnet    IntNet's character features (Xin et al., 2018)
"""

from jaxner import configuration, families


@configuration.options(crf=False)
def get_config(config, arg):
    families.gui(config)
    config.model.encoder = families.torch_bilstm(hidden_dim=100)
    config.model.head = families.torch_head(arg.crf, dropout=0.5)
    config.optimizer = families.sgd(0.015, 0.05, weight_decay=1e-8, clip_norm=None)
