r"""A token classifier of transformers in jaxner, beside transformers, on one core.

    taskset -c 0 python -m benchmarks.hub FOLDER --dataset conll2003 --limit 1000
    taskset -c 0 python -m benchmarks.hub FOLDER --text FILE --batch 32
    taskset -c 0 python -m benchmarks.hub minilm/encoder --random 12 768

FOLDER is as of save_pretrained; `--random` takes its tokenizer, and random weights of
so many layers and features. Texts are sentences of dev, or lines of a file.

The first table compares scores at the first piece of each word, labels, and entities
with those of `pipeline(aggregation_strategy="first")`, for the words that this sees:
where its labels are well-formed, and elsewhere. The second has words per second of the
processor's time, from texts to entities with probabilities, and peak memory. Each rival
has a process of its own: "ONNX Runtime" is optimum's export in the pipeline, "spaCy"
the encoder of spacy-transformers alone.
"""

import collections
import contextlib
import functools
import importlib
import importlib.util
import itertools
import operator
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import jaxner
from benchmarks import measure, worker
from jaxner import models, outputs, tagging
from jaxner.data import schemes
from jaxner.errors import optional

RIVALS = {"pipeline": "torch", "ONNX Runtime": "optimum", "spaCy": "spacy_transformers"}
"""What each rival needs, besides torch and transformers."""


def load(folder: str, is_onnx: bool = False) -> tuple[Any, Any, Callable[..., Any]]:
    """Returns the classifier, its tokenizer and the pipeline, which is of both."""
    torch, t = map(importlib.import_module, ("torch", "transformers"))
    cores = len(os.sched_getaffinity(0))
    torch.set_num_threads(cores)
    # Our words, too, have a space before the first one.
    tokenizer = t.AutoTokenizer.from_pretrained(folder, add_prefix_space=True)
    splitter = tokenizer.backend_tokenizer.pre_tokenizer
    if hasattr(splitter, "add_prefix_space"):  # ModernBERT's ignores the option
        splitter.add_prefix_space = True
    if is_onnx:
        session: Any = importlib.import_module("onnxruntime").SessionOptions()
        session.intra_op_num_threads = cores
        kind = importlib.import_module("optimum.onnxruntime")
        kind, extra = kind.ORTModelForTokenClassification, {"session_options": session}
        model = kind.from_pretrained(folder, export=True, **extra)
    else:
        model = t.AutoModelForTokenClassification.from_pretrained(folder).float()
    options = {"aggregation_strategy": "first", "device": "cpu"}
    pair = {"model": model, "tokenizer": tokenizer}
    return model, tokenizer, t.pipeline("token-classification", **pair, **options)


def finder(name: str, folder: str) -> Callable[..., Any]:
    """Returns a rival's function from texts to entities."""
    if name == "spaCy":
        nlp: Any = importlib.import_module("spacy").blank("en")
        config = {"@architectures": "spacy-transformers.TransformerModel.v3"}
        spans = {"@span_getters": "spacy-transformers.doc_spans.v1"}
        config |= {"name": folder, "get_spans": spans}
        nlp.add_pipe("transformer", config={"model": config})
        nlp.initialize()
        return lambda texts, batch_size: [*nlp.pipe(texts, batch_size=batch_size)]
    if name != "jaxner":
        return load(folder, name == "ONNX Runtime")[2]
    tagger = jaxner.from_pretrained(folder)
    has_spans = tagger.vocabulary.scheme != schemes.TAGS

    def find(texts: Sequence[str], batch_size: int) -> None:
        tagger.vocabulary.forget()  # as if the text were new
        for start in range(0, len(texts), batch_size):
            part = texts[start : start + batch_size]
            if has_spans:
                tagger.entities(part, raw=True, split_sentences=False)
            else:
                tagger.tag([text.split() for text in part])

    return find


def tag(turn: Callable[[float], None], task: Any) -> None:
    """Tags all texts in each turn."""
    find = finder(task["name"], task["folder"])
    while True:
        start = time.process_time()
        find(task["texts"], batch_size=task["batch"])
        turn(time.process_time() - start)


def words_of(text: str, reader: Any) -> list[tuple[int, int]]:
    """Returns where the words are that the pipeline sees."""
    if not getattr(reader.backend_tokenizer.model, "continuing_subword_prefix", None):
        return [match.span() for match in re.finditer(r"\S+", text)]
    encoding = reader(text, return_offsets_mapping=True, add_special_tokens=False)
    pieces = zip(encoding.word_ids(), encoding["offset_mapping"], strict=True)
    groups = (list(x) for _, x in itertools.groupby(pieces, lambda piece: piece[0]))
    return [(group[0][1][0], group[-1][1][1]) for group in groups]


def scores_of(tagger: Any, sentence: Any, key: Any) -> Any:
    """Computes the classifier's scores of a sentence, [T, L]."""
    predicted: Any = models.predict(tagger.model, tagger.weights, sentence, key)
    return predicted.emissions


def agreement(folder: str, texts: list[str]) -> Any:
    """Returns how far scores, labels and entities are those of transformers."""
    torch, tagger = importlib.import_module("torch"), jaxner.from_pretrained(folder)
    (model, reader, pipeline), pieces = load(folder), tagger.vocabulary.pieces
    assert pieces is not None
    spans, scheme = functools.partial(words_of, reader=reader), tagger.vocabulary.scheme
    tokens = [[text[a:b] for a, b in spans(text)] for text in texts]
    scores, labels = tagging.over(scores_of, tagger, tokens), tagger.tag(tokens)
    options: Any = {"raw": True, "tokenizer": spans, "split_sentences": False}
    has_spans = scheme != schemes.TAGS
    mentions = tagger.entities(texts, **options) if has_spans else []
    counts: collections.Counter[str] = collections.Counter(texts=len(texts))
    gaps = [0.0]
    for i, (text, words) in enumerate(zip(texts, tokens, strict=True)):
        batch = reader(words, is_split_into_words=True, return_tensors="pt")
        if batch["input_ids"].shape[1] > pieces.max_length:
            counts["too long for the pipeline"] += 1
            continue
        ids = batch.word_ids()
        indices = [j for j in range(len(words)) if j in ids]  # others have no pieces
        with torch.inference_mode():
            logits = model(**batch).logits[0].numpy()[[ids.index(j) for j in indices]]
        gaps.append(float(np.abs(scores[i][indices] - logits).max(initial=0)))
        best = [tagger.labels[j] for j in logits.argmax(axis=1)]
        counts["words"] += len(indices)
        names = (labels[i][j] for j in indices)
        counts["equal labels"] += sum(map(operator.eq, names, best))
        if not has_spans:
            continue
        entities = []
        for x in pipeline(text):  # ModernBERT's words have the space before them
            size = len(text[x["start"] : x["end"]].lstrip())
            entities.append((x["end"] - size, x["end"], x["entity_group"]))
        spans_of_text = [(x.start_char, x.end_char, x.type) for x in mentions[i]]
        kind = "ill-formed" if schemes.violations(best, scheme) else "well-formed"
        counts[f"{kind} texts"] += 1
        counts[f"{kind} texts, equal entities"] += spans_of_text == entities
    rows = [{"": name, "number": number} for name, number in counts.items()]
    return [*rows, {"": "largest difference of scores", "number": f"{max(gaps):.1e}"}]


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
    parser = measure.parser(__doc__)
    parser.add_argument("folder", help="a token classifier's")
    parser.add_argument("--text", type=Path, help="file with a text in each line")
    parser.add_argument("--batch", type=int, nargs="*", default=[1, 32])
    parser.add_argument("--random", type=int, nargs=2, metavar=("LAYERS", "FEATURES"))
    options = measure.parse(parser, argv)
    optional("torch", "benchmarks.hub", "transformers")
    report, folder = measure.Report(options.json), str(Path(options.folder).resolve())
    if options.text:
        lines = outputs.read_text(options.text).splitlines()
        texts = [line for line in lines if line.strip()][: options.limit or None]
    else:
        sentences = measure.load(options.dataset, "dev", options.limit)
        texts = [" ".join(tokens) for tokens, _ in sentences]
    count = sum(len(text.split()) for text in texts)
    names = ["jaxner", *(x for x in RIVALS if importlib.util.find_spec(RIVALS[x]))]
    with tempfile.TemporaryDirectory() as temporary:
        if options.random:
            write_random(folder, *options.random, output=temporary)
            folder = temporary
        report.table("agreement", agreement(folder, texts))
        for batch in options.batch:
            task = {"folder": folder, "texts": texts, "batch": batch}
            start = functools.partial(measure.Worker, measure.ROOT, "tag", "hub.py")
            with contextlib.ExitStack() as stack:
                workers = {
                    name: stack.enter_context(start(name=name, **task))
                    for name in names
                }
                measure.compare(workers, options.rounds)
                # Other work on the machine changes the processor's time less.
                seconds = {
                    name: [x.steps[0], *x.steps[-options.rounds :]]
                    for name, x in workers.items()
                }
                rows = measure.rows(seconds, count, "words", names[1:])
                for row in rows:
                    pid = workers[row["system"]].pid
                    row["peak, MiB"] = measure.megabytes(pid, "VmHWM")
            report.table(f"batch {batch}, {count:,} words", rows)


if __name__ == "__main__":
    worker.main(tag=tag) if sys.argv[1:2] == ["tag"] else main()
