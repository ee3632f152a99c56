"""What the configs share: arguments, and the sections of a run."""

from __future__ import annotations

import difflib
from typing import Any

from ml_collections import ConfigDict, config_dict

# Corpora whose labels are tags (parts of speech), not spans.
TAGGED = ("ud_ewt", "wsj")
DATASETS = ("sample", "conll2003", "wnut17", "ontonotes5", *TAGGED, "files")


def parse_arg(arg: str | None, **defaults: Any) -> Any:
    """Reads the part of `--config file.py:ARG` after the colon.

    Args:
        arg: Comma-separated `name=value`; the first option may be given bare,
            and so may a switch that is to be True.
        **defaults: The options; a value is read as the type of its default.

    Returns:
        The options.

    Raises:
        ValueError: An option is unknown, or its value has the wrong type.

    Example:
        >>> parse_arg("wnut17,quick", dataset="sample", quick=False).quick
        True
    """
    options = ConfigDict(defaults)
    first = next(iter(defaults))
    for i, part in enumerate(filter(None, (arg or "").split(","))):
        name, equals, value = part.partition("=")
        if not equals:
            is_switch = isinstance(defaults.get(part), bool)
            if i and not is_switch:
                raise ValueError(_unknown(part, defaults))
            name, value = (part, "true") if is_switch else (first, part)
        if name not in defaults:
            raise ValueError(_unknown(name, defaults))
        options[name] = _read(name, value, defaults[name])
    return options


def _read(name: str, value: str, default: Any) -> Any:
    if isinstance(default, bool):
        if value.lower() not in ("true", "false"):
            raise ValueError(f"Expected {name}=true or {name}=false, got {value!r}")
        return value.lower() == "true"
    try:
        return type(default)(value)
    except ValueError:
        kind = type(default).__name__
        raise ValueError(f"Expected {name}=<{kind}>, got {value!r}") from None


def _unknown(name: str, defaults: dict[str, Any]) -> str:
    close = difflib.get_close_matches(name, defaults, 1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return f"Unknown config option {name!r}; known: {', '.join(defaults)}.{hint}"


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
    config.num_epochs = 20
    config.patience = 0  # epochs without a better dev score before stopping; 0: never
    config.batch_size = 10
    # Blocks of similar length that a batch is computed in; see jaxner.data.batching.
    config.num_blocks = 2
    config.steps_per_call = 1  # with num_blocks=1, 8 on a GPU or TPU
    config.tensorboard = False
    config.init_from = config_dict.placeholder(str)  # a run whose weights to begin with

    config.data = ConfigDict()
    config.data.name = dataset
    config.data.unit = "sentence"  # or "document": what is trained on and tagged as one
    config.data.dir = config_dict.placeholder(str)  # a folder instead of a known name
    config.data.token_column = config_dict.placeholder(int)
    config.data.label_column = config_dict.placeholder(int)  # CoNLL-U: 3 UPOS, 4 XPOS
    config.data.comments = config_dict.placeholder(str)  # how comment lines begin
    config.data.encoding = "utf-8"
    # What the model is trained on; "tags" are labels without spans.
    config.data.scheme = "tags" if dataset in TAGGED else "BIOES"
    config.data.lowercase = False
    config.data.lowercase_fallback = True  # unknown words stand for their lower case
    config.data.zero_digits = False
    config.data.unescape = False  # -LRB- is a bracket, as in treebanks
    config.data.alphabet = config_dict.placeholder(
        str
    )  # known characters; else train's
    # Whether ASCII characters beyond the alphabet keep their type (upper, digit, …).
    config.data.typed_unknowns = False
    config.data.train_words = (
        True  # or all vectors but the unknown word's stay as given
    )
    config.data.min_count = 1  # rarer training words without a vector are unknown
    config.data.vectors = config_dict.placeholder(str)  # a file, or a name in the data
    # Whether they are divided by the standard deviation of the vocabulary's vectors.
    config.data.standardise_vectors = False
    config.data.min_vector_match = 0.5  # of the distinct training words
    config.data.contextual = config_dict.placeholder(str)  # elmo/{split}.hdf5
    config.data.pretrained = config_dict.placeholder(str)  # BERT's local folder
    config.data.num_shapes = 5  # padded sizes at the most; each is compiled once

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


def known(name: str, value: str, values: Any) -> None:
    """Raises ValueError if an option's value is not one of some."""
    if value not in values:
        raise ValueError(f"Unknown {name} {value!r}; known: {', '.join(values)}")


# --- What the systems of Strubell et al. (2017) share, as their code has it ----------


def strubell_data(config: Any, document: bool) -> None:
    """Sets the data section.

    A word is looked up as it is, or is unknown: the authors' program knows no lower
    case. (It gives the vector of a file's word to its lower case if the vocabulary
    lacks the word itself, which never happens: all words of the file belong to it.) So
    training words without a vector of their own begin with a drawn one.
    """
    config.num_epochs = 100
    config.data.lowercase_fallback = False
    config.data.unit = "document" if document else "sentence"
    if config.data.scheme != "tags":
        config.data.scheme = "BILOU"
    config.data.zero_digits = True
    if config.data.name != "sample":
        config.data.min_count = 4
        config.data.vectors = "lample-embeddings-pre.txt"


def strubell_sample(config: Any) -> None:
    """Shrinks a config to the embedded sample: more and longer steps, fewer of them."""
    config.num_epochs = 30
    config.batch_size = 16 if config.data.unit == "sentence" else 8
    config.optimizer.learning_rate = 1e-3
    config.data.num_shapes = 3


def strubell_representation(inputs: float, words: float) -> Any:
    """Returns vectors and shapes of words, with two kinds of dropout."""
    return ConfigDict(
        {
            "words": {"dim": 100, "initializer": "glorot"},
            "chars": None,
            "caps": {"rule": "shape", "dim": 5},
            "dropout": inputs,
            "word_dropout": words,
        }
    )


def strubell_head(crf: bool, dropout: float) -> Any:
    """Returns the section of the head."""
    head = {"dropout": dropout, "initializer": "glorot", "bias": 0.01}
    if crf:
        return ConfigDict({"name": "crf", "boundaries": False, **head})
    return ConfigDict({"name": "softmax", **head})


def strubell_adam(rate: float, b2: float, eps: float, clip_norm: float | None) -> Any:
    """Returns the section of the optimizer: TensorFlow's Adam.

    It adds ε to √v before the bias correction, where optax and PyTorch add it after; so
    the authors' 1e-4 and 1e-6 damp the first steps much more. See
    `jaxner.training.optim.adam_eps_hat`; `--config.optimizer.name=adam` is the other.
    """
    return optimizer("adam_eps_hat", rate, b1=0.9, b2=b2, eps=eps, clip_norm=clip_norm)


# --- What the systems of Chen et al. (2019) share ------------------------------------


def chen_settings(config: Any) -> None:
    """Sets all but the encoder and the head."""
    if config.data.name == "sample":
        # There are no vectors, so every training word is known, and only the characters
        # tell anything of a word that is not.
        config.num_epochs = 15
        config.data.num_shapes = 4  # a small corpus compiles longer than it trains
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
    config.optimizer = optimizer(
        "sgd",
        0.02,
        momentum=0.9,
        decay=0.02,  # the rate is 0.02 / (1 + 0.02 · epoch)
        clip_norm=5.0,
    )


# --- What the systems of Gui et al. (2020) share, as their code has it ---------------


def gui_settings(config: Any, chars: str) -> None:
    """Sets data, batches, representation and the sum over a batch as its loss.

    Characters and words are drawn as in NCRF++. One departure stays in all systems that
    use this: biases of LSTMs and linear layers begin at 0, where PyTorch draws them
    from U(±1/√fan-in).

    Args:
        config: What `base` returned.
        chars: "cnn", as in NCRF++, or "intnet" (Xin et al., 2018).
    """
    known("chars", chars, ("cnn", "intnet"))
    config.num_epochs = 100
    config.data.zero_digits = True
    if config.data.name == "sample":
        config.num_epochs = 15
        config.data.num_shapes = 3
    else:
        config.data.vectors = "glove.6B.100d.txt"
    config.objective.reduction = "sum"
    # NCRF++ leaves convolutions to PyTorch, U(±1/√fan-in), and draws the vectors of
    # words and characters from U(±√(3/dim)). Kaiming's filters, which are the modules'
    # default, begin √6 times as large and on vectors √2 times as large.
    drawn = {"initializer": "torch", "table_initializer": "lecun", "dropout": 0.5}
    cnn = {"name": "cnn", "dim": 30, "num_filters": 50, "width": 3}
    config.model.representation = {
        "words": {"dim": 100, "initializer": "lecun"},
        "chars": (cnn if chars == "cnn" else {"name": "intnet"}) | drawn,
        "dropout": 0.5,
    }


def gui_transformer(config: Any) -> dict[str, int]:
    """Returns the sizes of the Transformer: on the embedded sample, small ones."""
    if config.data.name == "sample":
        return {"num_layers": 2, "num_heads": 2, "head_dim": 32}
    layers = 3 if config.data.name == "ontonotes5" else 2
    return {"num_layers": layers, "num_heads": 7, "head_dim": 160}


def gui_adamw(**options: Any) -> Any:
    """Returns the section of an optimizer: AdamW with warm-up.

    As in PyTorch, ε is added after the bias correction.
    """
    return optimizer("adamw", 1e-4, eps=1e-6, weight_decay=1e-6, warmup=0.1, **options)


def gui_lstm(**options: Any) -> Any:
    """Returns the section of the variational LSTM that drafts labels."""
    return bilstm(
        **{
            "hidden_dim": 200,
            "input_dropout": 0.01,
            "output_dropout": 0.25,
            "initializer": "torch",
            "forget_bias": 0.0,
            **options,
        }
    )


def gui_sgd(learning_rate: float) -> Any:
    """Returns the section of the draft's optimizer; all gradients are clipped."""
    return optimizer(
        "sgd",
        learning_rate,
        momentum=0.9,
        decay=0.05,  # the rate is 0.015 / (1 + 0.05 · epoch)
        weight_decay=1e-6,
        clip_norm=5.0,
    )
