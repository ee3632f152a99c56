"""Strict JAX for all tests; in CI, shapes in signatures are checked (see .ci/run)."""

import contextlib
import ctypes
import gc
import os
import shutil
import signal
import threading
from importlib.metadata import version
from pathlib import Path

# The first two (and, below, the last) make the many small programs compile in a quarter
# of the time; the third gives the tests of sharding two devices on any machine.
_FLAGS = [
    "--xla_backend_optimization_level=0",
    "--xla_cpu_parallel_codegen_split_count=1",
    "--xla_force_host_platform_device_count=2",
]
if version("jaxlib").startswith("0.10."):  # later ones end at an unknown flag
    _FLAGS.append("--xla_cpu_use_fusion_emitters=false")
os.environ.setdefault("XLA_FLAGS", " ".join(_FLAGS))

# The same small programs are compiled by many tests and scripts: compile them once. So
# the commands, too, keep nothing in the user's own cache folder. A command called with
# --cache=off would end this for the whole process.
_CACHE = Path(__file__).parents[1] / ".pytest_cache" / "jax"
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(_CACHE))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")

# What JAX traces makes many objects and little garbage; looking for it at Python's own
# pace takes a sixth of the time.
gc.set_threshold(100_000)

# A shell that starts the tests in the background makes them ignore Ctrl-C, and what
# they start would, too.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

import filelock
import hypothesis
import jax
import pytest

_LOWERING = threading.local()
_MOST_BYTES = 1150 << 20  # a worker that holds more after a test drops its programs

# jaxner is imported inside the fixtures: jaxtyping's pytest plugin has to come first.

hypothesis.settings.register_profile("jaxner", deadline=None)  # compiling takes time
hypothesis.settings.load_profile("jaxner")
jax.config.update("jax_numpy_rank_promotion", "raise")
# What is compared with float64 is not rounded to fewer digits by accelerators.
jax.config.update("jax_default_matmul_precision", "highest")


def _share_contexts() -> None:
    """Writes all programs of a thread in one MLIR context.

    JAX makes a context for each program and keeps it with the program: five
    milliseconds and a megabyte, which is most of what a small program costs.
    """
    from jax._src.interpreters import mlir

    new = mlir.make_ir_context

    def base():
        if getattr(_LOWERING, "context", None) is None:
            _LOWERING.context = new()
        return _LOWERING.context

    mlir.make_ir_context = base


if version("jax").startswith("0.10."):  # the name is no part of JAX's interface
    _share_contexts()


@pytest.fixture(autouse=True)
def _bounded_memory():
    """Drops compiled programs once a worker holds much, which would be gigabytes.

    What later tests compile again comes from the cache on disk.
    """
    yield
    pages = 0
    with contextlib.suppress(OSError):  # a system that does not report it
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    if pages * os.sysconf("SC_PAGE_SIZE") > _MOST_BYTES:
        jax.clear_caches()
        _LOWERING.context = None  # which holds the constants of its programs
        gc.collect()
        # Returns free memory to the system, which glibc's allocator would keep.
        with contextlib.suppress(OSError, AttributeError):  # another C library
            ctypes.CDLL("libc.so.6").malloc_trim(0)


@pytest.fixture
def float64():
    with jax.enable_x64(True):
        yield


@pytest.fixture
def no_checks(monkeypatch):
    """Does not check the annotations of shapes and types within one test.

    For large inputs: other tests have checked the same functions on small ones.
    """
    from jaxtyping import config

    monkeypatch.setattr(config, "jaxtyping_disable", True)


@pytest.fixture
def file(tmp_path):
    """Writes text or bytes to a file in the test's folder, and returns its path."""

    def write(content, name="a.conll"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.fixture(scope="session")
def base(tmp_path_factory):
    """A folder that all workers share."""
    folder = tmp_path_factory.getbasetemp()
    return folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder


@pytest.fixture(scope="session")
def corpus(base):
    """A folder with a tiny train, dev and test file."""
    from tests import tiny

    with filelock.FileLock(base / "corpus.lock"):
        if not (base / "corpus").exists():
            tiny.write_corpus(base / "corpus")
    return base / "corpus"


@pytest.fixture(scope="session")
def dev(corpus):
    from jaxner.data import corpora

    return corpora.load(None, "dev", directory=corpus)


@pytest.fixture(scope="session")
def tiny_run(corpus, base):
    """The folder of a finished tiny run, which the first worker to ask trains."""
    import train
    from tests import tiny

    folder = base / "runs" / "finished"
    with filelock.FileLock(base / "finished.lock"):
        if not (folder / "result.json").exists():
            train.main_run(tiny.config(corpus), folder)
    return folder


@pytest.fixture
def copied_run(tiny_run, tmp_path):
    return shutil.copytree(tiny_run, tmp_path / "run")


@pytest.fixture(scope="session")
def params(tiny_run):
    """The tagger of the finished run."""
    import jaxner

    return jaxner.load(tiny_run)


def _stored(name):
    """Makes a fixture: the folder of a stored run, whose data are the tiny corpus."""

    @pytest.fixture(scope="session")
    def folder(corpus, tmp_path_factory):
        from tests import fence, tiny

        run = fence.unpack(name, tmp_path_factory.mktemp("runs") / name)
        return tiny.with_data(run, dir=str(corpus))

    return folder


@pytest.fixture(scope="session")
def hub_run(tmp_path_factory):
    """The folder of a run that was a token classifier of transformers."""
    import jaxner
    from tests import test_hub

    folder = tmp_path_factory.mktemp("imported")
    source = test_hub.classifier(folder / "bert")
    jaxner.from_pretrained(source, workdir=folder / "run")
    return folder / "run"


att_run = _stored("att_bilstm")  # its encoder ends in self-attention
uanet_run = _stored("uanet")


@pytest.fixture
def answer():
    """Does what `jaxner COMMAND ...` does, in this process; returns its content."""
    from jaxner import cli

    return lambda name, *words: cli.call(cli.function_of(name), [*map(str, words)])


@pytest.fixture
def run(capfd):
    """Runs a command line in this process; returns its status and what it shows."""
    from jaxner import cli

    def call(*arguments):
        status = 0
        try:
            cli.run([*map(str, arguments)])
        except SystemExit as end:
            status = end.code
        return status, "".join(capfd.readouterr())

    return call
