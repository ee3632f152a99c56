"""`jaxner serve`."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Annotated

from jaxner import fields
from jaxner.commands import Folder
from jaxner.errors import InputError, optional
from jaxner.serving import Limits


def serve(
    *,
    workdir: Folder | None = None,
    model: Path | None = None,
    host: str = "127.0.0.1",
    port: Annotated[int, fields.Range(least=0, most=65535)] = 8000,
    min_probability: str = "0",
    root_path: str = "",
    proxies: str = "",
    reuse_port: bool = False,
    limits: Limits,
) -> None:
    """Serves a tagger over HTTP, with a page to try it at /.

        jaxner serve --workdir runs/grn --port 8000
        jaxner serve --model grn.zip
        curl localhost:8000/v1/entities -d '{"texts": "Ms Preston left Lakeside."}'

    The programs of all shapes are compiled first: minutes once, then they
    come from the cache. SIGTERM answers the open requests and ends. If the
    environment has JAXNER_API_KEY, clients send Authorization: Bearer KEY.

    Args:
        workdir: Folder of the run.
        model: File of `jaxner export`, instead of a run.
        host: Address to listen at; 0.0.0.0 for other machines.
        port: Port to listen at; 0 for a free one.
        min_probability: Minimum probability for requests that set none; same syntax as
            in jaxner tag.
        root_path: Path under which a proxy serves it, such as /tagger; the proxy
            removes it.
        proxies: Addresses of proxies, between commas, whose X-Forwarded-For the log
            believes; * for all.
        reuse_port: Shares the port with other processes, one for each device.
        limits: What the service accepts.
    """
    # The first process of a container ignores signals that have no handler.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: os._exit(0))
    needs = "uvicorn", "prometheus_client", "flax", "jaxtyping", "filelock"
    optional("starlette", "The service", *needs)
    if (workdir is None) == (model is None):
        raise InputError("Expected either --workdir or --model.")
    from jaxner import exported, tagger
    from jaxner.answers.mentions import check_least
    from jaxner.commands.tagging import read_least
    from jaxner.serving import server
    from jaxner.serving.programs import Programs

    least = read_least(min_probability, workdir)
    if model is None:
        loaded = tagger.load(str(workdir))
    else:  # the service has programs of its own, for its shapes
        loaded = exported.load_exported(model, program=False)
    programs = Programs(loaded, limits.max_tokens, limits.batch_tokens)
    check_least(programs.types.names, least)
    where = {"reuse_port": reuse_port, "root_path": root_path, "proxies": proxies}
    server.run(programs, limits, host, port, least, **where)
