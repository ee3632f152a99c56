r"""The service under a load that does not wait for it: does it keep its promises?

    python -m benchmarks.soak --workdir runs/grn --seconds 600 --rate 333 \
      --json soak.json --plot soak.png

Requests arrive at random (Poisson) at a rate, whatever the answers, over connections
that are kept; latency counts from the time that the schedule has. Good requests alone
come first, then as many among `SHARES` of others, with bursts; then SIGTERM under load.
Answers are compared with those of `jaxner.entities`. Clients retry when they are told
to. "near bursts" are good requests while one is under way. Exits with 1 if a promise is
broken.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import gc
import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import jaxner
from benchmarks import measure, serving
from benchmarks.serving import Answer, Connection, request
from jaxner.data import tokens

SHARES = {"good": 0.799, "malformed": 0.05, "too large": 0.05, "cut off": 0.05}
SHARES |= {"slow": 0.05, "idle": 0.001}
_PATIENCE = 60.0  # seconds until an answer counts as lost
_IDLE = 2.0  # seconds until clients close a connection: sooner than a service does
_WAKE = 2.0  # seconds for which those that a burst displaced come back
_HUGE = 1 << 19  # bytes: more than a service accepts
_SLOWER, _GROWTH = 3.0, 0.02  # at most: p99 among others ÷ alone; of memory, a half


class Case(NamedTuple):
    """A request in pieces, and what is due: one of some statuses, or no answer."""

    pieces: Sequence[bytes]
    statuses: Sequence[int] = ()
    entities: Sequence[dict[str, Any]] | None = None
    pause: float = 0.0  # seconds after each piece

    def is_right(self, answer: Answer) -> bool:
        """Returns whether an answer is the one that is due."""
        if answer.status not in self.statuses or self.entities is None:
            return answer.status in self.statuses
        try:
            (result,) = json.loads(answer.content)["results"]
            pairs = [*zip(result["entities"], self.entities, strict=True)]
            gaps = [abs(x["probability"] - y["probability"]) for x, y in pairs]
        except (ValueError, KeyError, TypeError):
            return False
        same = all(x | {"probability": y["probability"]} == y for x, y in pairs)
        return same and max(gaps, default=0.0) < 1e-4


def read(tagger: Any, sentences: Sequence[list[str]], most: int) -> list[Case]:
    """Returns good cases: sentences of tokens, some texts, and a few texts of twenty.

    No two have the same entities: an answer to another request shows.
    """
    texts = [*map(" ".join, sentences)]
    long = [" ".join(texts[i : i + 20]) for i in range(0, len(texts), 80)]
    texts = [x for x in texts[::10] + long if max(map(len, tokens.read(x))) <= most]
    cases = {}
    for name, asked in (("tokens", sentences), ("texts", texts)):
        answers = jaxner.entities(tagger, asked, raw=name == "texts")
        for each, records in zip(asked, answers, strict=True):
            rows = [record._asdict() for record in records]
            data = request(json.dumps({name: each}).encode())
            cases[json.dumps(rows)] = Case([data], [200], rows)
    return [*cases.values()]


def beside(good: list[Case], idle: float) -> dict[str, list[Case]]:
    """Returns the cases of each kind; connections are idle for some seconds."""
    (data,) = good[0].pieces
    head, body = data.split(b"\r\n\r\n")
    malformed = [
        *((request(x), [400]) for x in (b'{"texts": "Ro', b"[" * 1000, b'"\xff"')),
        *((request(x), [422]) for x in (b"{}", b'{"texts": [1]}', b'{"tokens": "a"}')),
        (request(b'{"texts": "a", "n_best": 99}'), [422]),
        (request(body, "POST /v1/nothing"), [404, 405]),
        (request(body, "PUT /v1/entities"), [405]),
        (request(body, head="content-length: -1"), [400]),
        (b"nonsense\r\n\r\n", [400]),
    ]
    chunk = b"10000\r\n" + b"a" * (1 << 16) + b"\r\n"
    many = json.dumps({"texts": ["a"] * 1000}).encode()
    large = [
        (request(b"a" * _HUGE), [413]),
        (request(head=f"content-length: {10**12}\r\nconnection: close"), [413]),
        (request(chunk * 8 + b"0\r\n\r\n", head="transfer-encoding: chunked"), [413]),
        (request(many), [413, 422]),
    ]
    parts = head[: len(head) // 2], data[: -len(body) // 2], data
    cases = {"good": good, "idle": [Case([b""], pause=idle)]}
    cases["malformed"] = [Case([x], statuses) for x, statuses in malformed]
    cases["too large"] = [Case([x], statuses) for x, statuses in large]
    cases["cut off"] = [Case([x], pause=wait) for x in parts for wait in (0, 0.002)]
    cases["slow"] = [case._replace(pause=3.0) for case in good[-20:]]  # to read
    for case in good[:80]:  # to write: a byte at a time at the start and the end
        (data,) = case.pieces
        first, last = ([bytes([x]) for x in part] for part in (data[:9], data[-9:]))
        pieces = [*first, data[9:-9], *last]
        cases["slow"].append(case._replace(pieces=pieces, pause=0.15))
    return cases


class Asked(NamedTuple):
    """What came of a request; times are in seconds."""

    kind: str
    outcome: str  # a status that is right, none due, refused, wrong or lost
    retries: int
    due: float
    begun: float
    over: float


class Load:
    """Clients of a port that ask by a schedule, and what came of it."""

    def __init__(self, port: int):
        self._port, self.is_ending = port, False
        self._kept: collections.deque[Connection] = collections.deque()
        self.asked: list[Asked] = []
        self.bursts: list[tuple[float, float]] = []  # start and end

    @contextlib.contextmanager
    def _connection(self) -> Iterator[Connection]:
        """Yields a connection: of those that are kept, the one used last."""
        now, connection = time.perf_counter(), Connection(self._port)
        while self._kept and now - self._kept[0].since > _IDLE:
            self._kept.popleft().close()
        while self._kept and connection.is_new:
            if (kept := self._kept.pop()).reader.at_eof():
                kept.close()
            else:
                connection = kept
        try:
            yield connection
        finally:
            if connection.is_kept:
                self._kept.append(connection)
            else:
                connection.close()

    async def _try(self, case: Case) -> tuple[str, float | None]:
        """Returns what came of a request, and after how many seconds to retry."""
        with self._connection() as connection:
            try:
                await connection.send(*case.pieces, pause=case.pause)
                if not case.statuses:
                    return "none due", None
                answer = await connection.answer()
            except (OSError, EOFError):
                is_late = self.is_ending and connection.is_new
                return "refused" if is_late or not case.statuses else "lost", None
        name = str(answer.status) if case.is_right(answer) else "wrong"
        return name, answer.retry_after

    async def ask(self, kind: str, case: Case, due: float) -> None:
        """Sends a request, again where it is told to, and notes what came of it."""
        begun, outcome, retries = time.perf_counter(), "lost", -1
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                wait = 0.0
                while wait is not None:
                    await asyncio.sleep(wait * random.uniform(1, 2))
                    retries += 1
                    name, wait = await self._try(case)
                outcome = name
        over = time.perf_counter()
        self.asked.append(Asked(kind, outcome, retries, due, begun, over))

    async def _burst(self, good: Sequence[Case], start: float, size: int) -> None:
        await asyncio.sleep(start - time.perf_counter())
        cases = random.choices(good, k=size)
        await asyncio.gather(*(self.ask("burst", case, start) for case in cases))
        self.bursts.append((start, time.perf_counter()))

    async def offer(
        self,
        cases: Mapping[str, Sequence[Case]],
        rates: Mapping[str, float],
        seconds: float,
        bursts: Sequence[int] = (),
    ) -> None:
        """Asks at rates (1/s) of kinds for some seconds, with bursts of some sizes."""
        due = start = time.perf_counter()
        kinds, weights = zip(*rates.items(), strict=True)
        async with asyncio.TaskGroup() as group:
            for i, size in enumerate(bursts):
                at = start + (i + 0.25) * seconds / len(bursts)
                group.create_task(self._burst(cases["good"], at, size))
            while (due := due + random.expovariate(sum(weights))) < start + seconds:
                await asyncio.sleep(due - time.perf_counter())
                (kind,) = random.choices(kinds, weights)
                group.create_task(self.ask(kind, random.choice(cases[kind]), due))
        while self._kept:
            self._kept.pop().close()

    def rows(self) -> dict[str, dict[str, Any]]:
        """Returns a row for each kind."""
        kinds: dict[str, list[Asked]] = collections.defaultdict(list)
        for x in self.asked:
            near = any(x.due < b + _WAKE and x.over > a for a, b in self.bursts)
            is_near = near and x.kind == "good"
            kinds["good, near bursts" if is_near else x.kind].append(x)
        rows = {}
        for kind, asked in sorted(kinds.items()):
            row: dict[str, Any] = {"kind": kind, "requests": len(asked)}
            for share in (50, 99):
                seconds = np.percentile([x.over - x.due for x in asked], share)
                row[f"p{share}, ms"] = 1e3 * float(seconds)
            row["retries"] = sum(x.retries for x in asked)
            counts = sorted(collections.Counter(x.outcome for x in asked).items())
            row["outcomes"] = ", ".join(f"{name}: {n:,}" for name, n in counts)
            rows[kind] = row
        return rows


class Servers:
    """Processes behind one port, and what is seen of each."""

    def __init__(self, processes: Sequence[subprocess.Popen]):
        self._processes = processes
        self.times: list[float] = []
        self.sizes: list[list[float]] = []  # MiB of each process

    async def watch(self) -> None:
        """Notes their memory every second."""
        while True:
            self.times.append(time.perf_counter())
            sizes = [measure.megabytes(x.pid) or 0.0 for x in self._processes]
            self.sizes.append(sizes)
            await asyncio.sleep(1.0)

    def files(self) -> list[int]:
        """Returns how many files each has open."""
        return [len(os.listdir(f"/proc/{x.pid}/fd")) for x in self._processes]

    async def stop(self, seconds: float) -> list[int | None]:
        """Returns the status of each after SIGTERM; None: it did not end in time."""
        for process in self._processes:
            process.send_signal(signal.SIGTERM)
        end = time.perf_counter() + seconds
        while any(x.poll() is None for x in self._processes):
            if time.perf_counter() > end:
                break
            await asyncio.sleep(0.05)
        return [process.poll() for process in self._processes]

    def growth(self) -> list[float]:
        """Returns by which share the memory of each grew in the last half."""
        half = len(self.sizes) // 2
        times, sizes = np.array(self.times[half:]), np.array(self.sizes[half:])
        slopes = np.polyfit(times - times[0], sizes, 1)[0]
        return (slopes * np.ptp(times) / sizes[-1]).tolist()


async def run(
    port: int, servers: Servers, cases: Mapping[str, Sequence[Case]], options: Any
) -> tuple[dict[str, Load], dict[str, Any], dict[str, bool]]:
    """Runs all phases; returns the load of each, figures, and promises kept or not."""
    rates = {kind: share * options.rate for kind, share in SHARES.items()}
    loads = {phase: Load(port) for phase in ("warm-up", "alone", "others", "end")}
    await loads["warm-up"].offer(cases, rates, options.seconds / 10)
    await asyncio.sleep(1.0)
    files = servers.files()
    only = {"good": rates["good"]}
    await loads["alone"].offer(cases, only, options.seconds / 5)
    watching, cpu = asyncio.create_task(servers.watch()), time.process_time()
    sizes = [options.burst] * options.bursts
    await loads["others"].offer(cases, rates, options.seconds, sizes)
    cpu = time.process_time() - cpu
    watching.cancel()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(10.0):
            while servers.files() > files:
                await asyncio.sleep(0.5)
    more = servers.files()
    idle = [Connection(port) for _ in range(4)]
    for connection in idle:
        await connection.send()
    ending = asyncio.create_task(loads["end"].offer(cases, rates, 3.0))
    await asyncio.sleep(1.0)
    loads["end"].is_ending, start = True, time.perf_counter()
    statuses = await servers.stop(options.stop_seconds)
    stopped = time.perf_counter() - start
    await ending
    for connection in idle:
        connection.close()
    asked = loads["others"].asked
    late = np.percentile([x.begun - x.due for x in asked], 99)
    outcomes = {x.outcome for load in loads.values() for x in load.asked}
    alone, others = (
        loads[phase].rows()["good"]["p99, ms"] for phase in ("alone", "others")
    )
    growth = servers.growth()
    figures = {
        "p99 among others ÷ alone": others / alone,
        "MiB": servers.sizes[-1],
        "growth in the last half, %": [100 * x for x in growth],
        "files before": files,
        "files after": more,
        "status": statuses,
        "s to end": stopped,
        "clients' CPU, ms a request": 1e3 * cpu / len(asked),
        "clients late, p99, ms": 1e3 * float(late),
    }
    promises = {
        "no answer is lost": "lost" not in outcomes,
        "no answer is wrong": "wrong" not in outcomes,
        f"p99 is at most {_SLOWER:g} × that alone": others <= _SLOWER * alone,
        "memory is flat": max(growth) <= _GROWTH,
        "files are closed": more <= files,
        "SIGTERM ends all with 0": not any(x != 0 for x in statuses),
    }
    return loads, figures, promises


def plot(load: Load, servers: Servers, path: Path) -> None:
    """Draws memory, and the latencies of good requests, over the minutes."""
    from matplotlib.figure import Figure

    figure = Figure((8, 6), layout="constrained")
    above, below = figure.subplots(2, sharex=True)
    start, most = servers.times[0], np.max(servers.sizes)
    above.plot((np.array(servers.times) - start) / 60, servers.sizes)
    above.set(ylabel="memory, MiB", ylim=(0, 1.1 * most))
    good = [x for x in load.asked if x.kind == "good"]
    minutes = [(x.due - start) / 60 for x in good]
    below.plot(minutes, [1e3 * (x.over - x.due) for x in good], ",")
    below.set(xlabel="minutes", ylabel="latency of good requests, ms", yscale="log")
    figure.savefig(path, dpi=150)


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the phases; exits with 1 if a promise is broken."""
    parser = measure.parser(__doc__)
    parser.add_argument("--workdir", type=os.path.abspath, help="the run to serve")
    parser.add_argument("--seconds", type=float, default=600.0, help="with all kinds")
    parser.add_argument("--rate", type=float, default=333.0, help="requests a second")
    parser.add_argument("--bursts", type=int, default=10, help="number of bursts")
    parser.add_argument("--burst", type=int, default=1000, help="requests of a burst")
    parser.add_argument("--processes", type=int, default=1, help="one a device")
    parser.add_argument("--stop-seconds", type=float, default=35.0)
    parser.add_argument("--plot", type=Path, metavar="FILE.png")
    options = measure.parse(parser, argv)
    report, most = measure.Report(options.json), serving.longest(options)
    train = measure.load(options.dataset, "train", options.limit)
    sentences = [words for words, _ in train if len(words) <= most]
    good = read(jaxner.load(options.workdir), sentences, most)
    gc.freeze()  # what JAX holds: to look through it would stop all clients
    cases = beside(good, options.seconds / 10)
    with contextlib.ExitStack() as stack:
        started: list[Any] = []
        for i in range(options.processes):
            more = [f"--port={started[0].port if started else 0}"]
            environment = dict(os.environ)
            if options.processes > 1:
                more.append("--reuse-port")
                environment["CUDA_VISIBLE_DEVICES"] = str(i)
            command = serving.command(options, *more)
            server = serving.serves(*command, env=environment)
            started.append(stack.enter_context(server))
        servers = Servers([x.process for x in started])
        work = run(started[0].port, servers, cases, options)
        loads, figures, promises = asyncio.run(work)
    for phase, load in loads.items():
        report.table(phase, [*load.rows().values()])
    report.table("figures", [{"": k, "value": x} for k, x in figures.items()])
    rows = [{"promise": k, "kept": "yes" if x else "no"} for k, x in promises.items()]
    report.table("promises", rows)
    if options.plot:
        plot(loads["others"], servers, options.plot)
    raise SystemExit(not all(promises.values()))


if __name__ == "__main__":
    main()
