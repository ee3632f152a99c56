"""The process of the service: its connections, its start and its end."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import itertools
import json
import logging
import math
import os
import re
import signal
import socket
import sys
import threading
import time
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from jaxner.errors import InputError
from jaxner.serving import Limits
from jaxner.serving.programs import Programs
from jaxner.serving.service import Service, log
from jaxner.types import Minima

_PAUSE = 5  # seconds that a connection may be idle beyond those of a request
_MAX_BACKLOG = 1 << 26  # bytes of all answers that clients do not read
_FILES = 200  # that are no connections
_CHUNK = 1 << 14  # bytes to parse before others have their turn
_YOUNG = 1.0  # seconds in which a connection is not closed for another one
_LINGER = 1.0  # seconds in which clients learn that connections close
_NEWS = 10  # seconds between two lines about what has compiled


def _unread(connection: Any) -> int:
    return connection.transport.get_write_buffer_size()


class Connection(H11Protocol):
    """A connection that no client can hold for ever, nor keep from others.

    It is aborted if nothing new happens, a request or an answer, for `max_seconds` and
    a pause. Beyond `max_connections`, those whose request has been missing, as a whole,
    for longest are aborted.
    """

    def __init__(self, limits: Limits, idle: dict[Connection, float], **options: Any):
        super().__init__(**options)
        self._limits, self._idle = limits, idle  # since when; the first for longest
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Makes room if there are too many connections."""
        super().connection_made(transport)
        # asyncio does so only for sockets that name their protocol: else 40 ms pass.
        link = transport.get_extra_info("socket")
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        transport.max_size = _CHUNK
        self._renew()
        self._idle[self] = self.loop.time()
        limit, clock = self._limits.max_connections, self.loop.time()
        surplus = max(len(self.connections) - limit, 0)
        for oldest, start in [*itertools.islice(self._idle.items(), surplus)]:
            # The request of a younger one may be on its way.
            if clock - start > _YOUNG or len(self.connections) > 2 * limit:
                del self._idle[oldest]
                self.connections.discard(oldest)
                oldest.transport.abort()

    def _renew(self) -> None:
        """Gives the connection time for its next step."""
        if self._timer:
            self._timer.cancel()
        seconds = self._limits.max_seconds + _PAUSE
        self._timer = self.loop.call_later(seconds, self.transport.abort)

    def handle_events(self) -> None:
        """Marks the connection as busy once a request has come as a whole."""
        cycle = self.cycle
        super().handle_events()
        if self.cycle is not cycle:
            self._renew()
        is_asking = self.cycle and not (self.cycle.more_body or self.flow.write_paused)
        # Who asks and does not read, or asks again before the answer, counts as idle.
        if is_asking and not self.conn.trailing_data[0]:
            self._idle.pop(self, None)

    def on_response_complete(self) -> None:
        """Marks the connection as idle; too much that is not read ends the worst."""
        self._renew()
        self._idle.setdefault(self, self.loop.time())
        super().on_response_complete()
        if _unread(self) and sum(map(_unread, self.connections)) > _MAX_BACKLOG:
            max(self.connections, key=_unread).transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forgets the connection."""
        if self._timer:
            self._timer.cancel()
        self._idle.pop(self, None)
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Closes the connection, unless a request is on its way."""
        if not self.conn.trailing_data[0]:  # nor a part of its head
            super().shutdown()

    def send_400_response(self, msg: str) -> None:
        """Answers what is no HTTP in JSON; if an answer is under way, only closes."""
        if self.cycle and not self.cycle.response_complete:
            self.cycle.disconnected = True  # the service writes no answer any more
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            body = json.dumps({"error": msg}).encode()
            headers = [("content-type", "application/json"), ("connection", "close")]
            headers.append(("content-length", str(len(body))))
            response = h11.Response(status_code=400, headers=headers, reason=b"")
            for event in (response, h11.Data(data=body), h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


class Server(uvicorn.Server):
    """The server of a service: compiles, and ends within `stop_seconds` of a signal."""

    error: Exception | None = None  # of compiling

    def __init__(
        self, service: Service, limits: Limits, proxies: str = "", root_path: str = ""
    ):
        options: dict[str, Any] = {"loop": "asyncio", "ws": "none", "log_config": None}
        options |= {"access_log": False, "server_header": False, "root_path": root_path}
        options |= {"proxy_headers": bool(proxies), "forwarded_allow_ips": proxies}
        options["http"] = functools.partial(Connection, limits, {})
        # Proxies keep connections: if one closes early, their next request fails.
        options["timeout_keep_alive"] = math.ceil(limits.max_seconds + _PAUSE)
        super().__init__(uvicorn.Config(service, **options))
        self._service, self._seconds = service, limits.stop_seconds

    def prepare(self) -> None:
        """Compiles all programs; an error ends the server."""
        start, last = time.monotonic(), -math.inf

        def log_progress(number: int, count: int) -> None:
            nonlocal last
            self._service.progress = f"{number} of {count} programs are compiled"
            if time.monotonic() - last >= _NEWS:
                last = time.monotonic()
                log.info("Compiled %d of %d programs", number, count)

        try:
            self._service.model.compile(log_progress)
        except Exception as error:
            self.error, self.should_exit = error, True
            return
        # Each collection of what JAX holds would stop all requests for a second.
        gc.freeze()
        self._service.is_ready = True
        log.info("Ready after %.1f s", time.monotonic() - start)

    def handle_exit(self, sig: int, frame: Any) -> None:
        """Ends the process in time, even if something blocks it."""
        if not self.should_exit:
            timer = threading.Timer(self._seconds, os._exit, [0])
            timer.daemon = True
            timer.start()
        super().handle_exit(sig, frame)

    def _abort(self) -> None:
        for connection in [*self.server_state.connections]:
            connection.transport.abort()

    async def shutdown(self, sockets: Any = None) -> None:
        """Lets clients read the last answers, then closes all."""
        self._service.stop(0.8 * self._seconds)
        loop = asyncio.get_running_loop()
        loop.call_later(0.9 * self._seconds, self._abort)
        await asyncio.sleep(min(_LINGER, 0.1 * self._seconds))
        await super().shutdown(sockets)
        ends = " and ".join(f"{n} {word}" for word, n in self._service.ends.items())
        log.info("Stopped: %s since the signal", ends)


def run(
    model: Programs,
    limits: Limits,
    host: str = "127.0.0.1",
    port: int = 8000,
    least: Minima = 0.0,
    *,
    reuse_port: bool = False,
    root_path: str = "",
    proxies: str = "",
) -> None:
    """Serves a model until a signal ends the process, with status 0.

    `InputError`: the key, the path, the address or the limit of open files is of no
    use, or compiling failed.
    """
    logging.basicConfig(format="%(asctime)s %(message)s", force=True)
    log.setLevel(logging.INFO)
    # Anybody can make uvicorn warn.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    key = os.environ.get("JAXNER_API_KEY")
    if key is not None and not re.fullmatch(r"[!-~]+", key):
        raise InputError("Expected JAXNER_API_KEY as ASCII characters without blanks.")
    if not host:  # the system would take it for all addresses
        raise InputError("Expected --host as an address, got ''")
    if not re.fullmatch(r"(/[\w.~-]+)*", root_path, re.ASCII):
        raise InputError(f"Expected --root-path as /a or /a/b, got {root_path!r}")
    _allow_files(2 * limits.max_connections + _FILES)
    service = Service(model, limits, key, least)
    server = Server(service, limits, proxies, root_path)
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    for name in ("SO_REUSEADDR", "SO_REUSEPORT")[: 1 + reuse_port]:
        listener.setsockopt(socket.SOL_SOCKET, getattr(socket, name), 1)
    try:
        listener.bind((host, port))
    except (OSError, UnicodeError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"Cannot listen at {host}:{port}: {reason}") from None
    if reuse_port:  # who listens gets a share of the connections
        server.prepare()
    for number in (signal.SIGTERM, signal.SIGINT):  # uvicorn's own come a little later
        signal.signal(number, server.handle_exit)
    listener.listen(1024)
    address = f"[{host}]" if ":" in host else host
    address = f"http://{address}:{listener.getsockname()[1]}"
    print(f"Serving at {address}, ready once all programs are compiled", flush=True)
    if not reuse_port:
        threading.Thread(target=server.prepare, daemon=True).start()
    server.run([listener])
    if error := server.error:
        raise InputError(f"Cannot compile the programs: {error}") from error
    logging.shutdown()
    sys.stdout.flush()
    os._exit(0)  # Python would wait for programs that compile or run


def _allow_files(count: int) -> None:
    """Allows the process as many open files as it needs."""
    with contextlib.suppress(ImportError):  # Windows has no such limit
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard != resource.RLIM_INFINITY and hard < count:
            raise InputError(f"Expected ulimit -n of at least {count}, got {hard}")
        if soft < count:
            resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
