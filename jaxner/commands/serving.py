"""`jaxner serve`."""

from __future__ import annotations

import dataclasses
import os
import signal
from pathlib import Path
from typing import Annotated

from jaxner import fields
from jaxner.commands import load
from jaxner.commands.tagging import Tokenizer, read_least
from jaxner.errors import optional
from jaxner.serving import Limits


def serve(
    tagger: Path,
    /,
    *,
    host: str = "127.0.0.1",
    port: Annotated[int, fields.Range(least=0, most=65535)] = 8000,
    min_probability: str = "0",
    tokenizer: Tokenizer | None = None,
    root_path: str = "",
    proxies: str = "",
    reuse_port: bool = False,
    limits: Limits,
) -> None:
    """Serves a tagger over HTTP, with a page to try it at /.

        jaxner serve runs/grn --port 8000
        jaxner serve grn.zip
        curl localhost:8000/v1/entities -d '{"texts": "Ms Preston left Lakeside."}'

    The first start compiles programs for all shapes of a batch, which takes
    minutes, and logs how many are done; later starts read them from the cache.
    Until then, requests and /ready get status 503. At SIGTERM or Ctrl-C, the
    service answers the open requests and ends with exit status 0. If
    JAXNER_API_KEY is set, clients need the header Authorization: Bearer KEY.

    Args:
        tagger: Folder of a run, or file of `jaxner export`.
        host: Listen at this address; 0.0.0.0 for other machines.
        port: Listen at this port; 0 for a free one.
        min_probability: Minimum probability for requests that set none; same syntax as
            in jaxner tag.
        tokenizer: Tokenizer for texts; default: the run's, or words.
        root_path: Path that a proxy removes from requests, such as /tagger.
        proxies: Believe X-Forwarded-For from these addresses, between commas; * for
            all.
        reuse_port: Share the port with other processes, one for each device.
    """
    # The first process of a container ignores signals that have no handler.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os._exit(0))
    packages = "uvicorn", "prometheus_client", "flax", "jaxtyping", "filelock"
    optional("starlette", "The service", *packages)
    from jaxner import exported
    from jaxner.answers.mentions import check_least
    from jaxner.serving import server
    from jaxner.serving.programs import Programs

    is_file = tagger.is_file()
    least = read_least(min_probability, None if is_file else tagger)
    # The service has programs of its own, for its shapes.
    source = exported.load_exported(tagger, program=False) if is_file else load(tagger)
    programs = Programs(source, limits.max_tokens, limits.batch_tokens, tokenizer)
    limits = dataclasses.replace(limits, batch_tokens=programs.budget)
    check_least(programs.types.names, least)
    options = {"reuse_port": reuse_port, "root_path": root_path, "proxies": proxies}
    server.run(programs, limits, host, port, least, **options)
