r"""Requests per second and latency of the service, beside another checkout's.

    python -m benchmarks.serving --workdir runs/grn --against ../before

Closed-loop clients ask over loopback for the entities of a sentence of tokens each, and
wait for the answer; servers are processes of their own, and take turns.
`benchmarks.soak` has more than good requests.
"""

import asyncio
import contextlib
import functools
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import measure


class Answer(NamedTuple):
    """Status and content; `wait`: try again after so many seconds."""

    status: int
    content: bytes
    wait: float | None


def request(
    body: bytes = b"", line: str = "POST /v1/entities", head: str = ""
) -> bytes:
    """Returns a request; `head` stands for the length of its body."""
    head = head or f"content-length: {len(body)}"
    return f"{line} HTTP/1.1\r\nhost: x\r\n{head}\r\n\r\n".encode() + body


class Connection:
    """A connection to a server over HTTP/1.1."""

    is_new, is_kept = True, False  # had no answer; may have another request
    last_use = 0.0  # when the last answer came

    _reader: Any = None  # until the first request
    _writer: Any = None

    def __init__(self, port: int):
        self._port = port

    async def send(self, *pieces: bytes, pause: float = 0.0) -> None:
        """Sends a request in pieces; in the pause after each, nothing is read."""
        self.is_kept = False
        if not self._writer:
            streams = await asyncio.open_connection("127.0.0.1", self._port)
            self._reader, self._writer = streams
        transport = self._writer.transport
        if pause:
            transport.pause_reading()
        for piece in pieces:
            if transport.is_closing():
                raise ConnectionResetError
            transport.write(piece)
            await asyncio.sleep(pause)
        if pause:
            transport.resume_reading()

    async def answer(self) -> Answer:
        """Reads an answer; raises EOFError or OSError if it does not come."""
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        self.is_new, self.is_kept = False, b"\nconnection: close" not in head
        self.last_use, status = time.perf_counter(), int(head.split(None, 2)[1])
        sizes = {k: int(n) for k, n in re.findall(rb"\n([a-z-]+): *(\d+)\r", head)}
        size = sizes.get(b"content-length", 0 if self.is_kept else None)
        reader = self._reader
        content = await (reader.read() if size is None else reader.readexactly(size))
        wait = sizes.get(b"retry-after") if status in (429, 503) else None
        return Answer(status, content, wait)

    def is_open(self) -> bool:
        """Returns whether another request may be sent."""
        return self._reader is not None and not self._reader.at_eof()

    def close(self) -> None:
        """Closes the connection, if it is open."""
        if self._writer:
            self._writer.transport.close()


@contextlib.contextmanager
def serves(workdir: str, most: int, **options: Any) -> Iterator[tuple[Any, int]]:
    """Yields a process that serves a run, and its port, once it is ready.

    Sentences have at most so many tokens: fewer programs compile.
    """
    # With `--reuse-port`, a service listens once it is ready.
    command = ["-m", "jaxner", "serve", workdir, "--port=0", "--reuse-port"]
    command = [sys.executable, *command, f"--max-tokens={most}"]
    log = tempfile.TemporaryFile("w+")  # noqa: SIM115
    pipe: Any = {"stdout": subprocess.PIPE, "stderr": log, "text": True, **options}
    with log, subprocess.Popen(command, **pipe) as process:
        assert process.stdout is not None
        port = int(re.findall(r":(\d+)", process.stdout.readline())[0])
        try:
            yield process, port
        finally:
            process.kill()


def ask(
    port: int, bodies: Sequence[bytes], clients: int, durations: list[float]
) -> None:
    """Asks with all bodies once; adds the seconds of each request."""
    rest = iter(bodies)

    async def client() -> None:
        connection = Connection(port)
        for body in rest:  # of all clients
            start = time.perf_counter()
            await connection.send(request(body))
            assert (await connection.answer()).status == 200
            durations.append(time.perf_counter() - start)
        connection.close()

    async def run() -> None:
        await asyncio.gather(*(client() for _ in range(clients)))

    asyncio.run(run())


def main(argv: Sequence[str] | None = None) -> None:
    parser = measure.parser(__doc__)
    parser.add_argument("--workdir", type=os.path.abspath, help="the run to serve")
    parser.add_argument("--against", type=Path, help="root of another checkout")
    options = measure.parse(parser, argv)
    report, most = measure.Report(options.json), 16 if options.quick else 128
    dev = [tokens for tokens, _ in measure.load(options.dataset, "dev", options.limit)]
    bodies = [json.dumps({"tokens": t}).encode() for t in dev if len(t) <= most]
    bodies = random.choices(bodies, k=options.limit or 2000)
    with contextlib.ExitStack() as stack:
        ports = {}
        for suffix, tree in options.trees.items():
            service = serves(options.workdir, most, cwd=tree)
            _, ports[f"jaxner{suffix}"] = stack.enter_context(service)
        for clients in (1, 8, 64):
            durations: dict[str, list[float]] = {name: [] for name in ports}
            runs = {
                name: functools.partial(ask, port, bodies, clients, durations[name])
                for name, port in ports.items()
            }
            seconds = measure.compare(runs, options.rounds)
            rows = measure.rows(seconds, len(bodies), "requests", [])
            for row in rows:
                for share in (50, 95, 99):
                    value = np.percentile(durations[row["system"]], share)
                    row[f"p{share}, ms"] = 1e3 * float(value)
            report.table(f"{clients} clients", rows)


if __name__ == "__main__":
    main()
