r"""Cross- and Att-BiLSTM-CNN (Li, Fu and Ma, AAAI 2020), and their baseline.

    jaxner train cross_bilstm                     # the embedded sample
    jaxner train cross_bilstm:wnut17
    jaxner train cross_bilstm:ontonotes5,model=cross

We lack the paper's tables. Its text says that the best system is 1.4 points above the
best comparable earlier one on OntoNotes 5 (86.99, if that is Strubell et al.'s
Bi-LSTM-CRF) and .7 above the baseline; on WNUT-17 4.6 and 2.2. Best dev epoch of 400
(OntoNotes 5, GloVe vectors of 300) or 1,600 (WNUT-17, Godin's Twitter vectors of 400).

As in the authors' code, vectors are frozen; all words without one share a trained
vector; look-up is case-sensitive; the alphabet has 85 characters (other punctuation has
the vector of the unknown character and its type); and all sentences of a batch share
dropout masks. Best epoch and figures use the strict rule, as in the paper.

After the colon: the data set, and

    model=att         two stacked BiLSTM layers whose directions never mix, and five
                      attention heads on top (the default)
    model=cross       the second layer reads both directions of the first
    model=baseline    neither
    model=direction   the baseline with a softmax for each direction, probabilities
                      summed (Chiu and Nichols, 2016)

For the paper's table of chunk recalls by parts of the attention model (OntoNotes 5
dev), see `python -m reproduce figures chunk-recall --workdir RUN`. `evaluate` scores a
part alone, such as `hidden`, `context` (all heads) or `context1` … `context5`:

    jaxner evaluate RUN --model encoder.then.keep=hidden
"""

import string

from jaxner import configuration

ALPHABET = string.digits + string.ascii_letters + ".-,)(\"':/$+;*&=%?[]@!`#"


@configuration.options(model=("att", "cross", "baseline", "direction"))
def get_config(config, arg):
    config.batch_size = 32
    config.data.alphabet = ALPHABET
    config.data.typed_unknowns = True
    config.evaluation.rule = "strict"
    config.data.lowercase_fallback = False
    config.data.unescape = arg.dataset == "ontonotes5"
    if arg.dataset == "sample":  # without vectors, words must be trained
        dim, config.num_epochs, config.batch_size = 100, 30, 16
        config.data.num_shapes = 3
    else:
        sizes = {"wnut17": (400, 1600, "word2vec_twitter_tokens.txt")}
        default = 300, 400, "glove.840B.300d.txt"
        dim, config.num_epochs, config.data.vectors = sizes.get(arg.dataset, default)
        config.data.train_words = False
    chars = {"name": "cnn", "dim": 25, "num_filters": 20, "width": (1, 2, 3)}
    chars |= {"length": 20, "types": True, "bias": False}
    config.model.representation = {
        "words": {"dim": dim, "initializer": "normal"},
        "chars": {**chars, "initializer": "glorot", "table_initializer": "normal"},
        "caps": {"rule": "case", "unknown": True},
        "dropout": 0.0,
    }
    lstm = {"name": "bilstm", "hidden_dim": 100, "num_layers": 2}
    lstm |= {"cross": arg.model == "cross", "initializer": "glorot_fused"}
    lstm |= {"input_dropout": 0.35, "state_dropout": 0.35, "output_dropout": 0.35}
    lstm |= {"dropout_scope": "batch"}
    config.model.encoder = lstm
    if arg.model == "att":
        attention = {"name": "attention", "num_heads": 5}
        config.model.encoder = {"name": "chain", "first": lstm, "then": attention}
    config.model.head = {
        "name": "direction" if arg.model == "direction" else "softmax",
        "dropout": 0.0,
        "initializer": "glorot",
    }
    config.objective.reduction = "token"
    config.optimizer = {"name": "nadam", "learning_rate": 1e-3}
