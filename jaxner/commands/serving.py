"""`jaxner serve`."""

from __future__ import annotations

import gc
import logging
import os
import signal
import socket
from pathlib import Path
from typing import Annotated, Any

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
        min_probability: That of entities where a request has none, as of jaxner tag.
        limits: What the service accepts.
    """
    optional("starlette", "The service", "uvicorn", "prometheus_client")
    if (workdir is None) == (model is None):
        raise InputError("Expected either --workdir or --model.")
    from jaxner import exported, tagger
    from jaxner.answers.mentions import check_least
    from jaxner.commands.tagging import read_least
    from jaxner.serving.programs import Programs

    least = read_least(min_probability, workdir)
    if model is None:
        chosen = tagger.load(str(workdir))
    else:  # the service has programs of its own, for its shapes
        chosen = exported.load_exported(model, program=False)
    served = Programs(chosen, limits.max_tokens, limits.batch_tokens)
    check_least(served.types.names, least)
    run(served, limits, host, port, least)


def run(model: Any, limits: Limits, host: str, port: int, least: Any = 0.0) -> None:
    """Serves a model until a signal ends it."""
    import uvicorn

    from jaxner.serving.service import Service

    logging.basicConfig(format="%(asctime)s %(message)s", force=True)
    for name in ("jaxner.serve", "uvicorn.error"):
        logging.getLogger(name).setLevel(logging.INFO)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.create_server((host, port), family=family, backlog=1024)
    place = f"http://{host}:{listening.getsockname()[1]}"
    print(f"Serving at {place}, ready once all programs are compiled", flush=True)
    # uvicorn raises the signal that ended it again: then the process ends with 0.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: None)
    # Each collection of what JAX holds would stop all requests for a second.
    key = os.environ.get("JAXNER_API_KEY")
    service = Service(model, limits, key, gc.freeze, least)
    config: Any = {"log_config": None, "access_log": False, "server_header": False}
    config["limit_concurrency"] = 8 * limits.max_requests  # connections, idle ones, too
    uvicorn.Server(uvicorn.Config(service.app, **config)).run([listening])
