r"""BiLSTM-Softmax and BiLSTM-CRF as in NCRF++ (Yang and Zhang, ACL 2018).

    python train.py --config configs/ncrfpp.py                   # the embedded sample
    python train.py --config configs/ncrfpp.py:conll2003,crf

Baselines of UANet (Gui et al., 2020). Published there: entity F1 on CoNLL-2003 test
90.77 and 91.21, on OntoNotes 5 83.76 and 86.99 (which are figures of Strubell et al.
for a model without characters), accuracy on WSJ 97.51 for both. NCRF++ itself gives
90.73 and 91.35 for CoNLL-2003 with these settings.

Words and a character CNN, one BiLSTM of 200 features (100 in each direction), plain
SGD without momentum or clipping, the loss summed over a batch of ten sentences.

Biases start at 0, where PyTorch draws them from U(±1/√fan-in). Characters start as
PyTorch draws them: vectors from U(±√(3/D)), filters from U(±1/√fan-in). Kaiming's
wider draw (--config.model.representation.chars.initializer=kaiming, and
table_initializer=kaiming) is no better: on an eighth of CoNLL-2003 (with a CRF, 20
epochs, mean of two seeds) dev/test F1 is 89.60/86.70 as configured and 89.28/86.35 with
the wider draw.

Options (after the colon): the data set (bare, first: sample, conll2003, wnut17,
ontonotes5, ud_ewt, wsj, or files for a folder of your own, --config.data.dir), and

    crf             a CRF instead of independent labels
    chars=intnet    IntNet's character features (Xin et al., 2018)
                    on CoNLL-2003 91.43, with a CRF 91.64
"""

from jaxner import configuration, families


@configuration.options(crf=False)
def get_config(config, arg):
    """Sets the options; the module docstring describes `arg`."""
    families.gui(config)
    config.model.encoder = families.torch_bilstm(hidden_dim=100)
    config.model.head = families.torch_head(arg.crf, dropout=0.5)
    config.optimizer = {
        "name": "sgd",
        "learning_rate": 0.015,
        "decay": 0.05,  # the rate is 0.015 / (1 + 0.05 · epoch)
        "weight_decay": 1e-8,
    }
