"""Serves a tagger on a Ray cluster, in batches of so many tokens.

    pip install 'ray[serve]>=2.53'
    JAXNER_WORKDIR=runs/grn serve run examples.ray_serve:app
    curl localhost:8000 -d '{"text": "Ms Preston left Lakeside."}'

Each replica holds the tagger; `num_replicas` and `ray_actor_options` of the deployment
say how many there are and where. On one machine, `jaxner serve` needs no Ray, compiles
all programs before it is ready, and has limits.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from ray import serve
from starlette.requests import Request
from starlette.responses import JSONResponse

import jaxner
from jaxner.data import tokens

TOKENS = 1024
"""Maximum tokens of a batch."""


def count_tokens(texts: Sequence[str]) -> int:
    """Returns the tokens of texts, for Ray's `batch_size_fn`.

    A longer text than a batch holds counts as a whole one: Ray would refuse it.
    """
    return sum(min(TOKENS, sum(map(len, tokens.read(text)))) for text in texts)


@serve.deployment(max_ongoing_requests=TOKENS)  # Ray's own 5 would be the batch
class Tagger:
    """A replica.

    Args:
        workdir: Folder of the run, which each replica can read.
    """

    def __init__(self, workdir: str):
        self._tagger = jaxner.load(workdir)

    @serve.batch(
        max_batch_size=TOKENS, batch_wait_timeout_s=0.005, batch_size_fn=count_tokens
    )
    async def entities(self, texts: list[str]) -> list[list[dict[str, Any]]]:
        """Returns the entities of each text of a batch."""
        answers = jaxner.entities(self._tagger, texts, raw=True)
        return [[entity._asdict() for entity in answer] for answer in answers]

    async def __call__(self, request: Request) -> JSONResponse:
        """Answers a request; one without a text would end the batches of all."""
        try:
            content = await request.json()
        except (ValueError, RecursionError):
            content = None
        match content:
            case {"text": str(text)}:
                answer = {"entities": await self.entities(text), "truncated": False}
                return JSONResponse(answer)
        return JSONResponse({"error": 'Expected JSON: {"text": "…"}.'}, 400)


app = Tagger.bind(os.environ.get("JAXNER_WORKDIR", "runs/grn"))
