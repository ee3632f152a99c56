r"""Parallel recurrent networks (Žukov-Gregorič, Bachrach and Coope, ACL 2018).

    python train.py --config configs/parallel_rnn.py             # the embedded sample
    python train.py --config configs/parallel_rnn.py:conll2003

Published: entity F1 on CoNLL-2003 test 91.48 ± .22, mean of 10 runs, with Lample et
al.'s (2016) vectors of 100 dimensions.

16 BiLSTMs side by side on the same input, each with an output of 64, that is a state of
32 in each direction (16 of 64 and 1 of 1024 are of the same size in the paper's Table
3). The penalty compares the units of one direction.

The paper leaves open the batches, the epochs and the label scheme: here 16 sentences,
50 epochs, BIOES, digits as 0 (as in Lample et al., whose preprocessing is named), the
loss is the mean over sentences of the sum over words, and gradients are not clipped:
the penalty is large at the start, and would take all of a clipped step. What replaces
Glorot's draw in the ablation is not said either; the forget gates' biases begin at 1.

The paper does not say whether word vectors are trained, either. Here they are, and that
overfits: with the vectors at hand, test F1 is 85.28, and 87.98 with them frozen
(--config.data.train_words=False).

Options (after the colon): the data set (bare, first: sample, conll2003, wnut17,
ontonotes5, or files for a folder of your own, --config.data.dir), and

    units=N size=N       how many units, and the output of each (both directions)
    chars=false          no character features                            90.39
    orthogonal=false     no penalty                                       90.79
    init=normal          N(0, 1) for all LSTM kernels (paper: "no Xavier") 91.09
    dropout=false        no variational dropout                           91.03
    pool=mean            the mean of the units' outputs in their place    90.49

Published F1 of other sizes (units x size):

     1x64 90.53    2x64 90.79    4x64 90.64    8x64 91.09   16x64 91.48   32x64 90.68
     1x1024 87.54  2x512 91.25   4x256 91.29   8x128 91.31  32x32 90.60   64x16 90.79
     128x8 90.41   16x8 89.78    16x16 89.77   16x32 90.26  16x128 89.28
"""

from configs import common


def get_config(arg=""):
    """Returns the configuration; the module docstring describes `arg`."""
    arg = common.parse_arg(
        arg,
        dataset="sample",
        units=16,
        size=64,
        chars=True,
        orthogonal=True,
        init="glorot",
        dropout=True,
        pool="concat",
    )
    if arg.size % 2:
        raise ValueError(f"Expected an even size, half for each direction: {arg.size}")
    common.known("init", arg.init, ("glorot", "normal"))
    common.known("pool", arg.pool, ("concat", "mean"))
    config = common.base(arg.dataset)
    config.batch_size = 16
    config.num_epochs = 50
    config.data.zero_digits = True
    if arg.dataset == "sample":
        config.num_epochs = 15
        config.data.num_shapes = 3
    else:
        config.data.vectors = "lample-embeddings-pre.txt"

    chars = {"name": "lstm", "dim": 25, "hidden_dim": 25, "initializer": arg.init}
    config.model.representation = {
        "words": {"dim": 100, "initializer": "glorot"},
        "chars": chars if arg.chars else None,
        "dropout": 0.0,
    }
    config.model.encoder = common.bilstm(
        hidden_dim=arg.size // 2,
        num_units=arg.units,
        pool=arg.pool,
        input_dropout=0.1 if arg.dropout else 0.0,
        state_dropout=0.1 if arg.dropout else 0.0,
        initializer=arg.init,
    )
    config.model.head = {"name": "softmax", "dropout": 0.0, "initializer": "glorot"}
    config.objective.orthogonality = 0.01 if arg.orthogonal else 0.0
    config.optimizer = common.optimizer("adam", 1e-3)
    return config
