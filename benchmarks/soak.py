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


class Load:
    """Clients that ask by a schedule, and what came of each request."""

    def __init__(self, port: int):
        self._port, self.is_ending = port, False
        self._kept: collections.deque[Connection] = collections.deque()
        self.counts: collections.Counter[tuple[str, str]] = collections.Counter()
        self.times: list[tuple[str, float, float, float]] = []  # due, begun, over
        self.bursts: list[tuple[float, float]] = []

    @contextlib.contextmanager
    def _connection(self) -> Iterator[Connection]:
        """Yields a connection, the one used last if there are some."""
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

    async def _outcome(self, kind: str, case: Case) -> str:
        while True:
            with self._connection() as connection:
                was_new = connection.is_new
                try:
                    await connection.send(*case.pieces, pause=case.pause)
                    if not case.statuses:
                        return "none due"
                    answer = await connection.answer()
                except (OSError, EOFError):
                    is_refused = self.is_ending and was_new
                    return "refused" if is_refused or not case.statuses else "lost"
            if answer.retry_after is None:
                return str(answer.status) if case.is_right(answer) else "wrong"
            self.counts[kind, f"{answer.status} for now"] += 1
            await asyncio.sleep(answer.retry_after * random.uniform(1, 2))

    async def ask(self, kind: str, case: Case, due: float) -> None:
        """Sends a request, again where it is told to, and notes what came of it."""
        begun, outcome = time.perf_counter(), "lost"
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                outcome = await self._outcome(kind, case)
        self.counts[kind, outcome] += 1
        self.times.append((kind, due, begun, time.perf_counter()))

    async def _burst(self, good: list[Case], start: float, size: int) -> None:
        await asyncio.sleep(start - time.perf_counter())
        asked = (self.ask("burst", random.choice(good), start) for _ in range(size))
        await asyncio.gather(*asked)
        self.bursts.append((start, time.perf_counter()))

    async def offer(
        self,
        cases: Mapping[str, list[Case]],
        rates: Mapping[str, float],
        seconds: float,
        bursts: Sequence[int] = (),
    ) -> None:
        """Asks at rates (1/s) of kinds for some seconds, with bursts of some sizes."""
        due = start = time.perf_counter()
        async with asyncio.TaskGroup() as group:
            for i, size in enumerate(bursts):
                at = start + (i + 0.25) * seconds / len(bursts)
                group.create_task(self._burst(cases["good"], at, size))
            kinds, weights = zip(*rates.items(), strict=True)
            while (due := due + random.expovariate(sum(weights))) < start + seconds:
                await asyncio.sleep(due - time.perf_counter())
                (kind,) = random.choices(kinds, weights)
                group.create_task(self.ask(kind, random.choice(cases[kind]), due))
        while self._kept:
            self._kept.pop().close()

    def milliseconds(self) -> dict[str, list[float]]:
        """Returns the latencies of each kind."""
        kinds: dict[str, list[float]] = collections.defaultdict(list)
        for kind, due, _, over in self.times:
            if kind == "good" and any(due < b and over > a for a, b in self.bursts):
                kind = "good, near bursts"
            kinds[kind].append(1e3 * (over - due))
        return kinds

    def rows(self) -> list[dict[str, Any]]:
        """Returns a row for each kind."""
        rows = []
        for kind, values in self.milliseconds().items():
            p50, p99 = np.percentile(values, (50, 99)).tolist()
            row = {"kind": kind, "requests": len(values)}
            row |= {"p50, ms": p50, "p99, ms": p99, "outcomes": ""}
            own = sorted((name, n) for (x, name), n in self.counts.items() if x == kind)
            row["outcomes"] = ", ".join(f"{name}: {n:,}" for name, n in own)
            rows.append(row)
        return rows


async def watch(servers: Sequence[Any], samples: list[Any]) -> None:
    """Adds time and memory, in MiB, of each server every second."""
    while True:
        now = time.perf_counter()
        samples.append((now, [measure.megabytes(x.process.pid) for x in servers]))
        await asyncio.sleep(1.0)


def files(servers: Sequence[Any]) -> list[int]:
    """Returns how many files each server has open."""
    return [len(os.listdir(f"/proc/{x.process.pid}/fd")) for x in servers]


async def run(servers: Sequence[Any], cases: Any, options: Any) -> dict[str, Any]:
    """Runs all phases; returns the load of each, and what was seen of the servers."""
    rates = {kind: share * options.rate for kind, share in SHARES.items()}
    loads = {x: Load(servers[0].port) for x in ("warm-up", "alone", "others", "end")}
    seen: dict[str, Any] = {"loads": loads, "samples": []}
    watching = asyncio.create_task(watch(servers, seen["samples"]))
    await loads["warm-up"].offer(cases, rates, min(5.0, options.seconds / 5))
    await asyncio.sleep(1.0)
    seen["files"] = [files(servers)]
    only = {"good": rates["good"]}
    await loads["alone"].offer(cases, only, options.seconds / 5)
    seen["start"], cpu = time.perf_counter(), time.process_time()
    sizes = [options.burst] * options.bursts
    await loads["others"].offer(cases, rates, options.seconds, sizes)
    seen["cpu"] = time.process_time() - cpu
    for _ in range(20):
        seen["files"][1:] = [files(servers)]
        if seen["files"][1] <= seen["files"][0]:
            break
        await asyncio.sleep(0.5)
    watching.cancel()
    idle = [Connection(servers[0].port) for _ in range(4)]
    for connection in idle:
        await connection.send()
    load = asyncio.create_task(loads["end"].offer(cases, rates, 3.0))
    await asyncio.sleep(1.0)
    loads["end"].is_ending, start = True, time.perf_counter()
    for server in servers:
        server.process.send_signal(signal.SIGTERM)
    for server in servers:
        left = options.stop_seconds + start - time.perf_counter()
        with contextlib.suppress(subprocess.TimeoutExpired):
            await asyncio.to_thread(server.process.wait, max(left, 0.0))
    seen["stopped"] = time.perf_counter() - start
    seen["exits"] = [server.process.poll() for server in servers]
    await load
    return seen


def judge(seen: Mapping[str, Any], report: measure.Report) -> bool:
    """Reports what was seen; returns whether all promises are kept."""
    loads = seen["loads"]
    for phase, load in loads.items():
        report.table(phase, load.rows())
    alone, others = (
        np.percentile(loads[x].milliseconds()["good"], 99) for x in ("alone", "others")
    )
    late = [begun - due for _, due, begun, _ in loads["others"].times]
    count = len(late)
    row = {"requests": count, "CPU, ms a request": 1e3 * seen["cpu"] / count}
    row["late, p99, ms"] = 1e3 * np.percentile(late, 99)
    report.table("the clients", [row])
    time_, memory = map(np.array, zip(*seen["samples"], strict=True))
    half = time_ > (seen["start"] + time_[-1]) / 2
    rows, promises = [], {}
    for i, sizes in enumerate(memory.T):
        slope = np.polyfit(time_[half] - time_[half][0], sizes[half], 1)[0]
        growth = slope * np.ptp(time_[half])
        row = {"server": i, "MiB at the start": sizes[0], "at half": sizes[half][0]}
        row |= {"at the end": sizes[-1], "growth in the last half": growth}
        row |= {"files before": seen["files"][0][i], "after": seen["files"][1][i]}
        rows.append(row | {"status": seen["exits"][i], "s to stop": seen["stopped"]})
        promises[f"memory of server {i} is flat"] = growth <= _GROWTH * sizes[-1]
    report.table("the servers", rows)
    outcomes = [name for load in loads.values() for _, name in load.counts]
    promises["no answer is lost"] = "lost" not in outcomes
    promises["no answer is wrong"] = "wrong" not in outcomes
    promises["p99 of good requests among others"] = others <= _SLOWER * alone
    promises["as many files at the end"] = seen["files"][1] <= seen["files"][0]
    promises["SIGTERM ends with status 0"] = not any(x != 0 for x in seen["exits"])
    report.table(
        "promises", [{"promise": k, "kept": bool(v)} for k, v in promises.items()]
    )
    return all(promises.values())


def plot(seen: Mapping[str, Any], path: Path) -> None:
    """Draws memory, and the latencies of good requests, over the minutes."""
    from matplotlib.figure import Figure

    load, start = seen["loads"]["others"], seen["start"]
    figure = Figure((8, 6), layout="constrained")
    above, below = figure.subplots(2, sharex=True)
    time_, memory = map(np.array, zip(*seen["samples"], strict=True))
    above.plot((time_ - start) / 60, memory)
    above.set(ylabel="memory, MiB", ylim=(0, None))
    good = np.array(
        [(due, over) for kind, due, _, over in load.times if kind == "good"]
    )
    seconds = np.floor(good[:, 0] - start)
    for share in (50, 99):
        values = [
            np.percentile(1e3 * np.diff(good[seconds == x])[:, 0], share)
            for x in np.unique(seconds)
        ]
        below.plot(np.unique(seconds) / 60, values, label=f"p{share}")
    for first, last in load.bursts:
        below.axvspan((first - start) / 60, (last - start) / 60, alpha=0.3)
    below.set(xlabel="minutes", ylabel="latency of good requests, ms", yscale="log")
    below.legend()
    figure.savefig(path)


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
    with contextlib.ExitStack() as stack:
        servers: list[Any] = []
        for i in range(options.processes):
            more = [f"--port={servers[0].port if servers else 0}"]
            environment = dict(os.environ)
            if options.processes > 1:
                more.append("--reuse-port")
                environment["CUDA_VISIBLE_DEVICES"] = str(i)
            started = serving.serves(*serving.command(options, *more), env=environment)
            servers.append(stack.enter_context(started))
        cases = beside(good, options.seconds / 10)
        seen = asyncio.run(run(servers, cases, options))
    is_kept = judge(seen, report)
    if options.plot:
        plot(seen, options.plot)
    raise SystemExit(not is_kept)


if __name__ == "__main__":
    main()
