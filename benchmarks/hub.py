r"""A token classifier of transformers in jaxner, beside transformers, on one core.

    taskset -c 0 python -m benchmarks.hub FOLDER --dataset conll2003 --limit 1000
    taskset -c 0 python -m benchmarks.hub FOLDER --text FILE --batch 32
    taskset -c 0 python -m benchmarks.hub minilm/encoder --random 12 768

FOLDER is as of save_pretrained; `--random` takes its tokenizer, and random weights of
so many layers and features. Texts are sentences of dev, or lines of a file.

The first table compares scores at the first piece of each word, labels, and entities
with those of `pipeline(aggregation_strategy="first")`, for the words that this sees:
where its labels are well-formed, and elsewhere. The second has words per second from
texts to entities with probabilities, and peak memory. Each rival has a process of its
own: "ONNX Runtime" is optimum's export in the pipeline, "spaCy" the encoder of
spacy-transformers alone.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import itertools
import json
import os
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import jaxner
from benchmarks import measure, worker
from jaxner import models, outputs, tagging
from jaxner.data import schemes

RIVALS = {"pipeline": "torch", "ONNX Runtime": "optimum", "spaCy": "spacy_transformers"}
"""What each rival needs, besides transformers."""
_SHOWN = 3  # texts whose entities differ


def classifier(folder: str) -> tuple[Any, Any]:
    """Returns PyTorch's model and a tokenizer with a space before the first word."""
    torch, t = map(importlib.import_module, ("torch", "transformers"))
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    model = t.AutoModelForTokenClassification.from_pretrained(folder)
    cut = t.AutoTokenizer.from_pretrained(folder, add_prefix_space=True)
    return model.float().eval(), cut


def pipeline(model: Any, cut: Any) -> Callable[..., Any]:
    """Returns transformers' function from texts to entities."""
    make = importlib.import_module("transformers").pipeline
    options = {"aggregation_strategy": "first", "device": "cpu"}
    return make("token-classification", model=model, tokenizer=cut, **options)


def jaxner_(folder: str) -> Callable[..., Any]:
    """Returns our function from texts to entities."""
    tagger = jaxner.from_pretrained(folder)

    def find(texts: Sequence[str], batch_size: int) -> None:
        tagger.vocabulary.forget()  # as if the text were new
        for start in range(0, len(texts), batch_size):
            part = texts[start : start + batch_size]
            tagger.entities(part, raw=True, split_sentences=False)

    return find


def onnx(folder: str) -> Callable[..., Any]:
    """Returns the pipeline with a classifier in ONNX Runtime."""
    made: Any = importlib.import_module("onnxruntime").SessionOptions()
    made.intra_op_num_threads = len(os.sched_getaffinity(0))
    kind = importlib.import_module("optimum.onnxruntime").ORTModelForTokenClassification
    model = kind.from_pretrained(folder, export=True, session_options=made)
    return pipeline(model, classifier(folder)[1])


def spacy(folder: str) -> Callable[..., Any]:
    """Returns spaCy's function from texts to documents with the encoder's states."""
    nlp: Any = importlib.import_module("spacy").blank("en")
    model = {"@architectures": "spacy-transformers.TransformerModel.v3", "name": folder}
    model["get_spans"] = {"@span_getters": "spacy-transformers.doc_spans.v1"}
    nlp.add_pipe("transformer", config={"model": model})
    nlp.initialize()
    return lambda texts, batch_size: [*nlp.pipe(texts, batch_size=batch_size)]


def tag(turn: Callable[[float], None], task: Any) -> None:
    """Tags all texts in each turn."""
    functions = {"jaxner": jaxner_, "ONNX Runtime": onnx, "spaCy": spacy}
    functions["pipeline"] = lambda folder: pipeline(*classifier(folder))
    find = functions[task["name"]](task["folder"])
    texts = json.loads(Path(task["texts"]).read_text("utf-8"))
    while True:
        find(texts, batch_size=task["batch"])
        turn(0.0)


def words_of(text: str, cut: Any) -> list[tuple[int, int]]:
    """Returns where the words are that the pipeline sees."""
    if not getattr(cut.backend_tokenizer.model, "continuing_subword_prefix", None):
        return [match.span() for match in re.finditer(r"\S+", text)]
    read = cut(text, return_offsets_mapping=True, add_special_tokens=False)
    pieces = zip(read.word_ids(), read["offset_mapping"], strict=True)
    groups = (list(x) for _, x in itertools.groupby(pieces, lambda piece: piece[0]))
    return [(group[0][1][0], group[-1][1][1]) for group in groups]


def scores_of(tagger: Any, sentence: Any, key: Any) -> Any:
    """Computes the classifier's scores of a sentence, [T, L]."""
    return models.predict(tagger.model, tagger.weights, sentence, key).emissions


def agreement(folder: str, texts: list[str], say: Callable[[str], None]) -> Any:
    """Returns how far scores, labels and entities are those of transformers."""
    torch, tagger = importlib.import_module("torch"), jaxner.from_pretrained(folder)
    model, cut = classifier(folder)
    scheme, theirs = tagger.vocabulary.scheme, pipeline(model, cut)
    spans = functools.partial(words_of, cut=cut)
    tokens = [[text[a:b] for a, b in spans(text)] for text in texts]
    scores, labels = tagging.over(scores_of, tagger, tokens), tagger.tag(tokens)
    options: Any = {"raw": True, "tokenizer": spans, "split_sentences": False}
    found = None if scheme == schemes.TAGS else tagger.entities(texts, **options)
    counts = dict.fromkeys(("texts", "too long", "words", "equal labels"), 0)
    largest, same = 0.0, {"well-formed": [], "ill-formed": []}
    for i, (text, words) in enumerate(zip(texts, tokens, strict=True)):
        read = cut(words, is_split_into_words=True, return_tensors="pt")
        if read["input_ids"].shape[1] > tagger.vocabulary.pieces.max_length:
            counts["too long"] += 1
            continue
        ids = read.word_ids()
        known = [j for j in range(len(words)) if j in ids]  # others have no pieces
        with torch.inference_mode():
            logits = model(**read).logits[0].numpy()[[ids.index(j) for j in known]]
        largest = max(largest, float(np.abs(scores[i][known] - logits).max()))
        best = [tagger.labels[j] for j in logits.argmax(axis=1)]
        equal = sum(labels[i][j] == label for j, label in zip(known, best, strict=True))
        for name, more in zip(counts, (1, 0, len(known), equal), strict=True):
            counts[name] += more
        if found is None:
            continue
        pair = (
            [(x["start"], x["end"], x["entity_group"]) for x in theirs(text)],
            [(x.start_char, x.end_char, x.type) for x in found[i]],
        )
        kind = "ill-formed" if schemes.violations(best, scheme) else "well-formed"
        same[kind].append(pair[0] == pair[1])
        if pair[0] != pair[1] and sum(x.count(False) for x in same.values()) <= _SHOWN:
            say(f"{text[:60]}… pipeline {pair[0]}, jaxner {pair[1]}")
    row = {**counts, "largest difference": f"{largest:.1e}"}
    for name, equal in same.items():
        row[f"equal entities, {name}"] = f"{sum(equal):,} of {len(equal):,}"
    return row


def write_random(folder: str, layers: int, size: int, output: str) -> None:
    """Writes a classifier with random weights and the tokenizer of a folder."""
    torch, t = map(importlib.import_module, ("torch", "transformers"))
    torch.manual_seed(0)
    names = ["O", *(f"{x}-{kind}" for kind in measure.CONLL_TYPES for x in "BI")]
    sizes: Any = {"num_hidden_layers": layers, "hidden_size": size}
    sizes |= {"intermediate_size": 4 * size, "id2label": dict(enumerate(names))}
    sizes |= {"label2id": {name: i for i, name in enumerate(names)}}
    # With smaller weights, all words have one label.
    config = t.AutoConfig.from_pretrained(folder, **sizes, initializer_range=0.05)
    t.AutoModelForTokenClassification.from_config(config).save_pretrained(output)
    t.AutoTokenizer.from_pretrained(folder).save_pretrained(output)


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the benchmark."""
    made = measure.parser(__doc__)
    made.add_argument("folder", help="a token classifier's")
    made.add_argument("--text", type=Path, help="file with a text in each line")
    made.add_argument("--batch", type=int, nargs="+", default=[1, 32])
    made.add_argument("--random", type=int, nargs=2, metavar=("LAYERS", "FEATURES"))
    options = measure.parse(made, argv)
    has = {x: importlib.util.find_spec(x) for x in ("transformers", *RIVALS.values())}
    if missing := [name for name in ("torch", "transformers") if not has[name]]:
        sys.exit(f"benchmarks.hub needs {' and '.join(missing)}: pip install them")
    report = measure.Report(options.json)
    if options.text:
        lines = outputs.read_text(options.text).splitlines()
        texts = [line for line in lines if line.strip()][: options.limit or None]
    else:
        sentences = measure.load(options.dataset, "dev", options.limit)
        texts = [" ".join(tokens) for tokens, _ in sentences]
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(tempfile.TemporaryDirectory())
        task = {"folder": str(Path(options.folder).resolve())}
        if options.random:
            write_random(task["folder"], *options.random, f"{place}/random")
            task["folder"] = f"{place}/random"
        task["texts"] = f"{place}/texts.json"
        Path(task["texts"]).write_text(json.dumps(texts), "utf-8")
        report.table("agreement", [agreement(task["folder"], texts, report.say)])
        for batch in options.batch:
            names = ["jaxner", *(name for name, needs in RIVALS.items() if has[needs])]
            start = functools.partial(measure.Worker, measure.ROOT, "tag", "hub.py")
            with contextlib.ExitStack() as each:
                workers = {
                    name: each.enter_context(start(name=name, batch=batch, **task))
                    for name in names
                }
                timings = measure.compare(workers, options.rounds)
                memory = [measure.megabytes(x.pid, "VmHWM") for x in workers.values()]
            count = sum(len(text.split()) for text in texts)
            rows = measure.rows(timings, count, "words", names[1:])
            for row, size in zip(rows, memory, strict=True):
                row["peak, MiB"] = size
            report.table(f"batch {batch}, {count:,} words", rows)


if __name__ == "__main__":
    worker.main(tag=tag) if sys.argv[1:2] == ["tag"] else main()
