r"""Requests per second and latency of the service, beside spaCy behind the same one.

    python -m benchmarks.serving --workdir runs/grn
    python -m benchmarks.serving --workdir runs/grn --soak 100000

Closed-loop clients ask over loopback for the entities of a sentence of tokens each, and
wait for the answer; servers are processes of their own, and take turns. spaCy's NER is
trained for two epochs.

`--soak` mixes good requests, whose answers are compared with those to the same request
alone, with bad, huge and cut-off ones, and ends with SIGTERM under load.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import json
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import measure, peers
from benchmarks.measure import CONLL_TYPES
from jaxner.answers.mentions import EntityArrays
from jaxner.data.schemes import label_types
from jaxner.serving import Limits, server
from jaxner.serving.programs import Job


class SpaCy:
    """spaCy's NER as a model of the service."""

    has_chances, reads_documents, budget = True, False, 4096
    labels: tuple[str, ...] = ()
    types = label_types([f"B-{name}" for name in CONLL_TYPES])

    def __init__(self, train: Any):
        self._peer = peers.SpaCy(train)
        for _ in range(2):
            self._peer.epoch(32)
        self.counts = {"batches": 0}

    def compile(self) -> None:
        self._peer.tag([["Rome"]], 1)

    def job(self, sentences: Any, is_deep: bool = False) -> Job:
        return Job(sentences[0], len(sentences[0]), is_deep)

    def __call__(self, jobs: Any) -> list[Any]:
        words = [job.encoded for job in jobs]
        docs = [self._peer.tokens.Doc(self._peer.nlp.vocab, words=w) for w in words]
        return [doc.ents for doc in self._peer.nlp.pipe(docs)]

    def cut(self, answer: Any, sentences: Any) -> Iterator[Any]:
        count = len(sentences[0])
        arrays: list[Any] = [np.zeros(count, x) for x in (bool, int, int, float)]
        for entity in answer:
            kind = self.types.names.index(entity.label_)
            for array, value in zip(arrays, (True, entity.end, kind, 1), strict=True):
                array[entity.start] = value
        yield {"best": EntityArrays(arrays[1], arrays[3], *arrays)}


@contextlib.contextmanager
def serves(*command: str) -> Iterator[Any]:
    """Yields a process that serves, its port and its log, once it is ready."""
    log = tempfile.TemporaryFile("w+")  # noqa: SIM115
    pipe: Any = {"stdout": subprocess.PIPE, "stderr": log, "text": True}
    with log, subprocess.Popen([sys.executable, "-m", *command], **pipe) as started:
        assert started.stdout is not None
        port = int(re.findall(r":(\d+)", started.stdout.readline())[0])
        try:
            while asyncio.run(with_clients(port, 1, is_ready)) != [True]:
                time.sleep(0.2)
            yield types.SimpleNamespace(process=started, port=port, log=log)
        finally:
            started.kill()


class Client:
    """A connection to a server, opened when it is needed."""

    def __init__(self, port: int):
        self._port, self._link = port, None

    async def ask(self, body: bytes, what: str = "POST /v1/entities", cut: int = 0):
        """Returns status and content; with a `cut`, breaks off after so many bytes."""
        if self._link is None:
            self._link = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._link
        head = f"{what} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body[: cut or None])
        if cut:
            await self.close()
            return 0, b""
        answer = await reader.readuntil(b"\r\n\r\n")
        length = int(re.findall(rb"content-length: (\d+)", answer.lower())[0])
        return int(answer.split()[1]), await reader.readexactly(length)

    async def close(self) -> None:
        """Closes the connection, if there is one."""
        if self._link:
            self._link[1].close()
            with contextlib.suppress(OSError):
                await self._link[1].wait_closed()
        self._link = None


async def with_clients(port: int, number: int, run: Callable[[Client], Any]) -> Any:
    """Returns what an asynchronous function of a client returns for each of several."""
    clients = [Client(port) for _ in range(number)]
    try:
        return await asyncio.gather(*map(run, clients))
    finally:
        for client in clients:
            await client.close()


async def is_ready(client: Client) -> bool:
    """Returns whether a server has compiled all programs."""
    return (await client.ask(b"", "GET /ready"))[0] == 200


def load(port: int, bodies: Sequence[bytes], clients: int, seconds: float):
    """Asks for some seconds; returns the seconds of each request."""
    taken: list[float] = []
    end = time.perf_counter() + seconds

    async def go_on(client: Client) -> None:
        while (start := time.perf_counter()) < end:
            status, _ = await client.ask(random.choice(bodies))
            assert status == 200
            taken.append(time.perf_counter() - start)

    asyncio.run(with_clients(port, clients, go_on))
    return taken


def spans(content: bytes) -> list[Any]:
    """Returns the entities of an answer, without their probabilities."""
    (result,) = json.loads(content)["results"]
    return [(e["start"], e["end"], e["type"], e["text"]) for e in result["entities"]]


def soak(server: Any, bodies: Sequence[bytes], count: int) -> list[Any]:
    """Returns a row of each tenth: faults, and the server's memory; then the sums."""
    expected: list[Any] = []
    huge = b'{"texts": "%s"}' % (b"a" * (1 << 19))
    many = json.dumps({"texts": ["a"] * 1000}).encode()
    known = {"bad": (400, b'{"texts": "Ro'), "huge": (413, huge), "many": (422, many)}
    seen: collections.Counter[str] = collections.Counter()
    rows: list[dict[str, Any]] = []

    async def alone(client: Client) -> None:
        expected.extend([spans((await client.ask(body))[1]) for body in bodies])

    async def go_on(client: Client) -> None:
        while True:
            kind = random.choices(("good", "cut", *known), (80, 5, 5, 5, 5))[0]
            number = random.randrange(len(bodies))
            wanted, body = known.get(kind, (200, bodies[number]))
            cut = len(body) // 2 if kind == "cut" else 0
            try:
                status, content = await client.ask(body, cut=cut)
            except (OSError, asyncio.IncompleteReadError):
                if seen["all"] < count:
                    raise
                return  # the server has ended
            is_wrong = status == 200 and spans(content) != expected[number]
            seen["wrong"] += is_wrong or status not in (wanted, 0)
            for name in ("all", f"{kind} {status}"):
                seen[name] += 1
            if seen["all"] % (count // 10) == 0 and seen["all"] <= count:
                text = Path(f"/proc/{server.process.pid}/status").read_text()
                size = int(re.findall(r"VmRSS:\s+(\d+)", text)[0]) / 1024
                rows.append({"requests": seen["all"], "MB": size})
            if seen["all"] == count:
                server.process.send_signal(signal.SIGTERM)

    asyncio.run(with_clients(server.port, 1, alone))
    asyncio.run(with_clients(server.port, 32, go_on))
    row = {"exit": server.process.wait()}
    server.log.seek(0)
    answered = server.log.read().count("/v1/entities 200") - len(bodies)
    return [*rows, {**row, "lost": answered - seen["good 200"], **seen}]


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the benchmark."""
    parser = measure.parser(__doc__)
    parser.add_argument("--workdir", help="the run to serve")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each round")
    parser.add_argument("--soak", type=int, default=0, help="number of requests")
    parser.add_argument("--spacy", action="store_true", help="serve spaCy, on any port")
    options = measure.parse(parser, argv)
    if options.spacy:
        train = measure.load(options.dataset, "train", options.limit)
        return server.run(SpaCy(train), Limits(), "127.0.0.1", 0)
    report, most = measure.Report(options.json), 16 if options.quick else 128
    dev = [tokens for tokens, _ in measure.load(options.dataset, "dev", options.limit)]
    bodies = [json.dumps({"tokens": t}).encode() for t in dev if len(t) <= most]
    ours = ["jaxner", "serve", "--port=0", f"--max-tokens={most}"]
    ours += ["--workdir", options.workdir]
    if options.soak:
        with serves(*ours) as started:
            rows = soak(started, bodies, options.soak)
        report.table("soak, by tenths", rows[:-1])
        return report.table("soak, with SIGTERM at the end", rows[-1:])
    theirs = ["benchmarks.serving", "--dataset", options.dataset, "--spacy"]
    theirs += ["--limit", str(options.limit)]
    with serves(*ours) as jaxner, serves(*theirs) as spacy:
        ports = {"jaxner": jaxner.port, "spaCy": spacy.port}
        for clients in (1, 8, 64):
            taken: dict[str, list[list[float]]] = {name: [] for name in ports}
            for name in measure.turns(ports, options.rounds):
                new = load(ports[name], bodies, clients, options.seconds)
                taken[name].append(new)
            rows = []
            for name, rounds in taken.items():
                speeds = (len(x) / options.seconds for x in rounds)
                pairs = zip(rounds, taken["spaCy"], strict=True)
                row: dict[str, Any] = {"system": name}
                row["requests / s"] = measure.Interval.of(speeds)
                for share in (50, 95, 99):
                    cut = np.percentile(np.concatenate(rounds), share)
                    row[f"p{share}, ms"] = 1e3 * cut
                row["× spaCy"] = measure.Interval.of(len(a) / len(b) for a, b in pairs)
                rows.append(row)
            report.table(f"{clients} clients", rows)
    return None


if __name__ == "__main__":
    main()
