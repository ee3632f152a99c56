r"""The service under a load that does not wait for it: does it keep its promises?

    python -m benchmarks.soak --workdir runs/grn --seconds 600 --rate 333 \
      --json soak.json

Requests arrive at random (Poisson) at a rate, whatever the answers, over connections
that are kept; latency counts from the time that the schedule has. Good requests alone
come first, then as many among `SHARES` of others, with bursts; then SIGTERM under load.
Answers are compared with those of `jaxner.entities`. Clients retry when they are told
to. "near bursts" are good requests while one is under way. Exits with 1 if a promise is
broken.
"""

import asyncio
import collections
import contextlib
import gc
import json
import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
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
_STOP = 35.0  # seconds until a service that got SIGTERM must have ended
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
            pairs = zip(result["entities"], self.entities, strict=True)
            return all(
                abs(x["probability"] - y["probability"]) < 1e-4
                and x | {"probability": y["probability"]} == y
                for x, y in pairs
            )
        except (ValueError, KeyError, TypeError):
            return False


def read(tagger: Any, sentences: Sequence[list[str]], most: int) -> list[Case]:
    """Returns good cases: sentences of tokens, some texts, and a few texts of twenty.

    No two have the same entities: an answer to another request shows.
    """
    texts = [*map(" ".join, sentences)]
    long = [" ".join(texts[i : i + 20]) for i in range(0, len(texts), 80)]
    texts = [x for x in texts[::10] + long if max(map(len, tokens.read(x))) <= most]
    cases = {}
    for name, inputs in (("tokens", sentences), ("texts", texts)):
        answers = jaxner.entities(tagger, inputs, raw=name == "texts")
        for value, records in zip(inputs, answers, strict=True):
            rows = [record._asdict() for record in records]
            data = request(json.dumps({name: value}).encode())
            cases[json.dumps(rows)] = Case([data], [200], rows)
    return [*cases.values()]


def beside(good: list[Case], idle: float) -> dict[str, list[Case]]:
    """Returns the cases of each kind; connections are idle for some seconds."""
    (data,) = good[0].pieces
    head, body = data.split(b"\r\n\r\n")
    errors = [
        *((request(x), [400]) for x in (b'{"texts": "Ro', b"[" * 1000, b'"\xff"')),
        *((request(x), [422]) for x in (b"{}", b'{"texts": [1]}', b'{"tokens": "a"}')),
        (request(b'{"texts": "a", "n_best": 99}'), [422]),
        (request(body, "POST /v1/nothing"), [404, 405]),
        (request(body, "PUT /v1/entities"), [405]),
        (request(body, head="content-length: -1"), [400]),
        (b"nonsense\r\n\r\n", [400]),
    ]
    chunk = b"10000\r\n" + b"a" * (1 << 16) + b"\r\n"
    batch = json.dumps({"texts": ["a"] * 1000}).encode()
    large = [
        (request(b"a" * _HUGE), [413]),
        (request(b"", head=f"content-length: {10**12}\r\nconnection: close"), [413]),
        (request(chunk * 8 + b"0\r\n\r\n", head="transfer-encoding: chunked"), [413]),
        (request(batch), [413, 422]),
    ]
    parts = head[: len(head) // 2], data[: -len(body) // 2], data
    cases = {"good": good, "idle": [Case([b""], pause=idle)]}
    cases["malformed"] = [Case([x], statuses) for x, statuses in errors]
    cases["too large"] = [Case([x], statuses) for x, statuses in large]
    cases["cut off"] = [Case([x], pause=wait) for x in parts for wait in (0, 0.002)]
    cases["slow"] = [case._replace(pause=3.0) for case in good[-20:]]  # to read
    for case in good[:80]:  # to write: a byte at a time at the start and the end
        (data,) = case.pieces
        first, last = ([bytes([x]) for x in part] for part in (data[:9], data[-9:]))
        pieces = [*first, data[9:-9], *last]
        cases["slow"].append(case._replace(pieces=pieces, pause=0.15))
    return cases


Cases = Mapping[str, Sequence[Case]]
Rates = Mapping[str, float]  # of kinds, requests a second


class Asked(NamedTuple):
    """What came of a request: a status that is right, wrong, lost, refused, none due.

    Times are in seconds; it began `delay` after it was due: the clients' own.
    """

    kind: str
    outcome: str
    retries: int
    due: float
    delay: float
    end: float


class Load:
    """Clients of a port that ask by a schedule, and what came of it."""

    is_ending = False  # a new connection may be refused

    def __init__(self, port: int):
        self._port, self._pool = port, list[Connection]()
        self.requests: list[Asked] = []
        self.bursts: list[tuple[float, float]] = []  # start and end

    async def _try(self, case: Case) -> tuple[str, float | None]:
        """Returns what came of a request, and after how many seconds to retry."""
        connection = Connection(self._port)
        while self._pool and connection.is_new:
            idle_connection, clock = self._pool.pop(), time.perf_counter()
            if idle_connection.is_open() and clock - idle_connection.last_use < _IDLE:
                connection = idle_connection
            else:
                idle_connection.close()
        try:
            await connection.send(*case.pieces, pause=case.pause)
            if not case.statuses:
                return "none due", None
            answer = await connection.answer()
        except (OSError, EOFError):
            is_late = self.is_ending and connection.is_new
            return "refused" if is_late or not case.statuses else "lost", None
        finally:
            if connection.is_kept:
                self._pool.append(connection)
            else:
                connection.close()
        return str(answer.status) if case.is_right(answer) else "wrong", answer.wait

    async def ask(self, kind: str, case: Case, due: float) -> None:
        """Sends a request, again where it is told to, and notes what came of it."""
        delay, outcome, retries, wait = time.perf_counter() - due, "lost", -1, 0.0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                while wait is not None:
                    await asyncio.sleep(wait * random.uniform(1, 2))
                    retries += 1
                    name, wait = await self._try(case)
                outcome = name
        end = time.perf_counter()
        self.requests.append(Asked(kind, outcome, retries, due, delay, end))

    async def _burst(self, good: Sequence[Case], start: float, size: int) -> None:
        await asyncio.sleep(start - time.perf_counter())
        cases = random.choices(good, k=size)
        await asyncio.gather(*(self.ask("burst", case, start) for case in cases))
        self.bursts.append((start, time.perf_counter()))

    async def offer(
        self, cases: Cases, rates: Rates, seconds: float, bursts: Sequence[int] = ()
    ) -> None:
        """Asks at rates (1/s) of kinds for some seconds, with bursts of some sizes."""
        due = start = time.perf_counter()
        kinds, weights = zip(*rates.items(), strict=True)
        async with asyncio.TaskGroup() as group:
            for i, size in enumerate(bursts):
                moment = start + (i + 0.25) * seconds / len(bursts)
                group.create_task(self._burst(cases["good"], moment, size))
            while (due := due + random.expovariate(sum(weights))) < start + seconds:
                await asyncio.sleep(due - time.perf_counter())
                (kind,) = random.choices(kinds, weights)
                group.create_task(self.ask(kind, random.choice(cases[kind]), due))
        while self._pool:
            self._pool.pop().close()

    def rows(self) -> dict[str, dict[str, Any]]:
        """Returns a row for each kind."""
        kinds: dict[str, list[Asked]] = collections.defaultdict(list)
        for x in self.requests:
            is_near = any(x.due < b + _WAKE and x.end > a for a, b in self.bursts)
            kinds[x.kind + ", near bursts" * (is_near and x.kind == "good")].append(x)
        rows = {}
        for kind, group in sorted(kinds.items()):
            counts = sorted(collections.Counter(x.outcome for x in group).items())
            p50, p99 = np.percentile([x.end - x.due for x in group], (50, 99)).tolist()
            row: dict[str, Any] = {"kind": kind, "requests": len(group)}
            row |= {"p50, ms": 1e3 * p50, "p99, ms": 1e3 * p99}
            row["retries"] = sum(x.retries for x in group)
            row["outcomes"] = ", ".join(f"{name}: {n:,}" for name, n in counts)
            rows[kind] = row
        return rows


async def run(
    process: Any, port: int, cases: Cases, options: Any, report: measure.Report
) -> bool:
    """Runs and reports all phases; returns whether a server keeps all promises."""
    memory, files = list[float](), f"/proc/{process.pid}/fd"

    async def watch() -> None:
        while True:
            memory.append(measure.megabytes(process.pid))
            await asyncio.sleep(1.0)

    async def wait(seconds: float, is_over: Callable[[], bool]) -> None:
        end = time.perf_counter() + seconds
        while not is_over() and time.perf_counter() < end:
            await asyncio.sleep(0.05)

    rates = {kind: share * options.rate for kind, share in SHARES.items()}
    loads = {phase: Load(port) for phase in ("warm-up", "alone", "others", "end")}
    await loads["warm-up"].offer(cases, rates, options.seconds / 10)
    await asyncio.sleep(1.0)
    limit, rate = len(os.listdir(files)), {"good": rates["good"]}
    await loads["alone"].offer(cases, rate, options.seconds / 5)
    bursts, watching = round(options.seconds / 60) or 1, asyncio.create_task(watch())
    await loads["others"].offer(cases, rates, options.seconds, [options.burst] * bursts)
    watching.cancel()
    await wait(10.0, lambda: len(os.listdir(files)) <= limit)
    count, idle = len(os.listdir(files)), [Connection(port) for _ in range(4)]
    for connection in idle:
        await connection.send()
    ending = asyncio.create_task(loads["end"].offer(cases, rates, 3.0))
    await asyncio.sleep(1.0)
    loads["end"].is_ending, stop = True, time.perf_counter()
    process.terminate()
    await wait(_STOP, lambda: process.poll() is not None)
    duration, status = time.perf_counter() - stop, process.poll()
    await ending
    for connection in idle:
        connection.close()

    requests = loads["others"].requests
    outcomes = {k: {x.outcome for x in load.requests} for k, load in loads.items()}
    wrong, loss = ({k for k in outcomes if x in outcomes[k]} for x in ("wrong", "lost"))
    solo, crowd = (loads[x].rows()["good"]["p99, ms"] for x in ("alone", "others"))
    ratio, delay = crowd / solo, float(np.percentile([x.delay for x in requests], 99))
    first, half, last = memory[0], memory[len(memory) // 2 :], memory[-1]
    slope, _ = np.polyfit(np.linspace(0, 1, len(half)), half, 1)
    growth = float(slope / last)
    figures = {
        "MiB at the start, half and end": [round(x) for x in (first, half[0], last)],
        "s to end": duration,
        "late, p99, ms": 1e3 * delay,
    }
    promises = [
        ("no answer is lost", sorted(loss - {"end"}), loss <= {"end"}),
        ("no answer is wrong", sorted(wrong), not wrong),
        (f"p99 ÷ that alone: at most {_SLOWER:g}", ratio, ratio <= _SLOWER),
        (f"growth of memory: at most {_GROWTH:g}", growth, growth <= _GROWTH),
        ("all files are closed", [limit, count], count <= limit),
        ("SIGTERM loses no answer", sorted(loss & {"end"}), "end" not in loss),
        ("SIGTERM ends it with 0", status, status == 0),
    ]
    for phase, load in loads.items():
        report.table(phase, [*load.rows().values()])
    report.table("the server, and the clients' delay", [figures])
    rows = [{"promise": x, "figure": y, "kept": str(z)} for x, y, z in promises]
    report.table("promises", rows)
    return all(is_kept for _, _, is_kept in promises)


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the phases; exits with 1 if a promise is broken."""
    parser = measure.parser(__doc__)
    parser.add_argument("--workdir", type=os.path.abspath, help="the run to serve")
    parser.add_argument("--seconds", type=float, default=600.0, help="with all kinds")
    parser.add_argument("--rate", type=float, default=333.0, help="requests a second")
    parser.add_argument("--burst", type=int, default=1000, help="requests, each minute")
    options = measure.parse(parser, argv)
    report, most = measure.Report(options.json), 16 if options.quick else 128
    train = measure.load(options.dataset, "train", options.limit)
    sentences = [words for words, _ in train if len(words) <= most]
    good = read(jaxner.load(options.workdir), sentences, most)
    gc.freeze()  # what JAX holds: to look through it would stop all clients
    cases = beside(good, min(options.seconds / 10, _PATIENCE / 2))
    with serving.serves(options.workdir, most) as server:
        is_kept = asyncio.run(run(*server, cases, options, report))
    raise SystemExit(not is_kept)


if __name__ == "__main__":
    main()
