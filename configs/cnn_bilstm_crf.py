r"""CNN-BiLSTM-CRF, the baselines of Chen et al. (AAAI 2019, the paper of GRN).

    jaxner train cnn_bilstm_crf                   # the embedded sample
    jaxner train cnn_bilstm_crf:conll2003

Published: entity F1 on CoNLL-2003 test 91.17 ± .18, best dev epoch of 200, GloVe 6B
vectors: the tagger of Ma and Hovy (2016) with a BiLSTM of 200 features per direction
instead of GRN's two layers. About an hour on a CPU.

Everything but the encoder is as in `configs/grn.py`. Kernels are drawn as by the
authors' helper (kaiming; the forget gate has a bias of 1 twice). The paper does not
give the sizes of the attention: we take 8 heads of 50, and the scores read [H; C].

After the colon: the data set, and

    attention    self-attention on the BiLSTM
    softmax      independent labels instead of the CRF
"""

from jaxner import configuration, families


@configuration.options(attention=False, softmax=False)
def get_config(config, arg):
    families.chen(config)
    lstm = {"name": "bilstm", "hidden_dim": 200}
    lstm |= {"initializer": "kaiming", "forget_bias": 2.0}
    config.model.encoder = lstm
    if arg.attention:
        attention = {"name": "attention", "num_heads": 8}
        config.model.encoder = {"name": "chain", "first": lstm, "then": attention}
    config.model.head = {"name": "softmax" if arg.softmax else "crf", "dropout": 0.5}
