"""The service: requests in JSON, waiting requests in batches, and refusals.

Nothing of a text is logged.
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
import time
import traceback
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any

import numpy as np
import prometheus_client as prometheus
from starlette.applications import Starlette
from starlette.exceptions import HTTPException as Refusal
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from jaxner import driver, fields
from jaxner.answers.mentions import (
    EntityArrays,
    check_least,
    joined,
    least_certain,
    read_entities,
)
from jaxner.data import tokens
from jaxner.data.tokens import Token
from jaxner.errors import InputError
from jaxner.serving import Limits
from jaxner.serving.programs import LABELLINGS, Job

log = logging.getLogger("jaxner.serve")

_BUDGETS = 4  # of a batch: jobs that are planned together have less padding
_STEP = 1e-3  # seconds that each sentence of a request stands behind the one before


@dataclasses.dataclass(frozen=True)
class Question:
    """A request: texts, the tokens of the sentences of each, and options."""

    texts: list[str]
    sentences: list[list[list[Token]]]
    min_probability: Any  # or a dictionary of it by type
    n_best: Annotated[int, fields.Range(least=1, most=LABELLINGS)] = 1
    uncertainty: bool = False
    maps: bool = False


def read(body: bytes, limits: Limits, least: Any = 0.0) -> Question:
    """Returns the question of a request; `Refusal`: it cannot be answered."""
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        raise Refusal(400, "The body is no JSON in UTF-8.") from None
    if not isinstance(content, dict) or len({"texts", "tokens"} & {*content}) != 1:
        raise Refusal(422, 'Expected an object with either "texts" or "tokens".')
    options = {k: v for k, v in content.items() if k not in ("texts", "tokens")}
    known = fields.of(Question)
    try:
        for name, value in options.items():
            fields.check_word("field", name, fields.names(Question)[2:])
            if name in known:
                fields.check(name, value, known[name].hint)
        if "tokens" in content:
            words, _ = driver.sentences_of(content["tokens"])
            texts = [" ".join(sentence) for sentence in words]
            made = [[joined(sentence)] for sentence in words]
        else:
            texts = content["texts"]
            texts = [texts] if isinstance(texts, str) else texts
            if not isinstance(texts, list) or {*map(type, texts)} - {str}:
                raise TypeError("Expected texts as a string or a list of strings.")
            made = [tokens.read(text) for text in texts]
    except (TypeError, ValueError) as error:
        raise Refusal(422, str(error)) from None
    most = limits.max_sentences
    if max(len(made), sum(map(len, made))) > most:
        raise Refusal(422, f"Expected at most {most} sentences in a request.")
    return Question(texts, made, **{"min_probability": least, **options})


def tag(
    model: Any, question: Question, text: str, sentences: Any, answers: Any
) -> dict[str, Any]:
    """Returns the result of `/v1/tag` for a text: its tokens and what is asked."""

    def named(ids: Any) -> list[str]:
        return [model.labels[i] for i in ids.tolist()]

    results = []
    for words, arrays in zip(sentences, answers, strict=True):
        best, n = arrays["best"], question.n_best
        result: dict[str, Any] = {"tokens": [token.text for token in words]}
        result["offsets"] = [[token.start, token.end] for token in words]
        result["labels"] = named(best.labels)
        if model.has_chances:
            result["probabilities"] = _rounded(best.label_probability)
        if n > 1 and words and "chances" in arrays:
            rows = zip(
                arrays["n_best"].labels.T[:n], arrays["chances"][0], strict=False
            )
            result["labellings"] = [
                {"labels": named(ids), "probability": _rounded(chance)}
                for ids, chance in rows
                if chance > 0
            ]
        if question.uncertainty and "uncertainty" in arrays:
            values = arrays["uncertainty"].items()
            result["uncertainty"] = {name: _rounded(array) for name, array in values}
        for name in {"relations", "attention"} & arrays.keys() if question.maps else ():
            result[name] = _rounded(arrays[name])
        results.append(result)
    return {"sentences": results}


def entities(
    model: Any, question: Question, text: str, sentences: Any, answers: Any
) -> dict[str, Any]:
    """Returns the result of `/v1/entities` for a text, as `jaxner.entities` does."""
    if not (model.types.names and model.has_chances):
        raise Refusal(422, "This tagger has no entities with probabilities.")
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


def _rounded(values: Any) -> Any:
    return np.asarray(values, np.float64).round(6).tolist()


def _json(content: Any, status: int = 200) -> Response:
    # Lone surrogates in a text are no UTF-8: they stay escaped.
    body = json.dumps(content, allow_nan=False, separators=(",", ":"))
    headers = {"retry-after": "1"} if status in (429, 503) else {}
    return Response(body, status, headers, "application/json")


class Service:
    """The application around a model.

    Args:
        model: Encodes, computes and names; see `jaxner.serving.programs.Programs`.
        limits: What the service accepts.
        key: The key that clients must send; None: no key.
        prepare: Called once the model has compiled its programs.
        least: Minimum probability of entities, or that of each type, for requests
            without one.
    """

    def __init__(
        self,
        model: Any,
        limits: Limits,
        key: str | None = None,
        prepare: Callable[[], object] = lambda: None,
        least: Any = 0.0,
    ):
        self._model, self._limits, self._counts = model, limits, model.counts
        self._prepare, self._least = prepare, least
        self._counts["open"] = 0
        self._key = None if key is None else f"Bearer {key}".encode()
        self._metrics = prometheus.CollectorRegistry()
        prometheus.ProcessCollector(registry=self._metrics)
        about = "jaxner_request_seconds", "Seconds of requests", ("path", "status")
        self._seconds = prometheus.Histogram(*about, registry=self._metrics)
        for name in self._counts:
            about = f"jaxner_{name}", f"{name.title()}; see the documentation"
            gauge = prometheus.Gauge(*about, registry=self._metrics)
            gauge.set_function(functools.partial(self._counts.__getitem__, name))
        pages = StaticFiles(packages=[("jaxner.serving", "page")], html=True)
        routes: list[Any] = [
            Route(f"/{f.__name__}", f) for f in (self.health, self.ready, self.metrics)
        ]
        for path, write in (("/v1/tag", tag), ("/v1/entities", entities)):
            routes.append(Route(path, self._handler(path, write), methods=["POST"]))
        routes.append(Mount("/", pages))

        async def refuse(request: Request, error: Any) -> Response:
            return _json({"error": error.detail}, error.status_code)

        handlers: Any = {Refusal: refuse}
        self.app = Starlette(
            routes=routes, lifespan=self._lifespan, exception_handlers=handlers
        )

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: Any) -> AsyncIterator[None]:
        self._waiting: Any = asyncio.PriorityQueue()
        self._numbers = itertools.count()  # of jobs, in the order of arrival
        running = asyncio.ensure_future(self._run())
        self._compiled = asyncio.ensure_future(asyncio.to_thread(self._compile))
        yield
        self._model.is_over = True  # compiling a program cannot be cancelled
        await self._compiled
        running.cancel()

    def _compile(self) -> None:
        self._model.compile()
        self._prepare()

    async def _run(self) -> None:
        """Gives waiting jobs to the model in batches, until cancelled."""
        model, loop = self._model, asyncio.get_running_loop()
        with ThreadPoolExecutor(1) as thread:
            while True:
                taken = [await self._waiting.get()]
                cost = model.cost(taken[0][2])
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._limits.batch_ms / 1e3):
                        while cost < _BUDGETS * model.budget:
                            taken.append(await self._waiting.get())
                            cost += model.cost(taken[-1][2])
                # Where the future is done, the request's time is over.
                taken = [item for item in taken if not item[3].done()]
                jobs = [job for _, _, job, _ in taken]
                answers: Any
                try:
                    answers = await loop.run_in_executor(thread, model, jobs)
                except Exception as error:
                    answers = [error] * len(jobs)
                for (*_, future), answer in zip(taken, answers, strict=True):
                    if future.done():
                        continue
                    if isinstance(answer, Exception):
                        future.set_exception(answer)
                    else:
                        future.set_result(answer)

    def _handler(self, path: str, write: Callable) -> Callable:
        """Returns a handler that measures, logs, and refuses in JSON."""

        async def handler(request: Request) -> Response:
            start = time.perf_counter()
            try:
                response = await self._answer(request, write)
            except Refusal as refusal:
                response = _json({"error": refusal.detail}, refusal.status_code)
            except ClientDisconnect:
                response = Response(status_code=499)
            except Exception as error:
                # Its message may have the text.
                frames = "".join(traceback.format_tb(error.__traceback__))
                log.error("%s in %s\n%s", type(error).__name__, path, frames)
                response = _json({"error": "Internal error; see the log."}, 500)
            seconds, status = time.perf_counter() - start, response.status_code
            self._seconds.labels(path, str(status)).observe(seconds)
            log.info("%s %d %.1f ms", path, status, 1e3 * seconds)
            return response

        return handler

    async def _answer(self, request: Request, write: Callable) -> Response:
        sent = request.headers.get("authorization", "").encode("latin-1")
        if self._key is not None and not hmac.compare_digest(sent, self._key):
            raise Refusal(401, "Expected the header Authorization: Bearer KEY.")
        if not self._is_ready():
            raise Refusal(503, "Not ready: compiling.")
        if self._counts["open"] >= self._limits.max_requests:
            raise Refusal(429, "Too many requests at a time.")
        self._counts["open"] += 1
        try:
            async with asyncio.timeout(self._limits.max_seconds):
                body = await self._body(request)
                question, groups = await asyncio.to_thread(self._read, body)
                turn, futures = time.monotonic(), [asyncio.Future() for _ in groups]
                for i, (_, _, job) in enumerate(groups):
                    item = turn + i * _STEP, next(self._numbers), job, futures[i]
                    self._waiting.put_nowait(item)
                arrays = await asyncio.gather(*futures)
        except TimeoutError:
            most = f"{self._limits.max_seconds:g} seconds"
            raise Refusal(503, f"No answer within {most}.") from None
        finally:
            self._counts["open"] -= 1
        answers: list[list[Any]] = [[] for _ in question.texts]
        for (number, group, _), each in zip(groups, arrays, strict=True):
            answers[number] += self._model.cut(each, group)
        parts = zip(question.texts, question.sentences, answers, strict=True)
        results = [write(self._model, question, *part) for part in parts]
        return _json({"results": results, "truncated": False})

    async def _body(self, request: Request) -> bytes:
        most, body = self._limits.max_bytes, b""
        too_long = Refusal(413, f"Expected at most {most} bytes.")
        if int(request.headers.get("content-length", 0)) > most:
            raise too_long
        async for chunk in request.stream():
            body += chunk
            if len(body) > most:
                raise too_long
        return body

    def _read(self, body: bytes) -> tuple[Question, list[tuple[int, Any, Job]]]:
        """Returns a question, and its jobs with the text and sentences of each."""
        model, most = self._model, self._limits.max_tokens
        question = read(body, self._limits, self._least)
        try:
            check_least(model.types.names, question.min_probability)
        except InputError as error:
            raise Refusal(422, str(error)) from None
        is_deep = question.n_best > 1 or question.uncertainty or question.maps
        if is_deep and not model.has_chances:
            raise Refusal(422, "This tagger has no probabilities: ask for labels only.")
        jobs = []
        for number, text in enumerate(question.sentences):
            for group in [text] * bool(text) if model.reads_documents else zip(text):
                encoded = model.encode([[token.text for token in s] for s in group])
                if len(encoded.words) > most:
                    unit = "document" if model.reads_documents else "sentence"
                    raise Refusal(422, f"Expected at most {most} tokens in a {unit}.")
                jobs.append((number, group, Job(encoded, is_deep)))
        return question, jobs

    def _is_ready(self) -> bool:
        """Returns whether all is compiled; raises what went wrong."""
        return self._compiled.done() and self._compiled.result() is None

    async def health(self, request: Request) -> Response:
        """Answers that the process runs."""
        return _json({"status": "ok"})

    async def ready(self, request: Request) -> Response:
        """Answers with what the tagger knows, once all is compiled."""
        if not self._is_ready():
            return _json({"error": "Not ready: compiling."}, 503)
        known = {"labels": self._model.labels, "types": self._model.types.names}
        known["min_probability"] = self._least
        return _json({**known, "limits": dataclasses.asdict(self._limits)})

    async def metrics(self, request: Request) -> Response:
        """Answers with the metrics of Prometheus."""
        text = prometheus.generate_latest(self._metrics)
        return Response(text, media_type=prometheus.CONTENT_TYPE_LATEST)
