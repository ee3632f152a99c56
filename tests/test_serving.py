"""The service: answers, batches, refusals, its end, and the page in a browser."""

import asyncio
import itertools
import json
import logging
import random
import shutil
import subprocess
import time
import types

import jax
import numpy as np
import pytest

import jaxner
from benchmarks import serving as benchmark
from jaxner.answers.mentions import EntityArrays
from tests import fence
from tests.marks import CHROMIUM
from tests.test_decoding import tiny

httpx = pytest.importorskip("httpx")
testclient = pytest.importorskip("starlette.testclient")
from jaxner.serving import Limits  # noqa: E402
from jaxner.serving.programs import Job, Programs  # noqa: E402
from jaxner.serving.service import Service  # noqa: E402

TEXT = "Rome beat Milan. Mr. Preston left Lakeside."
SENTENCES = [["Rome", "beat", "Milan", "."], [], ["Mr.", "Preston", "fell"]]
SMALL = Limits(1 << 10, 8, 16, 4, 5.0, 32)


def client_of(model, limits=SMALL, key=None, **more):
    return testclient.TestClient(Service(model, limits, key, **more).app)


def until_ready(client):
    while client.get("/ready").status_code == 503:
        time.sleep(0.02)
    return client


@pytest.fixture(scope="module")
def programs(params):
    return Programs(params, SMALL.max_tokens, SMALL.batch_tokens)


@pytest.fixture(scope="module")
def client(programs):
    with client_of(programs) as made:
        yield until_ready(made)


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
    best = [each.labels for each in jaxner.n_best(params, tokens, 3)]
    assert [each["labels"] for each in sentence["labellings"]] == best
    passes = jaxner.uncertainty(params, tokens, jax.random.key(0), 8)
    for name, values in sentence["uncertainty"].items():
        np.testing.assert_allclose(values, getattr(passes, name), atol=1e-5)
    relations = jaxner.relations(params, tokens)
    np.testing.assert_allclose(sentence["relations"], relations, atol=1e-5)


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
        (result,) = ask(until_ready(client), "entities", **options)
        (whole,) = ask(client, "entities", **options, min_probability=0.0)
        assert client.get("/ready").json()["min_probability"] == {"PER": 1.0}
    kept = [e for e in whole["entities"] if e["type"] != "PER"]
    assert result["entities"] == kept != whole["entities"]


def test_requests_compile_nothing(client, programs):
    rng = random.Random(0)
    words = ["Rome", "beat"] * 9 + ["A" * 30, "é" * 400]
    texts = [rng.choices(words, k=rng.randint(1, 16)) for _ in range(60)]
    programs([Job(programs.encode([text]), rng.random() < 0.1) for text in texts])
    for text in (["?"], [""], []):
        programs([Job(programs.encode([text]))])
    assert programs.counts["late"] == 0
    assert 0 < programs.counts["tokens"] < programs.counts["padded"]


def test_a_tagger_of_documents_reads_each_text_as_one():
    tagger = tiny("crf", documents=True)
    text = "Rome fell. It rose."  # with separators, nine tokens
    with client_of(Programs(tagger, 9, 9)) as client:
        (result,) = ask(until_ready(client), "entities", texts=text)
    places = [(e["start_char"], e["end_char"]) for e in result["entities"]]
    expected = jaxner.entities(tagger, text)
    assert places == [(e.start_char, e.end_char) for e in expected] != []


def test_a_tagger_without_probabilities_gives_labels(tmp_path):
    tagger = jaxner.load(fence.unpack("seq2seq", tmp_path))
    with client_of(Programs(tagger, 8, 8)) as client:
        (result,) = ask(until_ready(client), "tag", tokens=["Rome", "fell"])
        assert result["sentences"][0]["labels"] == tagger.tag(["Rome", "fell"])
        for path, more in (("entities", {}), ("tag", {"n_best": 2})):
            answer = client.post(f"/v1/{path}", json={"tokens": ["Rome"], **more})
            assert answer.status_code == 422


def test_attention_is_that_of_the_library(tmp_path):
    tagger, tokens = jaxner.load(fence.unpack("att_bilstm", tmp_path)), ["Rome", "fell"]
    programs = Programs(tagger, 8, 8)
    job = Job(programs.encode([tokens]), is_deep=True)
    (arrays,) = programs.cut(programs([job])[0], [tokens])
    heads = np.moveaxis(arrays["attention"], -1, 0)
    np.testing.assert_allclose(heads, jaxner.attention(tagger, tokens), atol=1e-6)


# --- Refusals -------------------------------------------------------------------------

REFUSED = {
    400: ['{"texts": "Ro', "[" * 1000],
    413: [json.dumps({"texts": "a" * 1024})],
    422: [
        *("{}", '{"texts": "a", "tokens": ["a"]}', '{"texts": [1]}'),
        *('{"tokens": "Rome"}', '{"tokens": [["a"], "b"]}', '{"tokens": ["a b"]}'),
        *('{"texts": "a", "n_best": 11}', '{"texts": "a", "min_probability": NaN}'),
        *('{"texts": "a", "truncate": true}', '{"texts": "a", "maps": 1}'),
        '{"texts": "a", "min_probability": {"PER": 2}}',
        '{"texts": "a", "min_probability": {"DRAGON": 0.5}}',
        *(json.dumps({"texts": text}) for text in (["a"] * 9, "a " * 17)),
    ],
}


@pytest.mark.parametrize("status", REFUSED)
def test_refusals_have_a_status_and_a_reason(client, status):
    for path, body in itertools.product(("tag", "entities"), REFUSED[status]):
        for content in (body, iter([body.encode()])):  # with and without a length
            answer = client.post(f"/v1/{path}", content=content)
            assert (answer.status_code, [*answer.json()]) == (status, ["error"])


class Slow:
    """A model that says what it got, and takes its time."""

    labels, has_chances, reads_documents, budget = ("O",), True, False, 2
    types = types.SimpleNamespace(names=())

    def __init__(self, seconds=0.05):
        self.seconds, self.batches = seconds, []
        self.counts = dict.fromkeys(("batches", "tokens", "padded", "late"), 0)

    def compile(self):
        time.sleep(self.seconds)

    def encode(self, sentences):
        return types.SimpleNamespace(words=sentences[0])

    def cost(self, job):
        return len(job.encoded.words)

    def __call__(self, jobs):
        self.batches.append([job.encoded.words for job in jobs])
        time.sleep(self.seconds)
        if any("crash" in job.encoded.words for job in jobs):
            raise RuntimeError(str(jobs))
        return [len(job.encoded.words) for job in jobs]

    def cut(self, count, sentences):
        ids = np.zeros(count, int)
        yield {"best": EntityArrays(ids, ids, *[None] * 4)}


async def together(service, bodies, seconds=0.0):
    """Returns the answers to requests that come one after another."""
    transport = httpx.ASGITransport(service.app)
    async with (
        service.app.router.lifespan_context(service.app),
        httpx.AsyncClient(transport=transport, base_url="http://test") as client,
    ):
        while (await client.get("/ready")).status_code == 503:
            await asyncio.sleep(0.01)
        tasks = []
        for body in bodies:
            tasks.append(asyncio.ensure_future(client.post("/v1/tag", json=body)))
            await asyncio.sleep(seconds)
        return await asyncio.gather(*tasks)


def test_waiting_requests_share_batches_and_keep_their_answers():
    model = Slow()
    bodies = [{"tokens": [["w"] * (1 + i % 5)] * 2} for i in range(20)]
    answers = asyncio.run(together(Service(model, Limits()), bodies))
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
    asyncio.run(together(Service(model, Limits()), bodies, seconds=0.03))
    order = [sentence[0] for batch in model.batches for sentence in batch]
    assert order[-1] != "small"


def test_time_and_the_number_of_requests_are_limited():
    limits = Limits(max_requests=2, max_seconds=0.2)
    bodies = [{"texts": "a"}] * 3
    answers = asyncio.run(together(Service(Slow(0.5), limits), bodies))
    assert [answer.status_code for answer in answers] == [503, 503, 429]
    assert all("retry-after" in answer.headers for answer in answers)


def test_errors_are_logged_without_texts(caplog):
    caplog.set_level(logging.DEBUG)
    with client_of(Slow()) as client:
        assert client.post("/v1/tag", json={"texts": "crash"}).status_code == 503
        until_ready(client)
        answer = client.post("/v1/tag", json={"texts": "crash"})
        assert answer.status_code == 500
        assert ask(client, "tag", texts="goes on")
    assert "RuntimeError in /v1/tag" in caplog.text
    assert not any(word in caplog.text for word in ("crash", "goes on"))


def test_a_key_is_asked_for():
    with client_of(Slow(), key="säsam") as client:
        until_ready(client)
        for sent, status in (("", 401), ("Bearer nein", 401), ("Bearer säsam", 200)):
            headers = {"authorization": sent.encode()}
            answer = client.post("/v1/tag", json={"texts": "a"}, headers=headers)
            assert answer.status_code == status


def test_pages_and_metrics(client):
    described = client.get("/openapi.json").json()
    routes = {r.path for r in client.app.routes if r.path} | {"/"}
    assert set(described["paths"]) | {"/"} == routes
    for path in ("/", "/script.js", "/style.css", "/health", "/ready"):
        assert client.get(path).status_code == 200
        assert "http" not in client.get(path).text.replace("http-equiv", "")
    ask(client, "tag", texts="Rome")
    text = client.get("/metrics").text
    assert 'jaxner_request_seconds_count{path="/v1/tag",status="200"}' in text
    assert "jaxner_open 0.0" in text
    assert client.get("/nothing").json() == {"error": "Not Found"}


# --- A process and a browser ----------------------------------------------------------


@pytest.fixture
def browser(finished, tmp_path):
    """The address of a tiny run, and what sends WebDriver's commands to Chromium."""
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        pytest.skip("needs chromium and chromedriver")
    flags = [*CHROMIUM, f"--user-data-dir={tmp_path}"]
    wanted = {"goog:chromeOptions": {"args": flags}}
    serve = ["jaxner", "serve", "--port=0", "--max-tokens=16", "--workdir"]
    pipe = {"stdout": subprocess.PIPE, "text": True}
    with (
        benchmark.serves(*serve, str(finished)) as service,
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

            body = {"alwaysMatch": wanted}
            url += "/" + send("", capabilities=body)["sessionId"]
            yield f"http://127.0.0.1:{service.port}/", send
            client.delete(url)
        driver.terminate()


@pytest.mark.slow
def test_the_page_works_by_keyboard_and_by_mouse(browser):
    url, send = browser
    script = "return document.querySelector(arguments[0]).innerText"

    def seen(place, text):
        for _ in range(100):
            shown = send("/execute/sync", script=script, args=[place])
            if text in shown:
                return shown
            time.sleep(0.1)
        raise AssertionError(f"{text!r} is not in {shown!r}")

    def press(keys):
        keys = keys.translate({0x21E5: 0xE004, 0x2192: 0xE014, 0x21B5: 0xE007})
        script = "return document.activeElement"
        (element,) = send("/execute/sync", script=script, args=[]).values()
        send(f"/element/{element}/value", text=keys)

    send("/url", url=url)
    seen("#status", "Ready")
    for keys in ("⇥", "Rome 🙂 beat <b>Milan</b>.", "⇥", "↵"):
        press(keys)
    assert "🙂 beat <b>" in seen("#words", "Milan")
    for keys in ("⇥", "⇥", "⇥", "⇥", "⇥", "→", "→", "↵"):
        press(keys)
    shown = seen("#detail", "relates to")
    assert shown.startswith("beat")
    assert "Uncertainty" in shown
    assert "labellings" in shown
    for place in ("#examples button", ".word"):
        reply = send("/element", using="css selector", value=place)
        (element,) = reply.values()
        send(f"/element/{element}/click")
        seen("#words", "Preston")
    assert seen("#detail", "relates to").startswith("Ms.")
