"""The sections of a run's config, with all of their options as flags."""

from __future__ import annotations

from typing import Any

from ml_collections import ConfigDict, config_dict

# Corpora whose labels are tags (parts of speech), not spans.
TAGGED = ("ud_ewt", "wsj")
DATASETS = ("sample", "conll2003", "wnut17", "ontonotes5", *TAGGED, "files")


def base(dataset: str) -> Any:
    """Returns the sections of a run that do not depend on the system.

    Args:
        dataset: One of `DATASETS`.

    Raises:
        ValueError: The data set is unknown.
    """
    if dataset not in DATASETS:
        raise ValueError(
            f"Unknown data set {dataset!r}; known: {', '.join(DATASETS)}. 'files' are "
            "your own, in --config.data.dir=FOLDER."
        )
    config: Any = ConfigDict()
    config.seed = 0
    _machines(config)
    config.num_epochs = 20
    config.patience = 0  # epochs without a better dev score before stopping; 0: never
    config.batch_size = 10
    # Blocks of similar length that a batch is computed in; see jaxner.data.batching.
    config.num_blocks = 2
    config.steps_per_call = 1  # with num_blocks=1, 8 on a GPU or TPU
    config.tensorboard = False
    config.init_from = config_dict.placeholder(str)  # a run whose weights to begin with

    config.data = _data(dataset)
    config.model = ConfigDict({"mc_dropout": mc_dropout()})
    config.objective = ConfigDict(
        {
            "reduction": "sentence",  # or "token", "sum"
            "stages": "last",  # or "mean", "sum": of an encoder with several
            "dropout_penalty": 0.0,  # weight of expectation-linear dropout
            "dropout_penalty_form": "strubell",  # or "ma"
            "orthogonality": 0.0,  # weight, over the units of an LSTM
            "orthogonality_form": "pairs",  # or "identity", the paper's equation
        }
    )
    config.optimizer = ConfigDict()
    config.evaluation = ConfigDict(
        {
            "constrained": False,  # whether ill-formed labellings are ruled out
            # How spans are read, for the choice of the best epoch and for the result:
            # "conlleval", or "strict" (well-formed spans alone).
            "rule": "conlleval",
        }
    )
    return config


def _machines(config: Any) -> None:
    """Sets what a run makes of several seeds, devices and hosts."""
    config.num_seeds = 1  # restarts: this seed, the next one, and so on
    # Restarts in one program, "together", or "in_turn"; "auto" takes accelerators for
    # the first, a CPU for the second.
    config.restarts = "auto"
    config.num_devices = config_dict.placeholder(int)  # all; of a CPU, one


def _data(dataset: str) -> Any:
    """Returns the section of the data."""
    data: Any = ConfigDict()
    data.name = dataset
    data.unit = "sentence"  # or "document": what is trained on and tagged as one
    data.dir = config_dict.placeholder(str)  # a folder instead of a known name
    data.split_dev = config_dict.placeholder(float)  # share of train that is dev
    data.split_seed = 0  # by which it is drawn
    data.format = config_dict.placeholder(str)  # conll, jsonl, …; else by the name
    data.token_column = config_dict.placeholder(int)
    data.label_column = config_dict.placeholder(int)  # CoNLL-U: 3 UPOS, 4 XPOS
    data.comments = config_dict.placeholder(str)  # how comment lines begin
    data.encoding = "utf-8"
    data.unfit = "error"  # or "drop", "widen": spans that do not meet tokens
    # What the model is trained on; "tags" are labels without spans.
    data.scheme = "tags" if dataset in TAGGED else "BIOES"
    data.lowercase = False
    data.lowercase_fallback = True  # unknown words stand for their lower case
    data.zero_digits = False
    data.unescape = False  # -LRB- is a bracket, as in treebanks
    data.alphabet = config_dict.placeholder(str)  # known characters; else train's
    # Whether ASCII characters beyond the alphabet keep their type (upper, digit, …).
    data.typed_unknowns = False
    data.train_words = True  # or all vectors but the unknown word's stay as given
    data.min_count = 1  # rarer training words without a vector are unknown
    # The same if no vectors are given; of your own files all words are known then.
    data.min_count_without_vectors = config_dict.placeholder(int)
    if dataset == "files":
        data.min_count_without_vectors = 1
    data.vectors = config_dict.placeholder(str)  # a file, or a name in the data
    # Whether they are divided by the standard deviation of the vocabulary's vectors.
    data.standardise_vectors = False
    data.min_vector_match = 0.5  # of the distinct training words
    data.contextual = config_dict.placeholder(str)  # elmo/{split}.hdf5
    data.pretrained = config_dict.placeholder(str)  # BERT's local folder
    data.num_shapes = 5  # padded sizes at the most; each is compiled once
    return data


# --- Sections with all of their options, so that each can be set by a flag -----------


def bilstm(**options: Any) -> Any:
    """Returns the section of a BiLSTM encoder; see `jaxner.models.lstm.BiLSTM`."""
    return _section(
        options,
        name="bilstm",
        hidden_dim=200,
        num_units=1,
        num_layers=1,
        cross=True,
        pool="concat",
        input_dropout=0.0,
        state_dropout=0.0,
        output_dropout=0.0,
        input_mask="unit",
        dropout_scope="sentence",
        initializer="glorot",
        forget_bias=1.0,
    )


def idcnn(**options: Any) -> Any:
    """Returns the section of an ID-CNN encoder; see `jaxner.models.idcnn.IDCNN`."""
    return _section(
        options,
        name="idcnn",
        hidden_dim=300,
        dilations=(1, 2, 1),
        num_blocks=1,
        share=True,
        initializer="identity",
    )


def attention(**options: Any) -> Any:
    """Returns the section of an attention encoder; see `SelfAttention`."""
    return _section(
        options,
        name="attention",
        num_heads=5,
        head_dim=config_dict.placeholder(int),
        keep=config_dict.placeholder(str),
    )


def transformer(**options: Any) -> Any:
    """Returns the section of a Transformer; see `RelativeTransformer`."""
    return _section(
        options,
        name="transformer",
        num_layers=2,
        num_heads=7,
        head_dim=160,
        dropout=0.15,
        attention_dropout=0.05,
    )


def mc_dropout(**options: Any) -> Any:
    """Returns the section that says how labels are drafted; see `MCDropout`."""
    return _section(
        options,
        num_samples=0,
        parts=("representation", "encoder", "head"),
        average="scores",
        seed=0,
    )


def refinement(**options: Any) -> Any:
    """Returns the section of a refinement; see `Refinement` and `TwoStream`."""
    return _section(
        options,
        own_representation=True,
        threshold=0.45,
        label_dim=400,
        label_scale=600.0,
        soft=True,
        labels=True,
        num_layers=2,
        num_heads=7,
        head_dim=160,
        dropout=0.15,
        attention_dropout=0.05,
        form="code",
        head={"name": "softmax", "dropout": 0.15, "initializer": "torch"},
    )


def optimizer(name: str, learning_rate: float, **options: Any) -> Any:
    """Returns the section of an optimizer.

    Args:
        name: One of `jaxner.training.optim.OPTIMIZERS`.
        learning_rate: Before any decay.
        **options: Those that are not to be the optimizer's own defaults.
    """
    own = ("decay", "warmup", "clip_norm", "weight_decay")
    own += ("momentum", "b1", "b2", "eps")
    defaults: dict[str, Any] = {o: config_dict.placeholder(float) for o in own}
    # Of an optimizer with parts: "joint", the default, or "parts", each by itself.
    defaults["clip"] = config_dict.placeholder(str)
    return _section(options, name=name, learning_rate=learning_rate, **defaults)


def _section(options: dict[str, Any], **defaults: Any) -> Any:
    section = ConfigDict(defaults)
    section.update(options)
    return section
