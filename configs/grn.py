r"""Gated relation network (Chen et al., AAAI 2019).

    python train.py --config configs/grn.py                       # the embedded sample
    python train.py --config configs/grn.py:conll2003 --workdir runs/grn

Published: entity F1 91.44 ± .16 on CoNLL-2003 test and 87.67 ± .17 on OntoNotes 5 test,
mean of 5 runs, best dev epoch of 200, with GloVe 6B vectors of 100 dimensions.

As in the authors' code, the loss of a batch is the mean over its sentences (eq. 11 has
the sum). Unlike there, a batch holds sentences of similar length, so that few shapes
are compiled; the last batch of each shape may be smaller.

Options (after the colon): the data set (bare, first: sample, conll2003, wnut17,
ontonotes5, or files for a folder of your own, --config.data.dir), and the paper's
ablations, with their F1 on CoNLL-2003 / OntoNotes 5:

    context=none              relations of the embeddings themselves   88.36 / 82.21
    context=branch3           one convolution, of width 3              90.88 / 86.66
    relation=none             the context layer alone                  90.13 / 85.87
    relation=fusion           DFN, eq. 5                               90.72 / 85.81
    relation=attention        GAttN, eq. 7                             87.11 / 79.83
"""

from configs import common


def get_config(arg=""):
    """Returns the configuration; the module docstring describes `arg`."""
    arg = common.parse_arg(arg, dataset="sample", context="all", relation="gated")
    config = common.base(arg.dataset)

    if arg.dataset == "sample":
        # There are no vectors, so every training word is known, and only the characters
        # tell anything of a word that is not.
        config.num_epochs = 15
        config.data.num_shapes = 3  # a small corpus compiles longer than it trains
    else:
        config.num_epochs = 200
        config.data.vectors = "glove.6B.100d.txt"
        config.data.lowercase = True
        config.data.min_count = 3

    config.model.representation = {
        "words": {"dim": 100},
        "chars": {"name": "cnn", "dim": 30, "num_filters": 30, "width": 3},
        "dropout": 0.5,
    }
    config.model.encoder = {
        "name": "grn",
        "hidden_dim": 400,
        "context": arg.context,
        "relation": arg.relation,
    }
    config.model.head = {"name": "crf", "dropout": 0.5}

    config.optimizer.name = "sgd"
    config.optimizer.learning_rate = 0.02
    config.optimizer.momentum = 0.9
    config.optimizer.decay = 0.02  # the rate is 0.02 / (1 + 0.02 · epoch)
    config.optimizer.clip_norm = 5.0
    return config
