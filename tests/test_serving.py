"""The service: answers, batches, refusals, its end, and the page in a browser."""

import asyncio
import functools
import gzip
import json
import logging
import random
import re
import shutil
import subprocess
import threading
import time
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import jax
import numpy as np
import pytest

import jaxner
from benchmarks import serving as benchmark
from jaxner.answers.mentions import EntityArrays
from jaxner.data import tokens
from jaxner.data.schemes import label_types
from tests import fence
from tests.marks import CHROMIUM
from tests.test_decoding import tiny

httpx = pytest.importorskip("httpx")
testclient = pytest.importorskip("starlette.testclient")
jsonschema = pytest.importorskip("jsonschema")
openapi = pytest.importorskip("openapi_spec_validator")
from jaxner.serving import Limits, server, service  # noqa: E402
from jaxner.serving.programs import Programs  # noqa: E402
from jaxner.serving.service import Service  # noqa: E402
from tests.slow_model import Slow  # noqa: E402

COSTS = Path("docs/deploy.md").read_text().split("request may cost")[1].split("###")[0]
TEXT = "Rome beat Milan. Mr. Preston left Lakeside."
SENTENCES = [["Rome", "beat", "Milan", "."], [], ["Mr.", "Preston", "fell"]]
SMALL = Limits(5000, 24, 16, 4, max_seconds=5.0, batch_tokens=16)


def service_of(model, limits=SMALL, *options, **parts):
    service = Service(model, limits, *options, **parts)
    steps = []
    model.compile(lambda *counts: steps.append(counts))
    assert steps == [(number, len(steps) - 1) for number in range(len(steps))]
    service.is_ready = True
    return service


def client_of(*options, **parts):
    return testclient.TestClient(service_of(*options, **parts))


@pytest.fixture(scope="module")
def programs(params):
    return Programs(params, SMALL.max_tokens, SMALL.batch_tokens)


@pytest.fixture(scope="module")
def client(programs):
    with client_of(programs) as instance:
        yield instance


def ask(client, path, **body):
    answer = client.post(f"/v1/{path}", json=body)
    assert answer.status_code == 200, answer.text
    content = answer.json()
    assert content["truncated"] is False
    return content["results"]


# --- Answers --------------------------------------------------------------------------


def test_labels_are_those_of_the_library(client, params):
    options = {"n_best": 3, "uncertainty": True, "maps": True}
    results = ask(client, "tag", tokens=SENTENCES, **options)
    labels = [s["labels"] for result in results for s in result["sentences"]]
    assert labels == jaxner.tag(params, SENTENCES)
    tokens, (sentence,) = SENTENCES[0], results[0]["sentences"]
    best = [x.labels for x in jaxner.n_best(params, tokens, 3)]
    assert [x["labels"] for x in sentence["labellings"]] == best
    passes = jaxner.uncertainty(params, tokens, jax.random.key(0), 8)
    for name, values in sentence["uncertainty"].items():
        np.testing.assert_allclose(values, getattr(passes, name), atol=1e-5)
    relations = jaxner.relations(params, tokens)
    np.testing.assert_allclose(sentence["relations"], relations, atol=1e-5)


def test_labellings_have_their_own_probabilities():
    """Passes with dropout order them otherwise than the scores that found them."""
    passes = {"num_samples": 8, "parts": ("representation",)}
    tagger, tokens = tiny("crf", mc_dropout=passes), ["Rome", "beat", "Milan", "x"]
    expected = {tuple(x.labels): x.probability for x in jaxner.n_best(tagger, tokens)}
    with client_of(Programs(tagger, 8, 8)) as client:
        (result,) = ask(client, "tag", tokens=tokens, n_best=10)
    labellings = result["sentences"][0]["labellings"]
    answer = {tuple(x["labels"]): x["probability"] for x in labellings}
    assert answer == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("n_best", [1, 4])
def test_entities_are_those_of_the_library(client, params, n_best):
    for name, text in (("texts", [TEXT, ""]), ("tokens", SENTENCES)):
        results = ask(client, "entities", **{name: text}, n_best=n_best)
        raw = name == "texts"
        expected = jaxner.entities(params, text, raw=raw, n_best=n_best)
        for result, records in zip(results, expected, strict=True):
            for entity, record in zip(result["entities"], records, strict=True):
                chance = pytest.approx(record.probability, abs=1e-5)
                assert entity == record._replace(probability=chance)._asdict()
    for least in (1.0, dict.fromkeys(jaxner.entity_types(params), 1.0)):
        (result,) = ask(client, "entities", texts=TEXT, min_probability=least)
        assert result == {"entities": []}


def test_the_service_has_a_minimum_for_requests_without_one(programs):
    with client_of(programs, least={"PER": 1.0}) as client:
        options = {"texts": TEXT, "n_best": 4}
        (result,) = ask(client, "entities", **options)
        (whole,) = ask(client, "entities", **options, min_probability=0.0)
        assert client.get("/ready").json()["min_probability"] == {"PER": 1.0}
    expected = [e for e in whole["entities"] if e["type"] != "PER"]
    assert result["entities"] == expected != whole["entities"]


def test_the_tokenizer_of_texts_is_that_of_the_command(params):
    programs, text = Programs(params, 8, 8, "characters"), "北京很大。Ajax"
    with client_of(programs) as client:
        (result,) = ask(client, "tag", texts=text)
        (found,) = ask(client, "entities", texts=text)
    sentences = [["北", "京", "很", "大", "。"], [*"Ajax"]]
    assert [s["tokens"] for s in result["sentences"]] == sentences
    expected = jaxner.entities(params, text, tokenizer="characters")
    chances = [e["probability"] for e in found["entities"]]
    assert chances == pytest.approx([e.probability for e in expected], abs=1e-5)


def test_requests_compile_nothing(client, programs):
    rng = random.Random(0)
    words = ["Rome", "beat"] * 9 + ["A" * 30, "é" * 400]
    texts = [rng.choices(words, k=rng.randint(1, 16)) for _ in range(60)]
    programs([programs.job([text], rng.random() < 0.1) for text in texts])
    for text in (["?"], [""], []):
        programs([programs.job([text])])
    assert programs.counts["late"] == 0
    assert 0 < programs.counts["tokens"] < programs.counts["padded"]


def test_a_tagger_of_documents_reads_each_text_as_one():
    tagger = tiny("crf", documents=True)
    text = "Rome fell. It rose."  # with separators, nine tokens
    with client_of(Programs(tagger, 9, 9), Limits(max_tokens=9)) as client:
        (result,) = ask(client, "entities", texts=text)
        longer = {"texts": text.replace("rose", "rose again")}
        error = client.post("/v1/tag", json=longer).json()["error"]
        assert "at most 9 tokens in a document, separators" in error
    places = [(e["start_char"], e["end_char"]) for e in result["entities"]]
    expected = jaxner.entities(tagger, text)
    assert places == [(e.start_char, e.end_char) for e in expected] != []


def test_a_tagger_without_probabilities_gives_labels(tmp_path):
    tagger = jaxner.load(fence.unpack("seq2seq", tmp_path))
    with client_of(Programs(tagger, 8, 8)) as client:
        (result,) = ask(client, "tag", tokens=["Rome", "fell"])
        assert result["sentences"][0]["labels"] == tagger.tag(["Rome", "fell"])
        for path, options in (("entities", {}), ("tag", {"n_best": 2})):
            answer = client.post(f"/v1/{path}", json={"tokens": ["Rome"], **options})
            assert answer.status_code == 422
        # The page asks for entities if there are types.
        assert client.get("/ready").json()["types"] == []


def test_attention_is_that_of_the_library(tmp_path):
    tagger, tokens = jaxner.load(fence.unpack("att_bilstm", tmp_path)), ["Rome", "fell"]
    programs = Programs(tagger, 8, 8)
    job = programs.job([tokens], is_deep=True)
    (arrays,) = programs.cut(programs([job])[0], [tokens])
    heads = np.moveaxis(arrays["attention"], -1, 0)
    np.testing.assert_allclose(heads, jaxner.attention(tagger, tokens), atol=1e-6)


# --- Refusals -------------------------------------------------------------------------

LARGE, LARGER = "9" * 4001, "9" * 4501  # Python reads up to 4,300 digits
CASES = {
    '{"texts": "Ro': (400, "Expected JSON in UTF-8, each name once."),
    "[" * 1000: (400, "Expected JSON in UTF-8"),
    '{"texts": "a", "texts": "b"}': (400, "Expected JSON in UTF-8"),
    json.dumps({"texts": "a"}).encode("utf-16"): (400, "Expected JSON in UTF-8"),
    json.dumps({"texts": "a" * 5000}): (413, "Expected at most 5000 bytes."),
    "{}": (422, 'Expected an object with either "texts" or "tokens".'),
    "[]": (422, "Expected an object"),
    '{"texts": "a", "tokens": ["a"]}': (422, "Expected an object with either"),
    '{"texts": [1]}': (422, "Expected texts as a string or an array of strings."),
    '{"texts": null}': (422, "Expected texts as a string or an array"),
    '{"tokens": "Rome"}': (422, "Expected tokens as an array of strings, or of such"),
    '{"tokens": [["a"], "b"]}': (422, "Expected tokens as an array"),
    '{"tokens": {"a": 1}}': (422, "Expected tokens as an array"),
    '{"tokens": ["a b"]}': (422, 'Expected tokens, got "a b" with white space.'),
    '{"texts": "a", "n_best": 11}': (422, "Expected n_best as whole number at least 1"),
    '{"texts": "a", "n_best": true}': (422, "at most 10, got true"),
    f'{{"texts": "a", "n_best": {LARGE}}}': (422, "Expected n_best as whole number"),
    f'{{"texts": "a", "n_best": {LARGER}}}': (400, "Expected JSON in UTF-8"),
    '{"texts": "a", "min_probability": NaN}': (400, "Expected JSON in UTF-8"),
    '{"texts": "a", "min_probability": 1e999}': (422, "at most 1, got Infinity"),
    '{"texts": "a", "min_probability": null}': (422, "at most 1, got null"),
    '{"texts": "a", "min_probability": {"PER": 2}}': (422, "at most 1, got 2"),
    '{"texts": "a", "min_probability": {"DRAGON": 0.5}}': (422, "Unknown type in min"),
    '{"texts": "a", "maps": 1}': (422, "Expected maps as true or false, got 1"),
    '{"texts": "a", "nbest": 2}': (422, 'Unknown field "nbest"; known: min_prob'),
    json.dumps({"texts": "a", "é'\x00" * 100: 2}): (422, 'Unknown field "'),
    json.dumps({"texts": ["a"] * 25}): (422, "in a request, got 25."),
    json.dumps({"texts": ["a"] * 9, "maps": True}): (422, "got 72; with n_best, "),
    json.dumps({"texts": "a " * 17}): (422, "in a sentence, got 17 in texts[0]."),
    json.dumps({"tokens": [["a"], ["a"] * 18]}): (422, "got 18 in tokens[1]."),
}
PYTHON = r"None|True|False|NaN|Error|\b(list|dict|tuple|str|int|jaxner|raw)\b|\\x"


@pytest.mark.parametrize("path", ["tag", "entities"])
def test_refusals_have_a_status_and_a_reason(client, path):
    for body, (status, reason) in CASES.items():
        body = body if isinstance(body, bytes) else body.encode()
        for content in (body, iter([body])):  # with and without a length
            answer = client.post(f"/v1/{path}", content=content)
            assert answer.status_code == status, (body[:80], answer.text)
            assert [*answer.json()] == ["error"]
            assert reason in answer.json()["error"]
            assert not re.search(PYTHON, answer.json()["error"])
            assert len(answer.content) < 300


def test_http_is_as_its_specifications_say(client):
    for path in ("/v1/tag", "/v1/entities"):
        for method in ("GET", "HEAD", "PUT"):
            answer = client.request(method, path)
            assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    answer = client.post("/ready")
    assert answer.status_code == 405
    assert {*answer.headers["allow"].split(", ")} == {"GET", "HEAD"}
    for path in ("/nothing", "/v1/tag/", "/v1/", "/page/../x", "/script.js/x"):
        for method in ("GET", "POST"):
            answer = client.request(method, path)
            assert answer.status_code == 404
            assert "/openapi.json" in answer.json()["error"]
    for path in ("/", "/health", "/ready", "/metrics", "/openapi.json"):
        answer = client.head(path)
        assert (answer.status_code, answer.content) == (200, b"")
    answer = client.post("/v1/entities", json={"texts": "a", "maps": True})
    assert answer.status_code == 422
    content = gzip.compress(b'{"texts": "a"}')
    headers = {"content-encoding": "gzip"}
    answer = client.post("/v1/tag", content=content, headers=headers)
    assert answer.status_code == 415
    headers = {"content-encoding": "Identity"}
    answer = client.post("/v1/tag", content=b'{"texts": "a"}', headers=headers)
    assert answer.status_code == 200


def test_a_request_has_an_id_in_its_answer_and_in_the_log(client, caplog):
    caplog.set_level(logging.INFO)
    for value in ("a.B-7:_", "two words", "é", "x" * 65, ""):
        headers = {"x-request-id": value.encode()}
        answer = client.post("/v1/tag", json={"texts": "Rome"}, headers=headers)
        name = answer.headers["x-request-id"]
        assert (name == value) == (value == "a.B-7:_")
        assert f"{name} - /v1/tag 200" in caplog.text  # of no address


async def together(service, bodies, seconds=0.0):
    """Returns the answers to requests that come one after another."""
    transport = httpx.ASGITransport(service)
    async with (
        service._app.router.lifespan_context(service._app),
        httpx.AsyncClient(transport=transport, base_url="http://test") as client,
    ):
        tasks = []
        for body in bodies:
            tasks.append(asyncio.ensure_future(client.post("/v1/tag", json=body)))
            await asyncio.sleep(seconds)
        return await asyncio.gather(*tasks)


def test_waiting_requests_share_batches_and_keep_their_answers():
    model = Slow()
    bodies = [{"tokens": [["w"] * (1 + i % 5)] * 2} for i in range(20)]
    answers = asyncio.run(together(service_of(model, Limits()), bodies))
    for body, answer in zip(bodies, answers, strict=True):
        sentences = [s for r in answer.json()["results"] for s in r["sentences"]]
        assert [s["tokens"] for s in sentences] == body["tokens"]
        assert all(len(s["labels"]) == len(s["tokens"]) for s in sentences)
    assert sum(map(len, model.batches)) == 40
    assert len(model.batches) < 30
    # The last sentence of each reaches what is planned together.
    assert all(sum(map(len, batch[:-1])) < 4 * model.budget for batch in model.batches)


def test_a_small_request_overtakes_a_large_one():
    model = Slow(0.02)
    bodies = [{"tokens": [["large"] * 4] * 250}, {"tokens": ["small"]}]
    asyncio.run(together(service_of(model, Limits()), bodies, seconds=0.5))
    order = [sentence[0] for batch in model.batches for sentence in batch]
    assert order[-1] != "small"


def test_small_requests_without_end_do_not_hold_a_large_one_up():
    model = Slow(0.02)
    bodies = [{"tokens": [["large"] * 8] * 5}, *[{"tokens": ["small"] * 8}] * 50]
    asyncio.run(together(service_of(model, Limits()), bodies, seconds=0.005))
    order = [sentence[0] for batch in model.batches for sentence in batch]
    assert order[-20:] == ["small"] * 20


def test_a_sentence_with_passes_counts_as_eight(programs):
    plain, deep = (programs.job([["Rome"] * 16], is_deep).cost for is_deep in (0, 1))
    assert deep >= 8 * plain > 0


@pytest.mark.slow
def test_what_waits_is_limited(monkeypatch):
    limits = Limits(max_bytes=4000, max_sentences=20, max_tokens=4)
    bodies = [{"tokens": [["a"] * 4] * 20, "uncertainty": False}] * 7
    answers = asyncio.run(together(service_of(Slow(0.1), limits), bodies, 0.01))
    assert [answer.status_code for answer in answers] == [200] * 4 + [503] * 3
    for answer in answers[4:]:
        assert answer.json()["error"] == "Too much waits to be tagged."
    monkeypatch.setattr(tokens, "read", lambda text, _: [time.sleep(len(text) / 1e4)])
    bodies = [{"texts": "a" * 3900}] * 6 + [{"texts": "a"}]
    answers = asyncio.run(together(service_of(Slow(), limits), bodies))
    statuses = [answer.status_code for answer in answers]
    assert statuses == [500] * 4 + [503] * 2 + [500]  # a short one goes on


class Full(Slow):
    """A model with all that an answer may hold, at its longest."""

    labels = ("B-ABCDEFGH",)
    types = label_types(tuple(f"B-ABCDEFGH-{i}" for i in range(10)))

    def __call__(self, jobs):
        return [len(job.sentence.words) for job in jobs]

    def cut(self, count, sentences):
        ids, chances = np.zeros(count, int), np.full(count, 0.123456)
        flags = np.ones(count, bool)
        best = EntityArrays(ids, chances, flags, np.arange(1, count + 1), ids, chances)
        labellings = EntityArrays(*(np.stack([array] * 10, axis=-1) for array in best))
        names = ("entropy", "mutual_information", "vote_share")
        yield {
            "best": best,
            "n_best": labellings._replace(type=labellings.type + np.arange(10)),
            "chances": np.tile(chances[:10], (count, 1)),
            "uncertainty": dict.fromkeys(names, chances),
            "relations": np.full((count, count), 0.123456),
        }


@pytest.mark.slow
def test_an_answer_has_as_many_bytes_as_the_documentation_says():
    limits, deep = Limits(), {"n_best": 10, "uncertainty": True}
    for words in (
        f"bytes to read | {limits.max_bytes >> 10} KiB",
        f"tokens to tag | {limits.max_sentences * limits.max_tokens:,} |",
        f"maps have {service._NUMBERS:,} numbers",
        f"not yet read | {server._MAX_BACKLOG >> 20} MiB",
        f"connection | {limits.max_seconds + server._PAUSE:g} seconds",
        f"all connections | {limits.max_connections};",
        f"all requests | {limits.max_requests} that",
        f"up to {service._SHORT >> 10} KiB overtakes",
    ):
        assert words in COSTS
    most = int(re.search(r"of answer \| (\d+) MiB", COSTS)[1]) << 20
    sizes = []
    with client_of(Full(), limits) as client:
        for path, word, sentences, options, status in (
            ("entities", "a", 256, {}, 200),
            ("entities", "é", 32, deep, 200),
            ("tag", "ab", 8, deep | {"maps": True}, 200),
            ("tag", "ab", 9, {"maps": True}, 422),
        ):
            texts = [" ".join([word] * 256)] * sentences
            texts = "\n\n".join(texts) if sentences > 9 else texts
            answer = client.post(f"/v1/{path}", json={"texts": texts, **options})
            assert answer.status_code == status
            sizes.append(len(answer.content))
    assert most / 2 < max(sizes) < most


def test_errors_are_logged_without_texts(caplog):
    caplog.set_level(logging.DEBUG)
    with client_of(Slow()) as client:
        answer = client.post("/v1/tag", json={"texts": "crash"})
        assert (answer.status_code, [*answer.json()]) == (500, ["error"])
        assert ask(client, "tag", texts="goes on")
    assert re.search("RuntimeError\n  File", caplog.text)
    assert not any(word in caplog.text for word in ("crash", "goes on"))


def test_before_all_is_compiled_requests_are_refused():
    with testclient.TestClient(Service(Slow(), SMALL)) as client:
        for answer in (client.get("/ready"), client.post("/v1/tag", json={})):
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert client.get("/ready").json()["error"] == "Not ready: compiling."
        assert client.get("/health").status_code == 200


def test_a_key_is_asked_for():
    with client_of(Slow(), SMALL, "s3sam") as client:
        refusals = "", "Bearer nein", "Bearer", "Basic s3sam"
        for value in (*refusals, "Bearer s3sam", "bEARER s3sam"):
            status = 401 if value in refusals else 200
            headers = [("authorization", value.encode())]
            answer = client.post("/v1/tag", json={"texts": "a"}, headers=headers)
            assert answer.status_code == status
            assert answer.headers.get("www-authenticate") == {401: "Bearer"}.get(status)
        headers = [("authorization", b"Bearer s"), ("authorization", value.encode())]
        answer = client.post("/v1/tag", json={"texts": "a"}, headers=headers)
        assert answer.status_code == 401


def test_the_description_is_valid_and_describes_each_answer(client):
    document = client.get("/openapi.json").json()
    openapi.validate(document)
    routes = {route.path for route in client.app._app.routes}
    files = {"/", "/script.js", "/style.css", "/openapi.json"}
    assert {*document["paths"]} == routes - files

    def check(name, content):
        schema = {"$ref": f"#/components/schemas/{name}"}
        jsonschema.validate(content, {**schema, "components": document["components"]})

    check("Ready", client.get("/ready").json())
    for name, path in (("Tagged", "tag"), ("Entities", "entities")):
        options = {"n_best": 3, "uncertainty": True, "maps": path == "tag"}
        for question in ({"tokens": []}, {"tokens": SENTENCES}, {"texts": TEXT}):
            check("Question", question | options)
            for result in ask(client, path, **question, **options):
                check(name, result)
    statuses = {status for status, _ in CASES.values()} | {200, 401, 405, 408, 415}
    for path in ("/v1/tag", "/v1/entities"):
        responses = document["paths"][path]["post"]["responses"]
        assert {*map(int, responses)} == statuses | {429, 500, 503}
    check("Error", client.get("/nothing").json())


def test_pages_and_metrics(client):
    for path in ("/", "/script.js", "/style.css", "/health", "/ready"):
        assert client.get(path).status_code == 200
        assert "http" not in client.get(path).text.replace("http-equiv", "")
    assert "unicode-bidi: plaintext" in client.get("/style.css").text
    ask(client, "tag", texts="Rome")
    text = client.get("/metrics").text
    assert 'jaxner_request_seconds_count{path="/v1/tag",status="200"}' in text
    assert "jaxner_open 0.0" in text


# --- A process and a browser ----------------------------------------------------------


@pytest.fixture
def browser(tiny_run, tmp_path):
    """The address of a tiny run, and what sends WebDriver's commands to Chromium."""
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        pytest.skip("needs chromium and chromedriver")
    flags = [*CHROMIUM, f"--user-data-dir={tmp_path}"]
    pipe = {"stdout": subprocess.PIPE, "text": True}
    with (
        benchmark.serves(str(tiny_run), 16) as (_, port),
        subprocess.Popen(["chromedriver", "--port=0"], **pipe) as driver,
    ):
        assert driver.stdout is not None
        line = next(line for line in driver.stdout if "started" in line)
        url = f"http://127.0.0.1:{line.split()[-1].rstrip('.')}/session"
        with httpx.Client(timeout=60) as client:

            def send(path, **content):
                answer = client.post(f"{url}{path}", json=content).json()["value"]
                assert not (isinstance(answer, dict) and "error" in answer), answer
                return answer

            body = {"alwaysMatch": {"goog:chromeOptions": {"args": flags}}}
            url += "/" + send("", capabilities=body)["sessionId"]
            yield f"http://127.0.0.1:{port}/", send
            client.delete(url)
        driver.terminate()


@pytest.mark.slow
def test_the_page_works_by_keyboard_and_by_mouse(browser):
    url, send = browser
    script = "return document.querySelector(arguments[0]).innerText"

    def seen(selector, text):
        for _ in range(100):
            content = send("/execute/sync", script=script, args=[selector])
            if text in content:
                return content
            time.sleep(0.1)
        raise AssertionError(f"{text!r} is not in {content!r}")

    def press(keys):
        keys = keys.translate({0x21E5: 0xE004, 0x2192: 0xE014, 0x21B5: 0xE007})
        script = "return document.activeElement"
        (element,) = send("/execute/sync", script=script, args=[]).values()
        send(f"/element/{element}/value", text=keys)

    send("/url", url=url)
    seen("#status", "Ready")
    press("⇥")
    # Not every driver types characters beyond the BMP.
    script_of_text = "document.activeElement.value = arguments[0]"
    send("/execute/sync", script=script_of_text, args=["Rome 🙂 beat <b>Milan</b>."])
    for keys in ("⇥", "↵"):
        press(keys)
    assert "🙂 beat <b>" in seen("#words", "Milan")
    for keys in ("⇥", "⇥", "⇥", "⇥", "⇥", "→", "→", "↵"):
        press(keys)
    content = seen("#detail", "relates to")
    assert content.startswith("beat")
    assert "Uncertainty" in content
    assert "labellings" in content
    for selector in ("#examples button", ".word"):
        (element,) = send("/element", using="css selector", value=selector).values()
        send(f"/element/{element}/click")
        seen("#words", "Preston")
    assert seen("#detail", "relates to").startswith("Ms.")


DRIVE = """
const pause = () => new Promise((go) => setTimeout(go, 50));
const until = async (test) => { while (!test()) await pause(); };
(async () => {
  await until(() => $("status").textContent === "Ready");
  $("text").value = "a b";
  tag();
  await until(() => $("status").textContent !== "Ready");
  document.title = $("status").textContent;
  tag();
  await until(() => words.length);
  choose(1);
  await until(() => !$("detail").hidden);
  document.title += " | " + $("detail").textContent;
  choose(1);
  await until(() => $("detail").querySelector("h2"));
  document.title += " | " + $("detail").textContent;
  document.title += " | " + (document.documentElement.scrollWidth <= innerWidth);
})();
"""


@pytest.mark.slow
def test_the_page_outlives_bad_answers_and_reads_documents_as_a_whole(tmp_path):
    if not shutil.which("chromium"):
        pytest.skip("needs chromium")
    page = shutil.copytree(Path(service.__file__).parent / "page", tmp_path / "page")
    html = (page / "index.html").read_text()
    script = '<script src="drive.js" defer></script></head>'
    (page / "index.html").write_text(html.replace("</head>", script))
    (page / "drive.js").write_text(DRIVE)

    def tagged(*labels):
        parts = [("ab"[i], [i * 2, i * 2 + 1], x) for i, x in enumerate(labels)]
        names = "tokens", "offsets", "labels", "probabilities"
        rows = [([x], [y], [z], [0.5]) for x, y, z in parts]
        sentences = [dict(zip(names, row, strict=True)) for row in rows]
        return {"results": [{"sentences": sentences}]}

    ready, long = {"types": [], "reads_documents": True}, "D " * 300
    answers = iter([None, ready, None, tagged("A", "B"), None])

    class Proxy(SimpleHTTPRequestHandler):
        def answer(self):
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            is_whole = b"texts" in body
            content = next(answers, tagged("C", long) if is_whole else tagged("alone"))
            self.send_response(200 if content else 502)
            self.end_headers()
            self.wfile.write(json.dumps(content).encode() if content else b"<html>")

        def do_POST(self):
            self.answer()

        def do_GET(self):
            self.answer() if self.path == "/ready" else super().do_GET()

        def log_message(self, *_):
            pass

    handler = functools.partial(Proxy, directory=page)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        flags = [*CHROMIUM, f"--user-data-dir={tmp_path}", "--dump-dom"]
        flags += ["--virtual-time-budget=9000", f"http://127.0.0.1:{proxy.server_port}"]
        options = {"capture_output": True, "text": True, "timeout": 60}
        content = subprocess.run(["chromium", *flags], **options).stdout
        proxy.shutdown()
    (title,) = re.findall("<title>(.*)</title>", content)
    refusal = "Not an answer of the service: status 502"
    assert title == f"{refusal} | {refusal} | bLabel{long}| true"
