"""The server on a real socket: clients that hold it, its start and its end."""

import contextlib
import fcntl
import http.client
import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import yaml

from jaxner import cli
from jaxner.commands import serving

pytest.importorskip("uvicorn")
from jaxner.serving import Limits, server
from jaxner.serving.service import Service
from tests.slow_model import Slow
from tests.test_serving import COSTS

GOOD = b'{"tokens": ["good"]}'
BULK = json.dumps({"tokens": ["a"] * 100}).encode()  # of Large, an answer of 26 MB
CHUNKED = "POST /v1/{} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
HEALTH = b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n"


class Large(Slow):
    """A model whose labels make an answer of many megabytes."""

    labels = ("O" * (1 << 18),)


@contextlib.contextmanager
def serves(model=None, root_path="", proxies="", **limits):
    """Yields a ready server in a thread, and its port."""
    limits = Limits(**{"stop_seconds": 3.0, **limits})
    service = Service(model or Slow(0.01), limits)
    service.is_ready = True
    listening = socket.create_server(("127.0.0.1", 0))
    instance = server.Server(service, limits, proxies, root_path=root_path)
    thread = threading.Thread(target=instance.run, args=([listening],))
    thread.start()
    try:
        yield instance, listening.getsockname()[1]
    finally:
        instance.should_exit = True
        thread.join(10)
        assert not thread.is_alive()


@pytest.fixture
def connect():
    """Opens connections that the test leaves open."""
    with contextlib.ExitStack() as links:

        def open_link(port, content=b""):
            link = socket.create_connection(("127.0.0.1", port), timeout=10)
            links.enter_context(link).sendall(content)
            return link

        yield open_link


def request(body, path="/v1/tag", length=None, headers=""):
    head = f"POST {path} HTTP/1.1\r\nhost: x\r\n{headers}"
    return f"{head}content-length: {length or len(body)}\r\n\r\n".encode() + body


def answer(link):
    """Returns status, headers and content of the next answer."""
    response = http.client.HTTPResponse(link)
    try:
        response.begin()
    except http.client.RemoteDisconnected:
        return None, "", b""
    return response.status, str(response.headers), response.read()


def ask(port, content=HEALTH):
    with socket.create_connection(("127.0.0.1", port), timeout=10) as link:
        link.sendall(content)
        return answer(link)


def is_closed(link, seconds=10):
    """Returns whether the server closes a connection, and reads nothing."""
    if not select.select([link], [], [], seconds)[0]:
        return False
    with contextlib.suppress(ConnectionResetError):
        return not link.recv(1)
    return True


def test_idle_connections_make_room_for_others(connect):
    with serves(max_connections=8, max_requests=2) as (_, port):
        busy = connect(port, HEALTH)
        answer(busy)
        links = [connect(port, b"GET /health HT" * (i % 2)) for i in range(20)]
        time.sleep(1.5 * server._YOUNG)
        assert ask(port)[0] == 200
        assert ask(port, request(GOOD))[0] == 200
        assert [is_closed(link, 1) for link in links[:12]] == [True] * 12
        assert [is_closed(link, 0) for link in links[-4:]] == [False] * 4


@pytest.mark.slow
def test_who_opens_many_connections_locks_nobody_out(connect):
    slow = request(GOOD, length=99)
    with serves(max_connections=8) as (instance, port):
        for content in (b"", slow):  # none of them is old, or all
            for _ in range(100):
                connect(port, content)
            assert ask(port)[0] == 200
            assert len(instance.server_state.connections) <= 17
            time.sleep(1.5 * server._YOUNG)
            assert ask(port, request(GOOD))[0] == 200
            assert len(instance.server_state.connections) <= 9


TARGETS = ["/health", "http://x/health", "HTTP://[x/health", "/tagger/health"]


@pytest.mark.parametrize("target", TARGETS)
def test_a_target_may_be_absolute_but_not_have_the_path_that_a_proxy_removes(target):
    with serves(root_path="/tagger") as (_, port):
        status = ask(port, f"GET {target} HTTP/1.1\r\nhost: x\r\n\r\n".encode())[0]
        assert status == (404 if "tagger" in target else 200)


@pytest.mark.parametrize("proxies", ["", "127.0.0.1"])
def test_the_log_believes_proxies_that_it_is_told_of(proxies, caplog):
    caplog.set_level("INFO")
    with serves(proxies=proxies) as (_, port):
        for client in ("10.1.2.3", "a b\x85c"):
            assert ask(port, request(GOOD, headers=f"x-forwarded-for: {client}\r\n"))
    assert ("10.1.2.3 /v1/tag 200" in caplog.text) == bool(proxies)
    assert "\x85" not in caplog.text


def test_two_processes_share_a_port():
    with process(reuse=True) as first:
        port = port_of(first)
        with process(port=port, reuse=True) as second:
            assert port_of(second) == port
            first.send_signal(signal.SIGTERM)
            assert ends(first)[0] == 0
            assert ask(port, request(GOOD))[0] == 200


@pytest.mark.slow
def test_a_connection_has_a_time_for_each_of_its_steps(connect, monkeypatch):
    monkeypatch.setattr(server, "_PAUSE", 2.0)
    with serves(Large(), max_seconds=1.0) as (instance, port):
        silent, head = connect(port), connect(port, b"POST /v1/tag HTTP/1.1\r\nho")
        body = connect(port, request(GOOD, length=99))
        connect(port, request(BULK) + request(BULK))
        assert answer(body)[0] == 408
        assert is_closed(silent)
        assert is_closed(head)
        deadline = time.monotonic() + 10
        while instance.server_state.connections and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not instance.server_state.connections


@pytest.mark.slow
def test_a_connection_waits_for_its_next_request_as_long_as_the_documentation_says(
    connect, monkeypatch
):
    monkeypatch.setattr(server, "_PAUSE", 1)
    with serves(max_seconds=2.0) as (_, port):
        link = connect(port, HEALTH)
        assert answer(link)[0] == 200
        time.sleep(2)
        link.sendall(HEALTH)
        assert answer(link)[0] == 200
        assert is_closed(link, 5)


@pytest.mark.slow
def test_answers_that_nobody_reads_take_limited_memory(connect):
    with serves(Large(0.0)) as (instance, port):

        def backlog():
            return sum(map(server._unread, [*instance.server_state.connections]))

        most = 0
        for _ in range(6):
            link = connect(port, request(BULK))
            while not select.select([link], [], [], 0.1)[0]:  # until it is answered
                pass
            most = max(most, backlog())
        assert 1 << 25 < most < server._MAX_BACKLOG + (1 << 25)
        deadline = time.monotonic() + 10
        while backlog() >= server._MAX_BACKLOG and time.monotonic() < deadline:
            time.sleep(0.01)  # the answer may be on its way still
        assert backlog() < server._MAX_BACKLOG
        assert ask(port, request(GOOD))[0] == 200


def test_what_is_no_http_is_answered_in_json():
    with serves() as (_, port):
        tls, http_9 = b"\x16\x03\x01\r\n\r\n", b"GET / HTTP/9\r\n\r\n"
        for content in (tls, http_9, b"a" * 70_000):
            status, head, body = ask(port, content)
            assert (status, [*json.loads(body)]) == (400, ["error"])
            assert "application/json" in head
        assert ask(port)[0] == 200


def test_health_answers_while_all_is_full(connect):
    with serves(Slow(0.5), max_requests=4, max_connections=50) as (_, port):
        links = [connect(port, request(GOOD)) for _ in range(30)]
        for _ in range(5):
            assert ask(port)[0] == 200
        answers = sorted(answer(link)[:2] for link in links)
        assert [status for status, _ in answers] == [200] * 4 + [429] * 26
        assert all("retry-after: 1" in head for _, head in answers[4:])


@pytest.mark.slow
def test_who_leaves_or_is_slow_takes_no_place(connect):
    model = Slow(0.3)
    with serves(model, max_requests=1, max_bytes=4000) as (_, port):
        for size in (30, -3, None):
            for _ in range(5):
                connect(port, request(GOOD)[:size]).close()
        for _ in range(9):
            connect(port, request(GOOD)[:-1])
        time.sleep(0.8)
        assert ask(port, request(GOOD))[0] == 200
        part = request(b"a" * 3000, length=4000)
        connect(port, part)
        assert ask(port, part)[0] == 503  # for too many bytes
    assert len(model.batches) < 4


def test_who_asks_and_does_not_read_holds_nobody_up(connect):
    with serves(max_connections=20, stop_seconds=2.0) as (instance, port):
        for _ in range(30):
            connect(port, b"GET /openapi.json HTTP/1.1\r\nhost: x\r\n\r\n" * 300)
        time.sleep(1.5 * server._YOUNG)
        for _ in range(3):
            assert ask(port)[0] == 200
            assert ask(port, request(GOOD))[0] == 200
        start = time.monotonic()
        instance.should_exit = True
    assert time.monotonic() - start < 5


def test_chunks_without_end_hold_nobody_up(connect):
    with serves(max_bytes=4000) as (_, port):
        for path, status in (("nothing", 404), ("tag", 413)):
            link = connect(port, CHUNKED.format(path).encode())
            with contextlib.suppress(OSError):
                for _ in range(100):
                    link.sendall(b"1\r\na\r\n" * 10_000)
            assert ask(port)[0] == 200
            with contextlib.suppress(ConnectionResetError):
                assert answer(link)[0] == status


def test_a_bad_size_of_a_chunk_is_answered():
    with serves() as (_, port):
        for chunks in (b"zz\r\n", b"1\r\na\r\nzz\r\n", b"1\r\nab\r\n"):
            status, _, body = ask(port, CHUNKED.format("tag").encode() + chunks)
            assert (status, [*json.loads(body)]) == (400, ["error"])
        chunks = b"\ncontent-length: 3\r\n\r\n14\r\n" + GOOD + b"\r\n0\r\n\r\n"
        head = ask(port, CHUNKED.format("tag").encode()[:-3] + chunks)[1]
        assert "connection: close" in head  # proxies may read a length beside chunks
        status, *_ = ask(port, CHUNKED.format("nothing").encode() + b"zz\r\n")
        assert status in (400, 404)
        assert ask(port, request(GOOD))[0] == 200


@pytest.mark.slow
def test_the_end_comes_in_time_whatever_clients_do(connect, caplog):
    caplog.set_level("INFO")
    with serves(Large(1.0), stop_seconds=4.0, max_requests=9) as (instance, port):
        connect(port, request(BULK))
        time.sleep(1.5)
        first = connect(port, request(GOOD))
        time.sleep(0.3)
        queue = [connect(port, request(GOOD)) for _ in range(3)]
        slow = connect(port, request(GOOD, length=99))
        idle, head = connect(port), connect(port, b"POST /v1/tag HT")
        rest = connect(port, request(GOOD)[:20])
        time.sleep(0.2)
        start = time.monotonic()
        instance.should_exit = True
        time.sleep(0.2)
        assert ask(port, b"GET /ready HTTP/1.1\r\nhost: x\r\n\r\n")[0] == 503
        status, text, _ = answer(first)
        assert (status, "connection: close" in text) == (200, True)
        assert [answer(link)[0] for link in queue] == [200] * 3
        status, _, body = answer(slow)
        assert (status, json.loads(body)["error"]) == (503, "The service stops.")
        assert is_closed(idle)
        rest.sendall(request(GOOD)[20:])
        assert answer(rest)[0] in (200, 503)
        assert is_closed(head)
    assert time.monotonic() - start < 8
    assert re.search("Stopped: [45] answered and [12] refused since", caplog.text)


def test_the_end_may_come_when_the_time_of_requests_is_over(connect):
    for delay in (0.28, 0.29, 0.3, 0.31, 0.5):
        with serves(Slow(0.5), max_seconds=0.3, max_requests=99) as (instance, port):
            links = [connect(port, request(GOOD)) for _ in range(40)]
            time.sleep(delay)
            instance.should_exit = True
            assert {answer(link)[0] for link in links} == {503}


def test_clients_that_keep_connections_lose_nothing_at_the_end(connect):
    errors, counts = [], []

    def go_on(port):
        count, link = 0, connect(port)
        try:
            while True:
                link.sendall(request(GOOD))
                status, head, _ = answer(link)
                count += status == 200
                if "connection: close" in head:
                    return counts.append(count)
        except OSError as error:
            errors.append(error)

    with serves(max_requests=99) as (instance, port):
        threads = [threading.Thread(target=go_on, args=(port,)) for _ in range(16)]
        for thread in threads:
            thread.start()
        time.sleep(0.5)
        instance.should_exit = True
        for thread in threads:
            thread.join(10)
    assert (errors, len(counts)) == ([], 16)
    assert min(counts) > 0


def test_the_examples_of_a_deployment_are_short_and_know_the_options():
    options = cli.parser_of(serving.serve)._option_string_actions
    for path in Path("examples/deploy").iterdir():
        text = path.read_text()
        assert text.count("\n") < 30
        if path.suffix == ".yaml":
            yaml.safe_load(text)
        (line,) = [x for x in text.splitlines() if '["/tagger"' in x]
        assert {*re.findall(r"--[a-z-]+", line)} <= {*options}


# --- The process ----------------------------------------------------------------------

SCRIPT = """
import sys, time
from jaxner import cli
from jaxner.serving import Limits, programs, server
from tests.slow_model import Slow
class Programs(programs.Programs):
    def __init__(self):
        from tests.test_decoding import tiny
        super().__init__(tiny("crf"))
    def __call__(self, jobs):
        time.sleep(60)
class Model({model}):
    def compile(self, log):
        log(3, 9)
        print("compiles", flush=True)
        time.sleep({seconds})
        {failure}
with cli._errors("serve"):
    limits = Limits(stop_seconds=2.0)
    server.run(Model(), limits, {host!r}, int(sys.argv[1]), reuse_port={reuse})
"""


@contextlib.contextmanager
def process(
    seconds=0.1,
    failure="",
    port=0,
    prefix=(),
    model="Slow",
    reuse=False,
    host="127.0.0.1",
    **environment,
):
    values = {"seconds": seconds, "failure": failure, "model": model, "host": host}
    script = SCRIPT.format(reuse=reuse, **values)
    command = [*prefix, sys.executable, "-c", script, str(port)]
    pipe = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipe, env=os.environ | environment) as child:
        try:
            yield child
        finally:
            child.kill()


def port_of(child):
    lines = [child.stdout.readline() for _ in range(2)]
    assert "compiles\n" in lines
    return int(re.findall(r":(\d+)", "".join(lines))[0])


def ends(child, seconds=60):
    """Returns exit status and standard error of a process that ends by itself."""
    _, text = child.communicate(timeout=seconds)
    return child.returncode, text


def test_a_process_says_when_it_is_ready_and_when_it_stops():
    with process() as child:
        port = port_of(child)
        line = child.stderr.readline()
        assert "Compiled 3 of 9 programs" in line
        while "Ready after" not in line:
            line = child.stderr.readline()
        assert re.search(r"Ready after 0\.\d s$", line)
        assert ask(port, request(GOOD))[0] == 200
        child.send_signal(signal.SIGTERM)
        status, text = ends(child)
        assert (status, "Stopped: 0 answered" in text) == (0, True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_process_that_compiles(number):
    with process(seconds=60) as child:
        port = port_of(child)
        assert ask(port)[0] == 200
        status, _, body = ask(port, request(GOOD))
        assert (status, b"3 of 9 programs" in body) == (503, True)
        start = time.monotonic()
        child.send_signal(number)
        assert ends(child)[0] == 0
        assert time.monotonic() - start < 20  # of the 60 that compiling takes


def test_a_signal_ends_a_process_at_any_time():
    for number in (signal.SIGTERM, signal.SIGINT):
        with process() as child:
            child.stdout.readline()
            child.send_signal(number)
            assert ends(child)[0] == 0


@pytest.mark.slow
def test_a_process_whose_log_is_not_read_ends():
    with process() as child:
        fcntl.fcntl(child.stderr, fcntl.F_SETPIPE_SZ, 4096)
        port = port_of(child)
        while ask(port, request(b"{}"))[0] == 503:
            time.sleep(0.1)

        def fill():
            for _ in range(200):
                with socket.create_connection(("127.0.0.1", port), timeout=1) as link:
                    link.sendall(request(GOOD))
                    answer(link)

        with pytest.raises(TimeoutError):  # the process waits for a reader
            fill()
        child.send_signal(signal.SIGTERM)
        assert child.wait(20) == 0


@pytest.mark.slow
def test_a_process_that_cannot_serve_ends_with_a_reason_and_status_1():
    with process(failure="raise MemoryError('no room')") as child:
        status, text = ends(child)
        message = "jaxner serve: Cannot compile the programs: no room"
        assert (status, text.splitlines()[-1]) == (1, message)
    with (
        socket.create_server(("127.0.0.1", 0)) as rival,
        process(port=rival.getsockname()[1]) as child,
    ):
        status, text = ends(child)
        assert (status, "Address already in use" in text) == (1, True)
    with process(host="") as child:
        status, text = ends(child, 9)
        assert (status, "Expected --host as an address" in text) == (1, True)
    for key in ("", "abc\n"):
        with process(JAXNER_API_KEY=key) as child:
            status, text = ends(child)
            assert (status, "Expected JAXNER_API_KEY" in text) == (1, True)


CONTAINER = """
mount --make-rprivate / && mount -o remount,ro,bind / && mount -t proc proc /proc &&
exec env -u HOME -u XDG_CACHE_HOME -u TMPDIR "$@"
"""


def test_the_first_process_of_a_container_stops_at_sigterm():
    prefix = ["unshare", "--fork", "--pid", "--mount", "sh", "-c", CONTAINER, "sh"]
    if not shutil.which("unshare") or subprocess.run([*prefix, "true"]).returncode:
        pytest.skip("needs to make namespaces, as root")
    with process(prefix=prefix) as launcher:
        assert ask(port_of(launcher))[0] == 200
        parent = Path(f"/proc/{launcher.pid}/task/{launcher.pid}/children")
        child = int(parent.read_text())
        facts = Path(f"/proc/{child}/status").read_text()
        assert facts.split("NSpid:")[1].split()[1] == "1"
        os.kill(child, signal.SIGTERM)
        assert ends(launcher)[0] == 0


@pytest.mark.slow
def test_all_requests_together_take_the_memory_that_the_documentation_says(connect):
    def size(name):
        text = Path(f"/proc/{child.pid}/status").read_text()
        return int(re.findall(rf"{name}:\s+(\d+)", text)[0]) / 1024

    # Each sentence has a word of 128 characters, to which all others are padded.
    texts = "\n\n".join(["a " * 254 + "b" * 128] * 256)
    large = request(json.dumps({"texts": texts}).encode())
    with process(model="Programs") as child:
        port = port_of(child)
        while ask(port, request(b"{}"))[0] == 503:
            time.sleep(0.2)
        start = size("VmRSS")
        for _ in range(12):
            connect(port, large)
        for _ in range(244):
            connect(port, request(b"a" * 200_000, length=1 << 18))
        time.sleep(20)
        assert ask(port)[0] == 200
        most = re.search(r"all of this \| (\d+) MiB", COSTS)
        assert 100 < size("VmHWM") - start < int(most[1])
