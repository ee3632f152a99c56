"""Large files: records in order, none lost or written twice, errors with their line."""

import contextlib
import dataclasses
import gzip
import io
import json
import sys
from pathlib import Path

import jax
import pytest

import jaxner
from jaxner import __main__ as program
from jaxner import outputs, stream, tagging, terminal
from jaxner.data import formats, schemes, sources
from jaxner.data.formats import RAW
from jaxner.data.sources import Source
from jaxner.errors import InputError
from jaxner.stream import Sink

# --- Reading and writing records -----------------------------------------------------


@pytest.fixture
def source(file, monkeypatch):
    """A file to tag, whose lines have a limited length."""

    def make(text, max_line=200, **options):
        monkeypatch.setattr(sources, "MAX_LINE", max_line)
        options = formats.Options(**{"split_sentences": True, **options})
        return Source(file(text, "in"), options, has_labels=False)

    return make


@pytest.fixture
def records(source):
    """The records of a text, each with its sentences and errors."""

    def read(text, format, **options):
        texts = source(text, **options)
        return [(record, *texts.parse(record)) for record in RAW[format](texts)]

    return read


@pytest.fixture
def write(records):
    """The output if each token but the first of a sentence is an entity."""

    def write(text, format, target, **options):
        sink, parts = Sink(format, target), []
        for record, sentences, _ in records(text, format, **options):
            labels = [["O", *["B-X"] * (len(x.tokens) - 1)] for x in sentences]
            answers = [(*pair, None) for pair in zip(sentences, labels, strict=True)]
            parts.append(sink.text(record, answers))
        return "".join(parts)

    return write


def test_lines_of_text_are_cut_as_entities_cuts_them(records, write):
    lines = records("Rome wins. Ajax too.\n\n  Yes\r\n", "text")
    sources = [(record.line, record.lines) for record, *_ in lines]
    assert sources == [(1, ["Rome wins. Ajax too."]), (3, ["  Yes"])]
    pieces = [(p.start, p.tokens) for p in lines[0][1]]
    assert pieces == [(0, ("Rome", "wins", ".")), (11, ("Ajax", "too", "."))]
    (wide,) = records("é\n".encode("utf-16"), "text", encoding="utf-16")
    assert wide[1][0].tokens == ("é",)
    (whole,) = records(text := " Rome wins. Yes. ", "text", split_sentences=False)
    assert [example.text for example in whole[1]] == [text]
    longest = records("a" * 200 + "\nb\n", "text")  # as long as a line may be
    assert [(r.lines, bad) for r, _, bad in longest] == [(["a" * 200], []), (["b"], [])]
    assert write("A B", "text", "conll") == "A\tO\nB\tB-X\n\n"


def test_columns_are_kept_and_get_one_more(records, write, monkeypatch):
    text = "-DOCSTART- -X-\n\na NN\nb VB\n\n\nc\tNN\nd\tVB"
    expected = "-DOCSTART- -X-\n\na NN O\nb VB B-X\n\nc\tNN\tO\nd\tVB\tB-X\n\n"
    assert write(text, "conll", "conll") == expected
    places = [(r.line, r.document) for r, *_ in records(text, "conll")]
    assert places == [(1, 1), (3, 1), (7, 1)]
    objects = write(text, "conll", "jsonl").splitlines()
    right = {"document": 1, "tokens": ["a", "b"], "labels": ["O", "B-X"]}
    assert json.loads(objects[0]) == right
    text = "# id = 1\n# by x\na NN\n# NN\n\n# end\n"
    expected = "# id = 1\n# by x\na NN O\n# NN B-X\n\n# end\n\n"
    assert write(text, "conll", "conll", comments="# ") == expected
    with monkeypatch.context() as patch:
        patch.setattr(formats, "MAX_TOKENS", 3)  # a block's lines are kept in memory
        text = "".join(f"# {n}\n" for n in range(9)) + "a NN\n"
        *_, last = records(text, "conll", comments="# ")
        assert last[1][0].tokens == ("a",)
        lines = write(text, "conll", "conll", comments="# ").split("\n")
        assert [*filter(None, lines)] == [*text.splitlines()[:9], "a NN O"]
        long, short = records("a NN\n" * 9 + "\nb NN\n", "conll")
        assert (len(long[0].lines), short[1][0].tokens) == (4, ("b",))
        (long,) = records("# 1\n# 2\n" + "a NN\n" * 9, "conll", comments="# ")
        assert long[0].lines == ["# 1", "# 2", *["a NN"] * 4]  # too long, and not cut
    ((_, (sentence,), _),) = records("1 a\n2 b\n", "conll", token_column=-1)
    assert sentence.tokens == ("a", "b")
    for old, name in (("label", "label"), ("labels", "gold")):
        text = f"\n1 Token {old}\n1 a O\n2 b O\n"
        expected = f"1 Token {name} labels\n\n1 a O O\n2 b O B-X\n\n"
        assert write(text, "conll", "conll") == expected
    # A header may name documents and sentences, too.
    text = "doc sent word tag\n1 1 a O\n1 2 b O\n2 2 c O\n"
    assert [r.document for r, *_ in records(text, "conll")] == [0, 1, 1, 2]
    expected = "doc sent word tag labels\n\n1 1 a O O\n\n1 2 b O O\n\n2 2 c O O\n\n"
    for blank in " \t":
        result = write(text.replace(" ", blank), "conll", "conll")
        assert result == expected.replace(" ", blank)
    # It may name no labels; but a first word in capitals is no name.
    for head, row in (("word pos", "a N"), ("sent word", "1 a"), ("token", "a")):
        text = write(f"{head}\n{row}\n", "conll", "conll")
        assert text == f"{head} labels\n\n{row} O\n\n"
    text = "Words NNS word\nb c d\n"
    assert write(text, "conll", "conll") == "Words NNS word O\nb c d B-X\n\n"


def test_objects_keep_their_other_fields(write):
    def converted(**record):
        return json.loads(write(json.dumps(record), "jsonl", "jsonl"))

    words = {"id": 7, "tokens": ["a", "b"], "label": "spam"}
    assert converted(**words, labels=["O", "O"]) == {**words, "labels": ["O", "B-X"]}
    text = {"text": "  A B", "id": "é"}
    spans = [{"start": 4, "end": 5, "label": "X", "text": "B"}]
    for name in ("spans", "label", "labels", "entities", "annotations"):
        result = converted(**text, answer="accept", **{name: [[0, 9, "wrong"]]})
        assert result == {**text, "spans": spans}
    assert "é" in write('{"text": "é"}', "jsonl", "jsonl")


def test_documents_of_objects_as_columns(write):
    rows = [("x", "a"), ("x", "b"), (None, "c"), ("y", "d")]
    fields = [{"tokens": [t]} | ({"document": d} if d else {}) for d, t in rows]
    text = write("\n".join(map(json.dumps, fields)), "jsonl", "conll")
    mark = "-DOCSTART-\n\n"
    assert text == f"{mark}a\tO\n\nb\tO\n\nc\tO\n\n{mark}d\tO\n\n"


@pytest.mark.parametrize(
    ("text", "format", "line"),
    [
        (b"a\n\xe9\nb\n", "text", 2),
        ("a\n" + "b" * 99 + "\nc\n", "text", 2),
        ("a x\n\nb\nc\n\nd x\n", "conll", 3),
        ("a x\n\n\t\tx\n\nd x\n", "conll", 3),
        ('{"tokens": ["a"]}\n{\n{"tokens": ["b"]}', "jsonl", 2),
        ('{"text": "a"}\n{"x": 1}\n{"text": "b"}', "jsonl", 2),
        ('{"text": "a"}\n[{"text": "x"}]\n{"text": "b"}', "jsonl", 2),
    ],
)
def test_bad_records_have_their_line_and_the_others_come(records, text, format, line):
    columns = {"token_column": 1} if format == "conll" else {}
    first, bad, last = records(text, format, max_line=64, **columns)
    assert first[2] == last[2] == bad[1] == []
    assert (bad[0].line, bool(bad[2])) == (line, True)


# --- Runs ----------------------------------------------------------------------------

LINES = [f"line {i} " + "x " * (i % 7) for i in range(60)]
TEXT = "\n".join(LINES)


@pytest.fixture
def stub(monkeypatch):
    """A tagger that computes nothing, of short lines: each token's label is O."""
    monkeypatch.setattr(sources, "MAX_LINE", 200)
    vocabulary, _ = jaxner.build_vocabulary([["line"]], ["X"], scheme="BIO")
    tagger = object.__new__(jaxner.Tagger)
    for name, value in (("vocabulary", vocabulary), ("model", None), ("asked", [])):
        object.__setattr__(tagger, name, value)

    def tag(params, sentences, documents=None, **_):
        tagger.asked.append(documents)
        return [["O"] * len(sentence.words) for sentence in sentences]

    monkeypatch.setattr(tagging, "tag", tag)
    return tagger


def go(stub, path, text=TEXT, rejects=None, overwrite=False, **options):
    keywords = {"rejects": rejects, "overwrite": overwrite}
    inputs = Path(path).with_name("in")
    inputs.write_text(text)
    split = formats.Options(split_sentences=True)
    source = Source(inputs, split, has_labels=False)
    with outputs.Output(path, {}, **keywords) as output:
        options, sink = {"chunk": 16, **options}, Sink("text", "conll")
        return stream.tag_file(stub, source, sink, output, **options)


def stop(progress):
    if progress.records > 20:
        raise KeyboardInterrupt


def texts(path):
    blocks = path.read_text().split("\n\n")[:-1]
    return [" ".join(row.split("\t")[0] for row in b.splitlines()) for b in blocks]


EXPECTED = [" ".join(line.split()) for line in LINES]


def test_documents_stay_together(stub, source, tmp_path):
    vocabulary, _ = jaxner.build_vocabulary([["line"]], ["X"], documents=True)
    object.__setattr__(stub, "vocabulary", vocabulary)
    document = "a b c\nd e f\n\n"
    text = "".join(f"-DOCSTART- O\n\n{document * n}" for n in (5, 1, 1, 1, 1))
    text = document * 4 + text
    with outputs.Output(tmp_path / "a", {}) as output:
        stream.tag_file(stub, source(text), Sink("conll", "conll"), output, chunk=6)
    assert stub.asked == [[(0,), (1,)], [(2,), (3,)], [1] * 5, [2, 3], [4, 5]]
    rows = (tmp_path / "a").read_text().splitlines()
    assert rows.count("-DOCSTART- O") == 5
    assert rows.count("a b c O") == 13
    # Of one with a bad record, nothing is tagged before that is mended.
    stub.asked.clear()
    bad = f"{document}-DOCSTART- O\n\n{document * 2}{'x' * 300} y z\n\n{document}"
    for text in (bad, bad, bad.replace("x" * 300, "x")):
        with contextlib.suppress(InputError), outputs.Output(tmp_path / "c", {}) as out:
            stream.tag_file(stub, source(text), Sink("conll", "conll"), out)
    assert stub.asked == [[(0,)], [1] * 4]
    # Each text is a document, as for `entities`; each bare sentence, too.
    stub.asked.clear()
    go(stub, tmp_path / "b", text="One. Two.\nThree.", chunk=100)
    ((first, second, third),) = stub.asked
    assert first == second != third


@pytest.mark.parametrize(
    ("format", "text"),
    [("jsonl", '{"tokens": ["-DOCSTART-", "Rome"]}\n'), ("conll", "a X\nb\tX\n")],
)
def test_what_columns_would_not_give_back_is_a_bad_record(
    stub, source, tmp_path, format, text
):
    output, sink = outputs.Output(tmp_path / "a", {}), Sink(format, "conll")
    sink = sink._replace(labels=["O", "B-full name"])
    with output, pytest.raises(InputError, match=r"in:1: columns .*cannot hold"):
        stream.tag_file(stub, source(text), sink, output)


def test_each_shard_has_the_header(stub, source, tmp_path):
    """And each row its own separator."""
    texts = source("word tag\na X\n\nb\tX\nc X\n")
    with outputs.Output(tmp_path / "a", {}) as output:
        stream.tag_file(stub, texts, Sink("conll", "conll"), output, shard=(1, 2))
    assert (tmp_path / "a").read_text() == "word tag labels\n\na X O\n\n"
    texts = source("a X\n\nb\tX\nc X\n")
    with outputs.Output(tmp_path / "b", {}) as output:
        stream.tag_file(stub, texts, Sink("conll", "conll"), output)
    assert (tmp_path / "b").read_text() == "a X O\n\nb\tX\tO\nc X O\n\n"


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_progress_says_how_much_is_left(file, ending):
    rows = "\n".join(str(hash((i, 0.5))) for i in range(40_000))
    path = file(gzip.compress(rows.encode()) if ending else rows, f"in{ending}")
    text = Source(path, formats.Options(), has_labels=False)
    lines = text.lines()
    for _ in range(20_000):
        next(lines)
    assert 0.4 < text.share < 0.7
    assert len([*lines]) == 20_000
    assert text.share == 1
    progress = stream.Progress()
    progress._start -= 60
    progress.tokens, progress.share = 120, 0.5
    assert progress.summary().endswith("tokens/s, 50% of the input, 1 min left")


@pytest.mark.parametrize("format", ["text", "jsonl"])
def test_only_records_to_tag_are_parsed(stub, source, tmp_path, format):
    """Neither those of other shards nor those that are done."""
    calls = []

    def split(text):
        calls.append(text)
        return text.split()

    lines = [json.dumps({"text": x}) for x in LINES] if format == "jsonl" else LINES
    options = {"sink": Sink(format, "conll"), "chunk": 16, "shard": (1, 3)}
    for log in (stop, lambda progress: None):
        texts = source("\n".join(lines), tokenizer=split, split_sentences=False)
        with (
            contextlib.suppress(KeyboardInterrupt),
            outputs.Output(tmp_path / "out", {}) as output,
        ):
            stream.tag_file(stub, texts, output=output, log=log, **options)
    assert {*calls} == {*LINES[1::3]}
    assert len(calls) <= len(LINES[1::3]) + 1  # that after the last part, twice


def test_bad_records_end_a_run_that_goes_on_once_they_are_mended(stub, tmp_path):
    path = tmp_path / "a"
    bad = "\n".join([*LINES[:30], "x" * 300, *LINES[30:]])
    for _ in range(2):
        with pytest.raises(InputError, match=r"in:31: a line of more"):
            go(stub, path, text=bad)
        assert json.loads((tmp_path / "a.journal").read_text())["done"]["records"] == 30
    total = go(stub, path, text="\n".join([*LINES[:30], "mended", *LINES[30:]]))
    assert (total.records, total.sentences) == (61, 61)
    assert total.tokens == len([*TEXT.split(), "mended"])
    assert texts(path) == [*EXPECTED[:30], "mended", *EXPECTED[30:]]
    path.unlink()
    progress = go(stub, path, text=bad, rejects=tmp_path / "bad")
    assert texts(path) == EXPECTED
    row = json.loads((tmp_path / "bad").read_text())
    assert (row["line"], row["record"], progress.bad) == (31, "x" * 201, 1)
    assert "more than 200" in row["problem"]
    assert "0 tokens/s, 1 bad" in stream.Progress(31, 0, 30, 60, 1).summary()
    parts, many = [], "\n".join(["x" * 300] * 40)  # which memory need not hold
    go(stub, tmp_path / "b", many, tmp_path / "many", log=lambda x: parts.append(x.bad))
    assert parts[0] < parts[-1] == 40
    path.unlink()
    with pytest.raises(FileExistsError, match="bad exists"):
        go(stub, path, text=bad, rejects=tmp_path / "bad")


def test_another_run_does_not_go_on_with_this_one(stub, tmp_path):
    path = tmp_path / "a"
    with pytest.raises(KeyboardInterrupt):
        go(stub, path, log=stop)
    with pytest.raises(InputError, match=r"first \d\d records .* changed"):
        go(stub, path, text=TEXT.replace("line 3", "line three"))
    with pytest.raises(InputError, match="records of the input have changed"):
        go(stub, path, text="a\nb")
    go(stub, path, overwrite=True)
    assert texts(path) == EXPECTED


# --- The command ---------------------------------------------------------------------


def tag(workdir, source, output, *options):
    arguments = [workdir, source, "--output", output]
    program.main(["tag", *map(str, [*arguments, *options])])


def test_the_command_labels_as_tag_does(tiny_run, params, dev, tmp_path):
    examples = dev.examples[:12]
    source = tmp_path / "in.conll.gz"
    text = "".join("".join(f"{t}\n" for t in e.tokens) + "\n" for e in examples)
    source.write_bytes(gzip.compress(text.encode()))
    for shard in ("0/2", "1/2"):
        tag(tiny_run, source, tmp_path / "out-{shard}.conll", "--shard", shard)
    expected = jaxner.tag(params, [list(e.tokens) for e in examples])
    for i in range(2):
        rows = (tmp_path / f"out-{i}.conll").read_text().split("\n\n")[:-1]
        labels = [[row.split(" ")[1] for row in s.splitlines()] for s in rows]
        assert labels == expected[i::2]
    weights = jax.tree.map(lambda leaf: leaf + 1, params.weights)
    for change in ({"weights": weights}, {"temperature": 2.0}):  # is another tagger
        other = dataclasses.replace(params, **change)
        assert stream.identity(params) != stream.identity(other)


def test_the_command_writes_the_entities_of_texts(tiny_run, params, dev, tmp_path):
    """Both cut a text into the same sentences, and give the same probabilities."""
    source, output = tmp_path / "in.txt", tmp_path / "out.jsonl"
    parts = [" ".join(e.tokens) for e in dev.examples[:20]]
    texts = [" ".join(parts[i : i + 2]) for i in range(0, 20, 2)]
    source.write_text("\n".join(texts))
    for wrong in ("1.5", "FOO=0.5", "PER=-1", "calibrated"):
        with pytest.raises(SystemExit):
            tag(tiny_run, source, output, f"--min-probability={wrong}")
    with pytest.raises(InputError, match="no probabilities"):
        stream.checked_least(params, Sink("text", "jsonl", True), {"FOO": 0.5})
    assert [*tmp_path.iterdir()] == [source]
    tag(tiny_run, source, output, "--min-probability=0.2")
    lines = [json.loads(line) for line in output.read_text().splitlines()]
    assert [line["text"] for line in lines] == texts
    lists = jaxner.entities(params, texts, raw=True, min_probability=0.2)
    for line, entities in zip(lines, lists, strict=True):
        for span, entity in zip(line["spans"], entities, strict=True):
            probability = span.pop("probability")
            assert probability == pytest.approx(entity.probability, abs=1e-4)
            offsets = {"start": entity.start_char, "end": entity.end_char}
            assert span == {**offsets, "label": entity.type, "text": entity.text}
    assert any(lists)
    tag(tiny_run, source, tmp_path / "a.conll", "--min-probability=0.5")
    firsts = [x[0] for x in (tmp_path / "a.conll").read_text().split("\t")[1:]]
    assert firsts.count("B") + firsts.count("S") == sum(
        entity.probability >= 0.5 for entities in lists for entity in entities
    )
    assert {*firsts} <= {*"OBIES"}
    result = formats.read(output).examples  # as any other file of spans
    starts = [label for e in result for label in e.labels if label[0] in "BS"]
    assert len(starts) == sum(map(len, lists))


def untrained(words, scheme, constrained):
    vocabulary, _ = jaxner.build_vocabulary([words], ["X"], scheme=scheme)
    head = {"name": "crf", "constrained": constrained}
    parts = {"representation": {"words": {"dim": 8}}, "encoder": {"name": "identity"}}
    model = jaxner.build(vocabulary, head=head, **parts)
    weights = jax.tree.map(lambda x: 3 * x, jaxner.init(model, jax.random.key(0)))
    return jaxner.Tagger(weights, model, vocabulary)


def test_labels_in_json_are_those_of_tag_ill_formed_ones_too(tmp_path, run):
    words = [f"w{i}" for i in range(60)]
    jaxner.save(tmp_path / "tagger", tagger := untrained(words, "BIO", False))
    labels = jaxner.tag(tagger, words)
    assert schemes.violations(labels, "BIO")
    (tmp_path / "in.jsonl").write_text(json.dumps({"tokens": words}))
    run("tag", tmp_path / "tagger", tmp_path / "in.jsonl", "-o", tmp_path / "a.jsonl")
    assert json.loads((tmp_path / "a.jsonl").read_text())["labels"] == labels


@pytest.mark.parametrize("scheme", ["IOB1", "IOE1"])
def test_labels_are_well_formed_without_improbable_entities(scheme, tmp_path, run):
    """There a label depends on whether the entity beside it was left out."""
    words = [f"w{i}" for i in range(60)]
    tagger, output = tmp_path / "tagger", tmp_path / "out.conll"
    jaxner.save(tagger, untrained(words, scheme, True))
    (source := tmp_path / "in.conll").write_text("\n".join(words))
    counts = []
    for least in (0.0, 0.6):
        line = "tag", tagger, source, f"--min-probability={least}", "--overwrite"
        assert run(*line, "-o", output)[0] == 0
        labels = [row.split()[1] for row in output.read_text().splitlines() if row]
        assert not schemes.violations(labels, scheme)
        counts.append(len(schemes.to_spans(labels)))
    assert counts[0] > counts[1] > 0


def test_standard_input_and_bad_records(tiny_run, tmp_path, capfd, monkeypatch):
    data = "Ms Preston left.\n\xe9\nYes.\n".encode("latin-1")

    def standard_input():
        return io.TextIOWrapper(io.BufferedReader(io.BytesIO(data)))

    monkeypatch.setattr(sys, "stdin", standard_input())
    with pytest.raises(SystemExit):
        tag(tiny_run, "-", "-")
    result = capfd.readouterr()
    assert json.loads(result.out)["text"] == "Ms Preston left."
    assert all(word in result.err for word in ("0xe9", "--encoding,"))
    for overwrite in ([], ["--overwrite"]):
        monkeypatch.setattr(sys, "stdin", standard_input())
        tag(tiny_run, "-", "-", "--rejects", tmp_path / "bad", *overwrite)
        lines = capfd.readouterr().out.splitlines()
        texts = [json.loads(line)["text"] for line in lines]
        assert texts == ["Ms Preston left.", "Yes."]
        assert json.loads((tmp_path / "bad").read_text())["line"] == 2


@pytest.mark.parametrize("form", ["conll", "jsonl", "jsonl-spans"])
def test_gold_labels_are_scored_while_tagging(form, tiny_run, corpus, tmp_path, run):
    """The figures are those of the labels that are written, and of `evaluate`."""
    source, output = tmp_path / f"in.{form[:5]}", tmp_path / "out.conll"
    run("convert", corpus / "dev.conll", f"--to={form}", "--scheme=IOB1", "-o", source)
    line = "tag", tiny_run, source, "--gold", "--json", "-q", "-o"
    status, text = run(*line, output)
    result = json.loads(text)
    assert (status, result["records"] > 0) == (0, True)
    _, text = run("evaluate", tiny_run, "--json", "-q", "--rule=conlleval")
    if form != "jsonl-spans":  # whose texts are cut into other tokens
        assert result["scores"]["f1"] == json.loads(text)["f1"] > 0
    if form == "conll":
        _, text = run("score", output, "--json", "-q", "--rounds=5")
        assert json.loads(text)["f1"] == result["scores"]["f1"]
    _, text = run(*line, tmp_path / "none.conll", "--min-probability=1")
    assert json.loads(text)["scores"]["predicted"] == 0
    if form == "conll":  # read as elsewhere, errors, too
        source.write_text("Ms O\nRome LOC\n")
        assert run(*line, tmp_path / "bare.conll")[0] == 0
        source.write_text("Rome B-LOC\nfell o\n")
        assert f"{source}:2: " in run(*line, tmp_path / "wrong.conll")[1]
    source.write_text("")
    assert "no sentence to score" in run(*line, tmp_path / "empty.conll")[1]


def test_gold_labels_need_the_whole_file(tiny_run, corpus, tmp_path, run, monkeypatch):
    line = "tag", tiny_run, corpus / "dev.conll", "--gold", "-o", tmp_path / "a.conll"
    with monkeypatch.context() as patch:
        patch.setattr(terminal.ProgressLine, "__call__", lambda *_: 1 / 0)  # as a kill
        with pytest.raises(ZeroDivisionError):
            run(*line)
    assert "use --overwrite" in run(*line)[1]
    assert run(*line, "--overwrite")[0] == 0
