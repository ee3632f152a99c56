"""Taggers from and to transformers' token classifiers, in Hugging Face folders.

The encoder, the linear layer and the labels are theirs; a CRF's scores, the scheme and
the temperature stand in `config.json` under `jaxner`, which transformers ignores. No
code and no pickle of a folder is read.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import jax.numpy as jnp
import numpy as np

from jaxner import cache, devices, errors, examples, fields, models, outputs
from jaxner import tagger as taggers
from jaxner.data import corpora, pieces, schemes, spans
from jaxner.data.vocabulary import build as build_vocabulary
from jaxner.data.vocabulary import strings
from jaxner.errors import InputError
from jaxner.fields import OneOf, checked
from jaxner.models import pretrained
from jaxner.models.model import map_named, named
from jaxner.tagger import Tagger
from jaxner.training import environment
from jaxner.wording import one_line, shown

SECTION = "jaxner"
"""The key of a `config.json` whose values transformers does not know."""
Scheme = Annotated[str, OneOf((*schemes.SCHEMES, schemes.TAGS))]

_CHAIN = ("transitions", "start", "end")
_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")


@checked
def from_pretrained(
    folder: str | os.PathLike[str],
    *,
    workdir: str | os.PathLike[str] | None = None,
    label_names: Sequence[str] | None = None,
    scheme: Scheme | None = None,
    data: str | os.PathLike[str] | None = None,
    revision: str | None = None,
) -> Tagger:
    """Returns the tagger of a token classifier of transformers.

    Its labels are those of the classifier, in the same order: bare types such as `PER`
    become `I-PER`. Without `constrained`, which a head that jaxner exported may be
    itself, it gives what the classifier gives.

    Args:
        folder: Folder with config.json, tokenizer.json and model.safetensors; or a name
            on the Hub such as "org/model", which `huggingface_hub` fetches.
        workdir: New folder for the tagger, as of a run; None writes nothing.
        label_names: The label of each id, where the classifier's config has none.
        scheme: Scheme of the labels, where these do not tell: without, B and I are
            BIO's, or IOB1's if a type has no B.
        data: Folder with files train, dev and test, for `jaxner calibrate` and
            `evaluate` of the run.
        revision: Branch, tag or commit on the Hub.

    Raises:
        FileExistsError: `workdir` is not empty.
        FileNotFoundError: There is no such folder, or a file in it is missing.
        ImportError: `tokenizers`, `safetensors` or `huggingface_hub` is missing.
        InputError: The classifier is none that jaxner knows, or its files do not fit
            together.

    Example:
        >>> import tempfile, jaxner
        >>> tagger, folder = jaxner.load("runs/hub"), tempfile.mkdtemp()
        >>> jaxner.export_transformers(tagger, folder)
        >>> jaxner.from_pretrained(folder).labels == tagger.labels
        True
    """
    cache.use()
    devices.check_fork()
    run = None if workdir is None else taggers.new_folder(workdir)
    if data is not None and not outputs.expanded(data).is_dir():
        raise NotADirectoryError(f"There is no folder {data}")
    root, commit = _found(os.fspath(folder), revision)
    path = root / "config.json"
    attributes = pretrained.sizes(root)
    config = spans.read_json(path)
    _check_known(config, path)
    if commit is not None:
        _check_complete(os.fspath(folder), {x.name for x in root.iterdir()})
    names = _label_names(config, label_names, path)
    tokenizer, _ = pretrained.pieces_and_sizes(root)
    encoder, linear = pretrained.read(root, len(names))
    with errors.using(path):
        section = dict(config.get(SECTION) or {})
        chain_names = _CHAIN if "transitions" in section else ()
        chain = {x: np.float32(section[x]) for x in chain_names if x in section}
        if not all(np.isfinite(x).all() for x in chain.values()):
            raise InputError(f"NaN or infinity in {SECTION}.{', '.join(_CHAIN)}")
        temperature = float(np.float32(section.get("temperature", 1.0)))
        fields.check(f"{SECTION}.temperature", temperature, fields.Positive)
        fields.check(f"{SECTION}.scheme", section.get("scheme", schemes.TAGS), Scheme)
        is_constrained = section.get("constrained", False)
        fields.check(f"{SECTION}.constrained", is_constrained, bool)
        dropout = config.get("classifier_dropout")
        if dropout is None:
            dropout = pretrained.make(attributes).hidden_dropout_prob
        fields.check("classifier_dropout", dropout, fields.Rate)
    with errors.using(path) if label_names is None else contextlib.nullcontext():
        names, scheme = schemes.inventory(names, scheme or section.get("scheme"))
        if problem := next(filter(None, map(corpora.hidden, names)), ""):
            raise InputError(problem)
    vocabulary, _ = build_vocabulary((), ["_"])
    vocabulary = dataclasses.replace(
        vocabulary,
        label_names=names,
        scheme=scheme,
        pieces=tokenizer,
        encoder_sizes=tuple(sorted(attributes.items())),
    )
    variant = f"encoder:model={'crf' if chain else 'softmax'}"
    options = examples.config_of(variant, "." if data is None else data)
    options.data.scheme = scheme
    if data is None:
        options.data.update(dir=None, split_dev=None)
    options.model.head.dropout = dropout
    options.model.head.constrained = is_constrained
    if chain:
        options.model.head.boundaries = len(chain) > 1
    model = taggers.build(vocabulary, **options.model.to_dict())
    arrays = {f"params/{pretrained.PREFIX}{n}": x for n, x in named(encoder).items()}
    arrays |= {f"params/head/emissions/{n}": x for n, x in linear.items()}
    arrays |= {f"params/head/{n}": x for n, x in chain.items()}

    def take(name: str, leaf: Any) -> Any:
        array: Any = arrays.get(name)
        if np.shape(array) != leaf.shape:
            expectation = f"{SECTION}.{name.rpartition('/')[2]} of shape {leaf.shape}"
            raise InputError(f"expected {expectation}, got {np.shape(array)}", path)
        return jnp.asarray(array)

    weights = map_named(take, models.shapes(model))
    tagger = Tagger(weights, model, vocabulary, jnp.float32(temperature))
    if run is None:
        return tagger
    record = environment.describe([], pretrained.files(root))
    source = {"name": os.fspath(folder), "revision": commit}
    run.write_json("environment.json", {**record, "source": source})
    taggers.write(run, tagger, "config.json", options.to_dict())
    return taggers.load(run.path)


def _found(name: str, revision: str | None) -> tuple[Path, str | None]:
    """Returns a local folder, fetched if `name` is none, and the commit on the Hub."""
    path = outputs.expanded(name)
    if path.is_dir():
        if revision is not None:
            raise InputError("revision is for names on the Hub, got a folder", path)
        return path, None
    if path.exists() or not _NAME.fullmatch(name):
        raise NotADirectoryError(f"There is no folder {name}")
    files = "config.json, tokenizer.json and model.safetensors"
    feature = f"There is no folder {name}: bring {files} into one. Fetching it by name"
    library = errors.optional("huggingface_hub", feature)
    patterns = ["*.json", "*.safetensors", "vocab.txt"]
    options: Any = {"allow_patterns": patterns, "ignore_patterns": ["*/*"]}
    try:
        folder = library.snapshot_download(name, revision=revision, **options)
    except Exception as error:  # of the network, the Hub, or a gated model
        text = one_line(str(error))
        raise InputError(
            f"There is no folder {name}, and the Hub says: {text}"
        ) from None
    return Path(folder), Path(folder).name


def _check_complete(name: str, files: set[str]) -> None:
    """Raises InputError unless weights and tokenizer were among the files fetched."""
    weights = {"model.safetensors", "model.safetensors.index.json"}
    if not (files & weights and files & {"tokenizer.json", "vocab.txt"}):
        kinds = "t.AutoTokenizer, t.AutoModelForTokenClassification"
        message = f"{name} lacks model.safetensors or tokenizer.json. If you trust it, "
        raise InputError(message + pieces.conversion(Path(name), kinds))


def _check_known(config: Mapping[str, Any], path: Path) -> None:
    """Raises InputError unless a config is that of a token classifier known here."""
    if "auto_map" in config:
        message = "needs code of its own (auto_map), and jaxner runs none from a folder"
        raise InputError(message, path)
    classifiers = pretrained.classifiers()
    architectures, kind = config.get("architectures"), config.get("model_type", "bert")
    if not isinstance(kind, str) or architectures != [classifiers.get(kind)]:
        suffix = "ForTokenClassification"
        listing = ", ".join(name.removesuffix(suffix) for name in classifiers.values())
        message = f"expected architectures [X{suffix}], with X one of {listing}, and "
        message += f"its model_type, got {architectures!r} and {kind!r}"
        raise InputError(message, path)


def _label_names(
    config: Mapping[str, Any], given_names: Sequence[str] | None, path: Path
) -> list[str]:
    """Returns the name of each label id, or those that are given."""
    named_ids: Any = config.get("id2label") or {"0": "LABEL_0", "1": "LABEL_1"}
    ids = range(len(named_ids) if isinstance(named_ids, dict) else 0)
    names: list[Any] = [named_ids.get(str(i)) for i in ids]
    gaps = [i for i, name in enumerate(names) if not isinstance(name, str)]
    if gaps or not names:
        reason = f"no name for {gaps[0]}" if gaps else shown(named_ids)
        message = f"expected id2label from 0, 1, … to names of labels, got {reason}"
        raise InputError(message, path)
    if given_names is not None:
        given_names = strings("label_names", given_names, "['O']")
        if len(given_names) != len(names) and config.get("id2label"):
            message = f"expected {len(names)} label_names, got {len(given_names)}"
            raise InputError(message, path)
        return given_names
    if all(re.fullmatch(r"LABEL_\d+", name) for name in names):
        raise InputError(
            "has no names of labels, only LABEL_0 and so on: give theirs in this order "
            "(--label-names O,B-PER,I-PER)",
            path,
        )
    return names


# --- Out ------------------------------------------------------------------------------


def export_transformers(tagger: Tagger, folder: str | os.PathLike[str]) -> None:
    """Writes a tagger as a token classifier of transformers, to a new folder.

    transformers gives the labels that `tag` gives, if the head is a softmax.

    Args:
        tagger: What `load` returned, of a pretrained encoder and a head.
        folder: A folder that is empty or does not exist; "~" is your home.

    Raises:
        FileExistsError: The folder is not empty.
        ImportError: safetensors is not installed.
        InputError: transformers has no such model.

    Warns:
        UserWarning: The head is a CRF, whose scores of label pairs transformers
            ignores; or the scheme is one whose entities its pipeline cuts.

    Example:
        >>> import os, tempfile, jaxner
        >>> folder = tempfile.mkdtemp()
        >>> jaxner.export_transformers(jaxner.load("runs/hub"), folder)
        >>> "model.safetensors" in os.listdir(folder)
        True
    """
    taggers.check_sound(tagger)
    path = taggers.new_folder(folder).path
    files = errors.optional("safetensors.numpy", "Export to transformers")
    if reason := _obstacle(tagger):
        message = "Expected a tagger of a pretrained encoder with head 'softmax' or "
        raise InputError(f"{message}'crf', as transformers has it; this one {reason}")
    vocabulary, params = tagger.vocabulary, tagger.weights["params"]
    sizes, head = dict(vocabulary.encoder_sizes or ()), params["head"]
    encoder = params["representation"]["bert"]["encoder"]
    config, tensors = pretrained.classifier(sizes, encoder, head["emissions"])
    section: dict[str, Any] = {"scheme": vocabulary.scheme}
    section["temperature"] = float(str(np.float32(tagger.temperature)))
    section |= {
        name: np.asarray(head[name]).tolist() for name in _CHAIN if name in head
    }
    section["constrained"] = tagger.model.head.constrained
    names = vocabulary.label_names
    config |= {
        "id2label": dict(enumerate(names)),
        "label2id": {name: i for i, name in enumerate(names)},
        "classifier_dropout": tagger.model.head.dropout,
        SECTION: section,
    }
    tokenizer: Any = vocabulary.pieces
    special = tokenizer.special
    # A family's usual id may lie beyond a small vocabulary.
    config.setdefault("pad_token_id", special.get("pad", (None,))[0])
    options = {"tokenizer_class": "PreTrainedTokenizerFast"}
    options |= {f"{name}_token": piece for name, (_, piece) in special.items()}
    options |= {"model_max_length": tokenizer.max_length, "add_prefix_space": True}
    options["model_input_names"] = ["input_ids", "attention_mask"]
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".", dir=path.parent) as beside:
        draft = Path(beside, path.name)
        draft.mkdir()
        metadata = {"format": "pt"}  # transformers asks for it
        with outputs.writing(draft / "model.safetensors") as file:
            file.write(files.save(tensors, metadata=metadata))
        outputs.write_text(draft / "config.json", json.dumps(config, indent=2))
        outputs.write_text(draft / "tokenizer.json", tokenizer.json)
        text = json.dumps(options, indent=2, ensure_ascii=False)
        outputs.write_text(draft / "tokenizer_config.json", text)
        os.replace(draft, path)
    if "transitions" in section or section["constrained"]:
        warnings.warn(
            "transformers ignores scores and rules of label pairs: it chooses each "
            "token's label alone, so labels and probabilities differ. jaxner reads "
            "them again, from config.json",
            stacklevel=2,
        )
    if {"S", "L", "U"} & {name[0] for name in names if name[1:2] == "-"}:
        warnings.warn(
            "transformers labels alike, but its pipeline joins labels by B and I alone "
            f"and so cuts entities of {vocabulary.scheme}. For it, train with "
            "--config.data.scheme=BIO",
            stacklevel=2,
        )


def _obstacle(tagger: Tagger) -> str | None:
    """Returns why transformers has no model like a tagger's; None if it has."""
    model: Any = tagger.model
    reader, kind = model.representation, dict(tagger.vocabulary.encoder_sizes or ())
    bert = getattr(reader, "bert", None)
    family = pretrained.FAMILIES.get(kind.get("model_type", "bert"))
    inputs = ("words", "chars", "caps", "vectors")
    if bert is None or family is None or type(bert.encoder) is not family.module:
        return "has no encoder of " + ", ".join(pretrained.FAMILIES)
    if any(getattr(reader, name, None) is not None for name in inputs):
        return "reads more of a token than its pieces"
    if bert.pool != "first":
        return f"has pool={bert.pool!r}, not 'first'"
    if not isinstance(model.encoder, models.Identity) or model.refinement is not None:
        return "has more layers above its encoder"
    if not isinstance(model.head, models.Head) or model.mc_dropout.num_samples:
        return "has another head, or passes with dropout"
    if tagger.vocabulary.reads_documents or tagger.vocabulary.unescape:
        return "reads documents, or undoes escapes"
    if family.classifier == "ModernBert" and not bert.encoder.prediction_head:
        return "lacks the prediction head that ModernBert has there"
    return None
