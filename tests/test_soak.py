"""The generator of load: what it counts as wrong, lost or slow; a service under it."""

import asyncio
import collections
import json
import time

import pytest

from benchmarks import serving, soak
from benchmarks.serving import request
from benchmarks.soak import Case

WORDS = ("Rome", "Milan")
BODIES = [json.dumps({"tokens": [word]}).encode() for word in WORDS]
ANSWERS = [{"text": word, "probability": 0.5} for word in WORDS]
PAIRS = zip(map(request, BODIES), ANSWERS, strict=True)
CASES = [Case([question], [200], [answer]) for question, answer in PAIRS]


def right(number, word):
    return 200, "", word, 0.5


def asked(answer, seconds=0.5, size=0, ending=False):
    """Returns what came of requests to a server that answers by a function.

    It has number and word of a request, and returns status, more of the head, word and
    probability of an answer, or nothing.
    """
    numbers = iter(range(1 << 20))

    async def serve(reader, writer):
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                size = int(head.split(b"length: ")[1].split()[0])
                ((word,),) = json.loads(await reader.readexactly(size)).values()
                if (parts := answer(next(numbers), word)) is None:
                    break
                status, lines, word, chance = parts
                entities = [{"text": word, "probability": chance}]
                body = json.dumps({"results": [{"entities": entities}]})
                head = f"HTTP/1.1 {status} -\r\ncontent-length: {len(body)}\r\n{lines}"
                writer.write(f"{head}\r\n{body}".encode())
                if "close" in lines:
                    break
        except EOFError:
            pass
        finally:
            writer.close()

    async def run():
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        load = soak.Load(server.sockets[0].getsockname()[1])
        if ending:
            load.is_ending = True
            server.close()
        bursts = [size] * bool(size)
        await load.offer({"good": CASES}, {"good": 200.0}, seconds, bursts)
        server.close()
        await server.wait_closed()
        return load

    return asyncio.run(run())


def outcomes(*arguments, **options):
    return collections.Counter(x.outcome for x in asked(*arguments, **options).requests)


@pytest.mark.parametrize("headers", ["", "connection: close\r\n"])
def test_right_answers_are_right(headers):
    counts = outcomes(lambda number, word: (200, headers, word, 0.50001), size=50)
    assert {*counts} == {"200"}
    assert counts.total() > 100


WRONG = {
    "another's": lambda word: (200, "", WORDS[word == "Rome"], 0.5),
    "probability": lambda word: (200, "", word, 0.5002),
    "type of a field": lambda word: (200, "", word, None),
    "status": lambda word: (500, "", word, 0.5),
    "no time to retry after": lambda word: (503, "", word, 0.5),
    "dropped": lambda word: None,
}


@pytest.mark.parametrize("kind", WRONG)
def test_one_wrong_answer_shows(kind):
    counts = outcomes(lambda n, word: WRONG[kind](word) if n == 7 else right(n, word))
    name = "lost" if kind == "dropped" else "wrong"
    assert counts[name] == 1
    assert {*counts} == {"200", name}


def test_who_is_refused_for_now_asks_again():
    refusal = 429, "retry-after: 0\r\n", "", 0.0
    load = asked(lambda n, word: refusal if n % 2 else right(n, word))
    assert {x.outcome for x in load.requests} == {"200"}
    assert sum(x.retries for x in load.requests) > 10


def test_after_the_end_new_connections_are_refused():
    assert {*outcomes(right, ending=True)} == {"refused"}


def test_a_stall_counts_for_all_that_were_due_in_it():
    def answer(number, word):
        time.sleep(0.3 * (number == 7))
        return right(number, word)

    slow = [x for x in asked(answer).requests if x.end - x.due > 0.1]
    assert len(slow) > 20  # clients that wait for the answer would see one


@pytest.mark.slow
def test_the_service_keeps_its_promises(tiny_run, tmp_path):
    command = ["--quick", "--workdir", str(tiny_run), "--seconds=8", "--rate=60"]
    command += ["--bursts=1", "--burst=100", "--json", str(tmp_path / "rows")]
    with pytest.raises(SystemExit):
        soak.main(command)
    tables = json.loads((tmp_path / "rows").read_text())
    kinds = {row["kind"] for row in tables["others"]}
    assert kinds >= {*soak.SHARES, "burst"} - {"idle"}
    results = {row["promise"]: row["kept"] for row in tables["promises"]}
    for promise in results.keys() - {"SIGTERM loses no answer"}:
        is_timing = promise.startswith("p99")  # a busy machine may be too slow
        assert is_timing or results[promise] == "True", tables
    (good,) = (row for row in tables["end"] if row["kind"] == "good")
    assert "refused" in good["outcomes"]
    assert "lost" not in good["outcomes"]


@pytest.mark.slow
def test_the_speed_of_the_service(tiny_run, tmp_path):
    file = tmp_path / "rows"
    serving.main(["--quick", "--workdir", str(tiny_run), "--json", str(file)])
    tables = json.loads(file.read_text())
    for clients in (1, 8, 64):
        (row,) = tables[f"{clients} clients"]
        assert row["requests / s"] > 0
        assert row["p50, ms"] <= row["p99, ms"]
