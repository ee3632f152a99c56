r"""Bi-LSTM and Bi-LSTM-CRF, the baselines of Strubell et al. (EMNLP 2017).

    jaxner train bilstm                           # the embedded sample
    jaxner train bilstm:conll2003,crf

Published: entity F1 on CoNLL-2003 test 89.34 ± .28 (greedy) and 90.43 ± .12 (CRF), best
dev epoch of 100, Lample et al.'s (2016) vectors. Under an hour on a CPU.

One BiLSTM of 150 features per direction, and a tanh layer of 150. Representation,
look-up of words, dropout regulariser, batches and Adam (which adds its ε of 1e-4 before
the bias correction, as in TensorFlow) are as in `configs/idcnn.py`.

After the colon: the data set, and

    crf               CRF instead of independent labels
    document          documents of sentences with separators; start from a trained
                      sentence model: --config.init_from=RUN. (The authors publish no
                      settings for greedy documents; we use those of the CRF.)
    dr=false          without the dropout regulariser
"""

from jaxner import configuration, families

# Those of the authors' configuration files, by data set and unit.
SETTINGS = families.table(
    """
    of                rate  b2     eps   inputs  features  words  batch  clip  penalty
    conll-sentence    5e-4  0.9    1e-4  0.5     0.25      0.25   64     1.0   1e-5
    conll-document    1e-3  0.9    1e-4  0.35    0.35      0.25   32     10.0  1e-4
    onto-sentence     5e-4  0.999  1e-4  0.5     0.25      0.25   32     5.0   1e-6
    onto-document     1e-3  0.9    1e-4  0.25    0.5       0.25   32     5.0   1e-8
    """
)


@configuration.options(crf=False, document=False, dr=True)
def get_config(config, arg):
    family = "onto" if arg.dataset == "ontonotes5" else "conll"
    unit = "document" if arg.document else "sentence"
    families.strubell(config, arg, SETTINGS[f"{family}-{unit}"])
    config.model.encoder = {
        "name": "chain",
        "first": {"name": "bilstm", "hidden_dim": 150, "initializer": "glorot_fused"},
        "then": {"name": "projection", "hidden_dim": 150, "bias": 0.01},
    }
