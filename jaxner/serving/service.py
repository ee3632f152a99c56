"""The service: requests in JSON, jobs in batches, and refusals.

A request is read, its jobs wait for the model, and its answer is written. What is short
happens on the event loop, the rest in two threads: one reads and writes, one runs the
model. Of the largest requests, `_QUEUE_FACTOR` may wait for each; short ones overtake
them. Nothing of a text is logged.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import hmac
import itertools
import json
import logging
import math
import mimetypes
import re
import time
import traceback
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import prometheus_client as prometheus
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException as Refusal
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from jaxner import driver, fields
from jaxner.answers.mentions import EntityArrays, joined, least_certain, read_entities
from jaxner.data import tokens
from jaxner.data.spans import unique
from jaxner.data.tokens import Token
from jaxner.errors import InputError
from jaxner.serving import Limits
from jaxner.serving.programs import LABELLINGS, PASSES, Job, Programs
from jaxner.types import Minima

log = logging.getLogger("jaxner.serve")

_QUEUE_FACTOR = 4
_SHORT = 1 << 11  # bytes of a request whose reading takes less than a change of threads
_BUDGETS = 4  # of a batch: jobs that are planned together have less padding
_NUMBERS = 1 << 19  # of the maps in an answer, up to ten bytes each


@dataclasses.dataclass(frozen=True)
class Question:
    """A request: texts, the tokens of the sentences of each, and options."""

    texts: list[str]
    sentences: list[list[list[Token]]]
    min_probability: Minima
    n_best: Annotated[int, fields.Range(least=1, most=LABELLINGS)] = 1
    uncertainty: bool = False
    maps: bool = False

    @property
    def is_deep(self) -> bool:
        """Whether more is asked than labels and their entities."""
        return self.n_best > 1 or self.uncertainty or self.maps

    def groups(self, reads_documents: bool) -> Iterator[tuple[int, list[list[Token]]]]:
        """Yields the index of a text and the sentences of a job, for each job."""
        for index, sentences in enumerate(self.sentences):
            jobs = [sentences] if reads_documents else [[x] for x in sentences]
            yield from ((index, job) for job in jobs if job)


def read(body: bytes, model: Programs, limits: Limits, least: Minima = 0.0) -> Question:
    """Returns the question of a request; `Refusal`: it cannot be answered."""
    try:
        text = body.decode("utf-8-sig")
        # There is no int("NaN").
        content = json.loads(text, object_pairs_hook=unique, parse_constant=int)
    except (ValueError, RecursionError):
        raise Refusal(400, "Expected JSON in UTF-8, each name once.") from None
    if not isinstance(content, dict) or len({"texts", "tokens"} & {*content}) != 1:
        raise Refusal(422, 'Expected an object with either "texts" or "tokens".')
    options = {k: v for k, v in content.items() if k not in ("texts", "tokens")}
    hints = {name: field.hint for name, field in fields.of(Question).items()}
    hints = {"min_probability": fields.Share, **hints}
    try:
        for name, value in options.items():
            if name not in hints:
                words = f"{json.dumps(name[:40])}; known: {', '.join(hints)}"
                raise InputError(f"Unknown field {words}")
            is_each = name == "min_probability" and isinstance(value, dict)
            for kind in {*value} - {*model.types.names} if is_each else ():
                words = f"{json.dumps(kind[:99])}; known: "
                words += ", ".join(model.types.names)
                raise InputError(f"Unknown type in {name}: {words}")
            for item in value.values() if is_each else [value]:
                if fields.problem(item, hints[name]):
                    (kind,) = fields.kinds(hints[name])
                    words = f"{name} as {kind}, got {json.dumps(item)[:60]}"
                    raise InputError(f"Expected {words}")
        texts, sentences = _sentences(content, model.tokenizer)
    except InputError as error:
        raise Refusal(422, str(error)) from None
    question = Question(texts, sentences, **{"min_probability": least, **options})
    if question.is_deep and not model.has_chances:
        raise Refusal(422, "This tagger has no probabilities: ask for labels only.")
    count = sum(map(len, sentences)) * (PASSES if question.is_deep else 1)
    if (count := max(len(texts), count)) > limits.max_sentences:
        note = f"; with n_best, uncertainty or maps, each counts as {PASSES}"
        most = f"Expected at most {limits.max_sentences} sentences in a request"
        raise Refusal(422, f"{most}, got {count}{note * question.is_deep}.")
    (name,) = {"texts", "tokens"} & {*content}
    for index, group in question.groups(model.reads_documents):
        separators = (len(group) + 1) * model.reads_documents
        if (count := sum(map(len, group)) + separators) > limits.max_tokens:
            unit = "document" if model.reads_documents else "sentence"
            most = f"Expected at most {limits.max_tokens} tokens in a {unit}"
            most += ", separators included" * bool(separators)
            raise Refusal(422, f"{most}, got {count} in {name}[{index}].")
    return question


def _are_strings(value: object) -> bool:
    return isinstance(value, list) and {*map(type, value)} <= {str}


def _sentences(
    content: dict[str, Any], tokenizer: str | None
) -> tuple[list[str], list[list[list[Token]]]]:
    """Returns the texts of a request, and the tokens of the sentences of each."""
    if "texts" in content:
        texts = content["texts"]
        texts = [texts] if isinstance(texts, str) else texts
        if not _are_strings(texts):
            raise InputError("Expected texts as a string or an array of strings.")
        return texts, [tokens.read(text, tokenizer) for text in texts]
    words = content["tokens"]
    words = [words] if words and _are_strings(words) else words
    if not isinstance(words, list) or not all(map(_are_strings, words)):
        raise InputError("Expected tokens as an array of strings, or of such arrays.")
    for token in itertools.chain(*words):
        if driver.is_text(token):
            text = json.dumps(token[:40], ensure_ascii=False)
            raise InputError(f"Expected tokens, got {text} with white space.")
    return [*map(" ".join, words)], [[joined(sentence)] for sentence in words]


def tag(
    model: Programs, question: Question, text: str, sentences: Any, answers: Any
) -> dict[str, Any]:
    """Returns the result of `/v1/tag` for a text: its tokens and what is asked."""

    def names(ids: np.ndarray) -> list[str]:
        return [model.labels[i] for i in ids.tolist()]

    results = []
    for words, arrays in zip(sentences, answers, strict=True):
        best, n = arrays["best"], question.n_best
        result: dict[str, Any] = {"tokens": [token.text for token in words]}
        result["offsets"] = [[token.start, token.end] for token in words]
        result["labels"] = names(best.labels)
        if model.has_chances:
            result["probabilities"] = _rounded(best.label_probability)
        if n > 1 and words and "chances" in arrays:
            labellings = arrays["n_best"].labels.T[:n]
            result["labellings"] = [
                {"labels": names(ids), "probability": _rounded(chance)}
                for ids, chance in zip(labellings, arrays["chances"][0], strict=False)
                if chance > 0
            ]
        if question.uncertainty and "uncertainty" in arrays:
            values = arrays["uncertainty"].items()
            result["uncertainty"] = {name: _rounded(array) for name, array in values}
        for name in _maps(arrays) if question.maps else ():
            result[name] = _rounded(arrays[name])
        results.append(result)
    return {"sentences": results}


def entities(
    model: Programs, question: Question, text: str, sentences: Any, answers: Any
) -> dict[str, Any]:
    """Returns the result of `/v1/entities` for a text, as `jaxner.entities` does."""
    best = [arrays["best"] for arrays in answers]
    if (n := question.n_best) > 1:
        best = [EntityArrays(*(x[:, :n] for x in a["n_best"])) for a in answers]
    parts = [a["uncertainty"] for a in answers if "uncertainty" in a]
    names = parts[0] if parts else ()
    passes = {name: np.concatenate([part[name] for part in parts]) for name in names}
    records = []
    least = question.min_probability
    for entity in read_entities(model.types, text, sentences, best, least):
        record = entity._asdict()
        record["probability"] = _rounded(entity.probability)
        if question.uncertainty and parts:
            worst = least_certain(passes, entity.start, entity.end).items()
            record["uncertainty"] = {name: _rounded(value) for name, value in worst}
        records.append(record)
    return {"entities": records}


def _maps(arrays: dict[str, Any]) -> set[str]:
    return {"relations", "attention"} & arrays.keys()


def _rounded(values: object) -> Any:
    return np.asarray(values, np.float64).round(6).tolist()


def _json(content: object, status: int = 200, headers: Any = None) -> Response:
    # Lone surrogates in a text are no UTF-8: they stay escaped.
    body = json.dumps(content, allow_nan=False, separators=(",", ":"))
    return Response(body, status, headers, "application/json")


async def _refuse(request: Request, error: Any) -> Response:
    status, headers = error.status_code, {**(error.headers or {})}
    reason = "No such path: /openapi.json has all." if status == 404 else error.detail
    if status in (429, 503):
        headers["retry-after"] = "1"
    elif status == 401:
        headers["www-authenticate"] = "Bearer"
    return _json({"error": reason}, status, headers)


def _failure(error: Exception) -> Refusal:
    """Logs an error without its message, which may have a text."""
    frames = "".join(traceback.format_tb(error.__traceback__))
    log.error("%s\n%s", type(error).__name__, frames)
    return Refusal(500, "Internal error; see the log.")


async def _leave(request: Request) -> None:
    """Returns once the client has closed the connection, or its side of it."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _page(path: Path) -> Route:
    async def show(request: Request) -> Response:
        return Response(content, media_type=kind)

    content, kind = path.read_bytes(), mimetypes.guess_type(path)[0]
    return Route("/" + path.name.replace("index.html", ""), show)


class _Place(NamedTuple):
    """A job in the queue: earlier turns first, then in the order of arrival.

    A turn is that of the job taken last plus the square root of the request's tokens
    so far: small requests overtake large ones, but do not hold them up for ever.
    """

    turn: float
    number: int
    job: Job
    answer: asyncio.Future[Any]


class Service:
    """The application around a model, an ASGI callable.

    Clients must send the `key`, if there is one. `least` is the minimum probability of
    entities, for all or by type, in requests without one. Until `is_ready`, requests
    get status 503, with the `progress`.
    """

    def __init__(
        self, model: Programs, limits: Limits, key: str | None = None, least: Minima = 0
    ):
        self.is_ready, self.progress = False, "compiling"
        self.ends = {"answered": 0, "refused": 0}  # since `stop`
        self.model, self._limits, self._key, self._least = model, limits, key, least
        self._open: set[asyncio.Timeout] = set()
        self._end = math.inf  # when what is open is refused
        # Bytes that have come, requests, bytes to read and tokens to tag.
        names = "received", "answered", "read", "tagged"
        self._load: dict[str, int] = dict.fromkeys(names, 0)
        self._metrics = prometheus.CollectorRegistry()
        prometheus.ProcessCollector(registry=self._metrics)
        texts = "jaxner_request_seconds", "Seconds of requests", ("path", "status")
        self._seconds = prometheus.Histogram(*texts, registry=self._metrics)
        gauges = {k: functools.partial(model.counts.get, k, 0) for k in model.counts}
        gauges["open"] = functools.partial(self._load.get, "answered", 0)
        for name, value in gauges.items():
            texts = f"jaxner_{name}", f"{name.title()}; see the documentation"
            prometheus.Gauge(*texts, registry=self._metrics).set_function(value)
        routes = [*map(_page, (Path(__file__).parent / "page").iterdir())]
        for function in (self.health, self.ready, self.metrics):
            routes.append(Route(f"/{function.__name__}", function))
        for write in (tag, entities):
            answer = functools.partial(self._answer, write)
            routes.append(Route(f"/v1/{write.__name__}", answer, methods=["POST"]))
        self._paths = {route.path for route in routes}
        handlers: Any = {Refusal: _refuse}
        self._app = Starlette(
            routes=routes, lifespan=self._lifespan, exception_handlers=handlers
        )
        self._app.router.redirect_slashes = False

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        self._queue: asyncio.PriorityQueue[_Place] = asyncio.PriorityQueue()
        self._numbers, self._turn = itertools.count(), 0.0
        self._reader, self._runner = ThreadPoolExecutor(1), ThreadPoolExecutor(1)
        task = asyncio.ensure_future(self._run())
        yield
        task.cancel()
        for thread in (self._reader, self._runner):
            thread.shutdown(wait=False, cancel_futures=True)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request; names, measures and logs it."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        start, status, is_read = time.perf_counter(), 499, False
        root = scope.get("root_path", "")
        # A target may be absolute, as proxies send it.
        target = scope["path"].removeprefix(root)
        path = re.sub("^https?://[^/]*/?", "/", target, flags=re.IGNORECASE)
        scope["path"] = root + path
        path = path if path in self._paths else "other"
        head = Request(scope).headers
        name = head.get("x-request-id", "")
        if not re.fullmatch(r"[\w.:-]{1,64}", name, re.ASCII):
            name = uuid.uuid4().hex

        async def receive_more() -> Message:
            nonlocal is_read
            message = await receive()
            is_read = is_read or not message.get("more_body", False)
            return message

        async def send_more(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status, headers = message["status"], MutableHeaders(scope=message)
                headers["x-request-id"] = name
                # Chunks may come for ever, and each is work. With a length beside
                # them, a proxy may see another request in the body (RFC 9112, 6.1).
                is_unclear = not is_read or "content-length" in head
                if self._end < math.inf or ("transfer-encoding" in head and is_unclear):
                    headers["connection"] = "close"
            await send(message)

        await self._app(scope, receive_more, send_more)
        seconds = time.perf_counter() - start
        self._seconds.labels(path, str(status)).observe(seconds)
        if path.startswith("/v1"):
            client = (scope["client"] or "-")[0]  # or what a proxy says
            client = client if re.fullmatch(r"[\da-fA-F.:]+", client) else "-"
            log.info("%s %s %s %d %.1f ms", name, client, path, status, 1e3 * seconds)
            if self._end < math.inf:
                self.ends["answered" if status < 499 else "refused"] += 1
        return None

    def stop(self, seconds: float) -> None:
        """Closes connections after their answers; refuses what takes longer."""
        self._end = asyncio.get_running_loop().time() + seconds
        for limit in self._open:
            self._shorten(limit, self._end)

    def _shorten(self, limit: asyncio.Timeout, end: float) -> None:
        if limit in self._open and not limit.expired():
            limit.reschedule(min(limit.when() or math.inf, end))

    async def _answer(self, write: Callable[..., Any], request: Request) -> Response:
        limits, model = self._limits, self.model
        self._check_key(request.headers.getlist("authorization"))
        if not self.is_ready:
            raise Refusal(503, f"Not ready: {self.progress}.")
        if write is entities and not (model.types.names and model.has_chances):
            raise Refusal(422, "This tagger has no entities with probabilities.")
        body, end = None, asyncio.get_running_loop().time() + limits.max_seconds
        limit = asyncio.timeout_at(min(end, self._end))
        self._open.add(limit)
        try:
            async with limit, self._reading(request, limit) as body:
                return await self._ask(body, write)
        except TimeoutError:
            if self._end < math.inf:
                raise Refusal(503, "The service stops.") from None
            if body is None:
                raise Refusal(408, "The request took too long to arrive.") from None
            raise Refusal(503, f"No answer within {limits.max_seconds:g} s.") from None
        except ClientDisconnect:
            return Response(status_code=499)  # for the log alone
        except Refusal:
            raise
        except Exception as error:
            raise _failure(error) from None
        finally:
            self._open.discard(limit)

    def _check_key(self, headers: list[str]) -> None:
        if self._key is None:
            return
        scheme, _, key = (headers[0] if len(headers) == 1 else "").partition(" ")
        is_equal = hmac.compare_digest(key.encode("latin-1"), self._key.encode())
        if scheme.lower() != "bearer" or not is_equal:
            raise Refusal(401, "Expected the header Authorization: Bearer KEY.")

    @contextlib.asynccontextmanager
    async def _reading(
        self, request: Request, limit: asyncio.Timeout
    ) -> AsyncIterator[bytes]:
        """Reads a body; if the client leaves while it is used, the time is over."""
        limits, body, headers = self._limits, bytearray(), request.headers
        coding = ",".join(headers.getlist("content-encoding")).lower()
        if coding not in ("", "identity"):
            raise Refusal(415, "Expected a body without Content-Encoding.")
        too_long = Refusal(413, f"Expected at most {limits.max_bytes} bytes.")
        if int(headers.get("content-length", 0)) > limits.max_bytes:
            raise too_long
        try:
            async for chunk in request.stream():
                body += chunk
                self._load["received"] += len(chunk)
                if len(body) > limits.max_bytes:
                    raise too_long
                if self._load["received"] > limits.max_requests * limits.max_bytes:
                    raise Refusal(503, "Too many bytes arrive.")
            if self._load["answered"] >= limits.max_requests:
                raise Refusal(429, "Too many requests at a time.")
            self._load["answered"] += 1
            departure = asyncio.ensure_future(_leave(request))
            departure.add_done_callback(lambda _: self._shorten(limit, 0.0))
            try:
                yield bytes(body)
            except asyncio.CancelledError:
                if departure.done():
                    raise ClientDisconnect from None
                raise
            finally:
                self._load["answered"] -= 1
                departure.cancel()
        finally:
            self._load["received"] -= len(body)

    async def _ask(self, body: bytes, write: Callable[..., Any]) -> Response:
        """Returns the answer to a request: reads it, waits for the model, writes."""
        limits, loop = self._limits, asyncio.get_running_loop()
        with self._holding("read", len(body), limits.max_bytes):
            question, groups = await self._do(len(body), self._read, body)
            if question.maps and write is entities:
                raise Refusal(422, "There are maps for /v1/tag only.")
        costs = [*itertools.accumulate((job.cost for *_, job in groups), initial=0)]
        most = limits.max_sentences * limits.max_tokens
        with self._holding("tagged", costs[-1], most):
            start, futures = self._turn, [loop.create_future() for _ in groups]
            for (*_, job), future, cost in zip(groups, futures, costs[1:], strict=True):
                order = start + math.sqrt(cost), next(self._numbers)
                self._queue.put_nowait(_Place(*order, job, future))
            arrays = await asyncio.gather(*futures)
        size = len(body) if not question.is_deep else limits.max_bytes
        return await self._do(size, self._write, write, question, groups, arrays)

    @contextlib.contextmanager
    def _holding(self, stage: str, size: int, limit: int) -> Iterator[None]:
        """Refuses what would wait behind `_QUEUE_FACTOR` of the largest requests."""
        if self._load[stage] and self._load[stage] + size > _QUEUE_FACTOR * limit:
            raise Refusal(503, f"Too much waits to be {stage}.")
        self._load[stage] += size
        try:
            yield
        finally:
            self._load[stage] -= size

    async def _do(self, size: int, function: Callable[..., Any], *values: Any) -> Any:
        if size <= _SHORT:
            return function(*values)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._reader, function, *values)

    def _read(self, body: bytes) -> tuple[Question, list[tuple[int, Any, Job]]]:
        """Returns a question, and its jobs with the text and sentences of each."""
        model = self.model
        question, groups = read(body, model, self._limits, self._least), []
        for index, group in question.groups(model.reads_documents):
            words = [[token.text for token in sentence] for sentence in group]
            groups.append((index, group, model.job(words, question.is_deep)))
        return question, groups

    def _write(
        self, write: Callable[..., Any], question: Question, groups: Any, arrays: Any
    ) -> Response:
        answers: list[list[Any]] = [[] for _ in question.texts]
        for (index, group, _), entry in zip(groups, arrays, strict=True):
            answers[index] += self.model.cut(entry, group)
        maps = [entry[k] for text in answers for entry in text for k in _maps(entry)]
        if question.maps and sum(array.size for array in maps) > _NUMBERS:
            raise Refusal(422, f"Expected maps of at most {_NUMBERS} numbers in all.")
        parts = zip(question.texts, question.sentences, answers, strict=True)
        results = [write(self.model, question, *part) for part in parts]
        return _json({"results": results, "truncated": False})

    async def _run(self) -> None:
        """Gives jobs to the model in batches, until cancelled."""
        model, loop = self.model, asyncio.get_running_loop()
        while True:
            places = [await self._next()]
            cost = places[0].job.cost
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._limits.batch_ms / 1e3):
                    while cost < _BUDGETS * model.budget:
                        places.append(await self._next())
                        cost += places[-1].job.cost
            jobs = [place.job for place in places]
            try:
                answers = await loop.run_in_executor(self._runner, model, jobs)
                pairs = [*zip(places, answers, strict=True)]
            except Exception as error:
                pairs = [*zip(places, itertools.repeat(_failure(error)))]
            for place, answer in pairs:
                if place.answer.done():
                    continue
                if isinstance(answer, Refusal):
                    place.answer.set_exception(answer)
                else:
                    place.answer.set_result(answer)

    async def _next(self) -> _Place:
        """Returns the next job whose request waits still."""
        while (place := await self._queue.get()).answer.done():
            pass
        self._turn = place.turn
        return place

    async def health(self, request: Request) -> Response:
        """Answers that the process runs."""
        return _json({"status": "ok"})

    async def ready(self, request: Request) -> Response:
        """Answers with what the tagger knows, once all is compiled."""
        if not self.is_ready or self._end < math.inf:
            state = self.progress if self._end == math.inf else "the service stops"
            raise Refusal(503, f"Not ready: {state}.")
        model, limits = self.model, dataclasses.asdict(self._limits)
        types = model.types.names * model.has_chances  # of /v1/entities
        facts = {"reads_documents": model.reads_documents, "limits": limits}
        facts |= {"min_probability": self._least}
        return _json({"labels": model.labels, "types": types, **facts})

    async def metrics(self, request: Request) -> Response:
        """Answers with the metrics of Prometheus."""
        text = prometheus.generate_latest(self._metrics)
        return Response(text, media_type=prometheus.CONTENT_TYPE_LATEST)
