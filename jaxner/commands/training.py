"""`jaxner train`, `jaxner import` and `jaxner options`."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated

from jaxner import fields
from jaxner.commands import note
from jaxner.data import schemes
from jaxner.errors import UsageError

_SCHEMES = fields.OneOf((*schemes.SCHEMES, schemes.TAGS))


@dataclasses.dataclass(kw_only=True)
class Processes:
    """The processes of a cluster; by default, those that JAX finds.

    Attributes:
        coordinator: Address of the first of several processes.
        num_processes: Number of processes; 1: this process runs alone.
        process_id: Index of this process, from 0.
    """

    coordinator: str | None = None
    num_processes: fields.Size | None = None
    process_id: fields.Count | None = None

    def join(self) -> bool:
        """Connects to the others; returns whether this process writes files."""
        from jaxner.training import cluster

        if self.coordinator:  # JAX aborts after five minutes
            note(f"Waiting for all processes at {self.coordinator} …")
        cluster.join(self.coordinator, self.num_processes, self.process_id)
        return cluster.is_writer()


def train(
    config: str | None = None,
    /,
    *,
    data: Path | None = None,
    vectors: Path | None = None,
    minutes: fields.Positive | None = None,
    output: fields.Folder | None = None,
    quiet: bool = False,
    processes: Processes,
    **overrides: str,
) -> None:
    """Trains a tagger.

        jaxner train --data FOLDER                # your files, with the config own
        jaxner train grn
        jaxner train grn:conll2003 -o runs/conll
        jaxner train grn --config.num_epochs=50
        jaxner train grn --help                   # lists all of its options, too

    The text after the colon picks data set and variant (`jaxner options CONFIG`
    lists them); `encoder=`, `head=` and `chars=` there replace parts of the
    model. `--config.x=…` sets a value. The same command resumes a stopped run.

    Args:
        config: Name of a config that comes with jaxner, or a file of your own.
        data: Folder with files train, dev and test; without dev, a tenth of train is
            dev.
        vectors: File of word vectors: the text format of GloVe or fastText, perhaps
            gzipped.
        minutes: Time for the run: lowers the number of epochs to what fits.
        output: Folder of the run; default: runs/<config>.
        **overrides: Values of the config, as `config.num_epochs`.
    """
    from jaxner import configuration
    from jaxner.training import cluster
    from jaxner.training import train as training

    if data is None:
        config = _needed(config, "--data FOLDER or ")
        values = configuration.load(config)
    else:
        from jaxner import examples

        config = config or examples.OWN
        values = examples.config_of(config, data)
    if vectors is not None:
        values.data.vectors = str(vectors)
    if minutes is not None:
        values.minutes = minutes
    for name, text in overrides.items():
        if not name.startswith("config."):
            hint = configuration.meant(values, name, text)
            raise UsageError(f"Unknown option --{name}{hint}")
    options = {name.removeprefix("config."): x for name, x in overrides.items()}
    configuration.override_all(values, options)
    if values.deterministic:
        cluster.make_deterministic()
    processes.join()
    if output is None:
        file, variant = configuration.split(config)
        parts = [Path(file).stem, *filter(None, variant.replace("=", "-").split(","))]
        output = Path("runs") / "-".join(parts)
    training.main_run(values, output, config, quiet)


def import_(
    source: str,
    /,
    *,
    output: fields.Folder,
    label_names: str | None = None,
    scheme: Annotated[str, _SCHEMES] | None = None,
    data: Path | None = None,
    revision: str | None = None,
) -> None:
    """Makes a run of a token classifier of transformers, to use like any other.

        jaxner import bert-ner -o runs/ner
        jaxner import ORG/MODEL --data data/mine -o runs/ner

    The folder has config.json, tokenizer.json and model.safetensors. A name on the
    Hub needs huggingface_hub and a network. No code and no pickle is read.

    Args:
        source: Folder of the classifier, or its name on the Hub.
        output: New folder for the run.
        label_names: Label of each id, where config.json has none: O,B-PER,I-PER.
        scheme: Scheme of the labels; default: detected.
        data: Folder with files train, dev and test, for `jaxner evaluate` and
            `calibrate`.
        revision: Branch, tag or commit on the Hub.
    """
    from jaxner import hub

    names = None if label_names is None else [*map(str.strip, label_names.split(","))]
    options = {"scheme": scheme, "data": data, "revision": revision}
    tagger = hub.from_pretrained(source, workdir=output, label_names=names, **options)
    note(f"{output}: {len(tagger.labels)} labels, {tagger.vocabulary.scheme}")
    note(f'Next: echo "Ms. Lee left Rome." | jaxner show {output}')


def options(config: str = "", /) -> None:
    """Lists all options of a config: default, meaning and allowed values.

        jaxner options grn
        jaxner options uanet:conll2003,draft=grn

    Args:
        config: Name of a config that comes with jaxner, or a file of your own.
    """
    from jaxner import configuration

    print(configuration.describe(_needed(config)))


def _needed(config: str | None, also: str = "") -> str:
    """Returns a config's name; UsageError, which says what there is, if it is empty.

    `also` is what may stand in its place.
    """
    from jaxner import configuration

    if not config:
        names = ", ".join(configuration.names())
        example = f"expected {also}a config, such as grn:sample"
        raise UsageError(f"{example}; known: {names}")
    return config
