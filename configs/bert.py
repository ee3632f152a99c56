r"""BERT-Softmax, BERT-CRF and BERT-UANet (the last rows of Gui et al.'s, 2020, tables).

    python train.py --config configs/bert.py --config.data.pretrained=FOLDER
    python train.py --config configs/bert.py:conll2003,model=uanet …

Published: entity F1 on CoNLL-2003 test 91.62, 91.71 and 92.02.

`data.pretrained` is a local folder in the layout of Hugging Face: config.json,
model.safetensors and vocab.txt. Its weights are the start of the run, which then holds
all that it needs. A token is read from its first word piece, or from the mean of them;
a sentence that is longer than the encoder allows is read in overlapping windows.

What is done to words before they are looked up (lower case, digits) does not concern
word pieces. Rates of learning (`optimizer.parts.bert.learning_rate`, decay on all
weights) and numbers of epochs are ours: the text and the authors' code do not say them.
UANet's draft is a variational LSTM on BERT's vectors; its refinement reads the same
vectors, from the same BERT. Its label vectors begin in U(±1), not in U(±600) as in
`configs/uanet.py`: the gradient of those would leave BERT hardly any of the joint clip.
(Not measured with BERT's weights, which are not at hand.)

Options (after the colon): the data set (bare, first: sample, conll2003, wnut17,
ontonotes5, ud_ewt, wsj, or files for a folder of your own, --config.data.dir), and

    model=softmax    a linear layer on BERT's vectors (the default)
    model=crf        and a CRF
    model=uanet      draft and refinement
    pool=mean        a token is the mean of its word pieces
"""

from ml_collections import config_dict

from jaxner.configuration import arguments, gui, sections


def get_config(arg=""):
    """Returns the configuration; the module docstring describes `arg`."""
    arg = arguments.parse_arg(arg, dataset="sample", model="softmax", pool="first")
    arguments.known("model", arg.model, ("softmax", "crf", "uanet"))
    arguments.known("pool", arg.pool, ("first", "mean"))
    config = sections.base(arg.dataset)
    config.num_epochs = 10
    config.batch_size = 16
    if arg.dataset == "sample":
        config.data.num_shapes = 3
    config.model.representation = {
        "words": None,
        "chars": None,
        # No dropout of its own: BERT has that of its config.json.
        "bert": {
            "pool": arg.pool,
            "dropout": config_dict.placeholder(float),
            "attention_dropout": config_dict.placeholder(float),
        },
        "dropout": 0.0,
    }
    config.model.encoder = {"name": "identity"}
    config.model.head = {
        "name": "crf" if arg.model == "crf" else "softmax",
        "dropout": 0.1,
        "initializer": "torch",
    }
    tuned = sections.optimizer("adamw", 3e-5, weight_decay=0.01, warmup=0.1)
    config.optimizer = sections.optimizer("adamw", 1e-3, warmup=0.1, clip_norm=1.0)
    config.optimizer.parts = {"bert": tuned}
    if arg.model == "uanet":
        _refine(config, tuned)
    return config


def _refine(config, tuned):
    """UANet on BERT's vectors, with its settings but for batches and epochs."""
    config.model.encoder = gui.lstm()
    config.model.head.dropout = 0.0
    config.model.mc_dropout = sections.mc_dropout(num_samples=8, parts=("encoder",))
    config.model.refinement = sections.refinement(
        own_representation=False,
        label_scale=1.0,
        **gui.transformer(config),
    )
    config.objective.reduction = "sum"
    config.objective.stages = "sum"
    config.optimizer = gui.sgd(0.015)
    config.optimizer.parts = {
        "bert": tuned,
        "refinement": gui.adamw(),
    }
