"""`jaxner import`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from jaxner import fields
from jaxner.commands import note
from jaxner.data import schemes


def import_(
    source: str,
    /,
    *,
    output: fields.Folder,
    label_names: str | None = None,
    scheme: Annotated[str, fields.OneOf((*schemes.SCHEMES, schemes.TAGS))]
    | None = None,
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
        output: Folder of the run, which is new.
        label_names: Label of each id, where config.json has none: O,B-PER,I-PER.
        scheme: Scheme of the labels; default: by the labels.
        data: Folder with files train, dev and test, for `jaxner evaluate` and
            `calibrate`.
        revision: Branch, tag or commit on the Hub.
    """
    from jaxner import hub

    names = None if label_names is None else label_names.split(",")
    options = {"scheme": scheme, "data": data, "revision": revision}
    tagger = hub.from_pretrained(source, workdir=output, label_names=names, **options)
    note(f"{output}: {len(tagger.labels)} labels, {tagger.vocabulary.scheme}")
    note(f'Next: echo "Ms. Lee left Rome." | jaxner show {output}')
