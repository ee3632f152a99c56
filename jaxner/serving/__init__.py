"""A tagger as a web service, `jaxner serve`: what it accepts."""

from __future__ import annotations

import dataclasses

from jaxner import fields


@dataclasses.dataclass(frozen=True)
class Limits:
    """What a service accepts.

    Attributes:
        max_bytes: Maximum bytes of a request; status 413 beyond.
        max_sentences: Maximum sentences of a request; status 422 beyond. With n_best,
            uncertainty or maps, a sentence counts as eight.
        max_tokens: Maximum tokens of a sentence; status 422 beyond.
        max_requests: Maximum requests at a time; status 429 beyond.
        max_connections: Maximum connections; beyond, the longest idle one is closed.
        max_seconds: Maximum seconds to send a request (status 408 beyond), to answer it
            (503), and to read the answer.
        stop_seconds: Maximum seconds from SIGTERM to the end of the process.
        batch_tokens: Maximum padded tokens of a batch; default: 256 on a CPU, 16384 on
            accelerators.
        batch_ms: Milliseconds that a request waits for others to share its batch.
    """

    max_bytes: fields.Size = 1 << 18
    max_sentences: fields.Size = 256
    max_tokens: fields.Size = 256
    max_requests: fields.Size = 256
    max_connections: fields.Size = 1500
    max_seconds: fields.Positive = 30.0
    stop_seconds: fields.Positive = 20.0
    batch_tokens: fields.Count = 0
    batch_ms: fields.Weight = 1.0
