"""Everything that users name as an output is written here.

A file gets its name last, after its content is on disk: a kill never leaves a partial
file. It replaces a link to a file, not what the link names. What holds no content, such
as `-`, a pipe or a device, is a stream: it is opened and written, never replaced.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import io
import json
import os
import re
import secrets
import shutil
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from jaxner.errors import InputError

AnyPath = str | os.PathLike[str]
SIDES = ("", ".part", ".journal", ".journal.new", ".lock")
"""Endings of what `Output` writes beside a file and, first, of the file itself."""
DRAFTS = f".{16 * '[0-9a-f]'}.tmp"
"""Pattern of the names that files have until their content is on disk."""
RUN = "config.json", "environment.json", "vocabulary.json", "metrics.jsonl"
RUN += "calibration.json", "result.json", "model.json", "README.md"
RUN += tuple(f"predictions-{split}.conll" for split in ("dev", "test"))
RUN += tuple(f"data/{split}.jsonl" for split in ("train", "dev", "test"))
"""Files of a run that nothing else replaces, by their paths in its folder."""
_FULL = errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)
_OPEN = re.compile(r"/(?:dev|proc/self)/fd/([0-9]+)")


def expanded(path: AnyPath) -> Path:
    """Returns a path with the user's home folder in the place of `~`."""
    return Path(os.path.expanduser(path))  # that of pathlib refuses `~name`


def read_text(path: Path) -> str:
    """Returns the text of a file, or of standard input for `-`, in UTF-8."""
    try:
        data = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
        return io.StringIO(data.decode("utf-8"), newline=None).read()
    except UnicodeDecodeError as error:
        raise InputError(f"expected text in UTF-8: {error}", path) from None


def descriptor(path: AnyPath) -> int | None:
    """Returns the number of an open file, such as 1 for `-` and `/dev/stdout`."""
    name = "/dev/fd/1" if os.fspath(path) == "-" else os.path.abspath(path)
    for _ in range(40):  # the links that a system follows
        if (match := _OPEN.fullmatch(name)) or not os.path.islink(name):
            return int(match[1]) if match else None
        folder = os.path.dirname(name)
        name = os.path.abspath(os.path.join(folder, os.readlink(name)))
    return None


def is_stream(path: AnyPath) -> bool:
    """Returns whether a path is an open file, a pipe, a device or a socket."""
    is_usual = os.path.isfile(path) or os.path.isdir(path)
    return descriptor(path) is not None or (os.path.exists(path) and not is_usual)


def check(
    *paths: AnyPath | None,
    sources: Sequence[AnyPath | None] = (),
    sides: Sequence[str] = ("",),
) -> None:
    """Checks, before any other work, that files can be written, and each of them once.

    None or "" is no file. None may be one of the sources, which the work reads, however
    it is spelt; `sides` are endings of names that belong to each file that is written.
    """
    names: dict[object, AnyPath] = {}
    for source in filter(None, sources):
        key, mode = _identity(source, standard=0)
        if stat.S_ISREG(mode) or stat.S_ISFIFO(mode):
            names[key] = source
    for path in filter(None, paths):
        _check_writable(path)
        for side in sides[:1] if is_stream(path) else sides:
            key, _ = _identity(f"{os.fspath(path)}{side}")
            if key in names:
                message = f"Expected two files, got {names[key]} and {path}"
                raise InputError(f"{message}, which share {path}{side}")
            if key:  # nothing can collide in the null device
                names[key] = path


def is_run(folder: Path) -> bool:
    """Returns whether a folder holds a run, or restarts."""
    files = folder / "vocabulary.json", *folder.glob("seed-*/vocabulary.json")
    return any(x.exists() and x.with_name("checkpoints").exists() for x in files)


def check_side(path: Path, main: AnyPath, keys: Set[str]) -> None:
    """Checks that a JSON file that goes with `main` replaces only one with its keys."""
    if path.is_file() and path.stat().st_size:
        try:
            content = json.loads(path.read_bytes())
        except ValueError:
            content = None
        if not (isinstance(content, dict) and keys <= content.keys()):
            message = f"would be replaced by what goes with {main}: name another file"
            raise InputError(message, path)


def _identity(path: AnyPath, standard: int = 1) -> tuple[object, int]:
    """Returns what all names of a file share, and its mode; 0 if there is no file.

    `standard` is the open file that `-` means.
    """
    number = standard if os.fspath(path) == "-" else descriptor(path)
    try:
        status = os.stat(path if number is None else number)
    except OSError:
        return os.path.realpath(path), 0
    is_device = number is None and stat.S_ISCHR(status.st_mode)
    if is_device and status.st_rdev == os.stat(os.devnull).st_rdev:
        return (), status.st_mode
    return (status.st_dev, status.st_ino), status.st_mode


def _check_writable(path: AnyPath) -> None:
    if (number := descriptor(path)) is not None:
        os.write(number, b"")  # which fails if it is closed, or only read
        return
    target, folder = Path(path), Path(path).absolute().parent
    if not folder.is_dir():
        raise FileNotFoundError(f"There is no folder to write {path} into")
    if target.is_dir() or target.is_socket():
        kind = "folder" if target.is_dir() else "socket"
        raise InputError(f"Expected a file to write, got the {kind} {path}")
    for parent in (folder, folder.parent):
        if target.absolute().relative_to(parent).as_posix() in RUN and is_run(parent):
            raise InputError(f"{path} belongs to the run {parent}: name another file")
    check_permission(target)


def check_permission(path: Path) -> None:
    """Raises PermissionError if a file can neither be replaced nor made."""
    folder = path.absolute().parent
    places = [*[path] * path.exists(), *[folder] * (not is_stream(path))]
    if not all(os.access(parent, os.W_OK) for parent in places):
        raise PermissionError(f"There is no permission to write {path}")


def write_text(path: AnyPath, text: str) -> None:
    """Writes a text; names of files that are not UTF-8 are escaped in it."""
    with writing(path) as file:
        file.write(text.encode("utf-8", "backslashreplace"))


@contextlib.contextmanager
def writing(path: AnyPath, temporary: str = "") -> Iterator[io.BufferedIOBase]:
    """Yields a file for bytes: a stream, or what replaces `path` if all went well."""
    if is_stream(path):
        with _stream(path) as file:
            yield file
        return
    path = Path(path)
    draft = path.with_name(temporary or f".{secrets.token_hex(8)}.tmp")
    try:
        file = draft.open("wb")
    except OSError as error:  # the user never gave the temporary name
        raise type(error)(error.errno, error.strerror, str(path)) from None
    try:
        with _named(path):
            with file:
                yield file
                _sync(file)
            if path.exists() and not path.is_symlink():
                shutil.copymode(path, draft)
            os.replace(draft, path)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def _stream(path: AnyPath) -> io.BufferedIOBase:
    number = descriptor(path)
    if number is None:
        return open(path, "wb")
    if sys.stdout:
        sys.stdout.flush()  # what was printed before comes before
    return os.fdopen(os.dup(number), "wb")


@contextlib.contextmanager
def _named(path: AnyPath) -> Iterator[None]:
    """Gives the error of a full disk the name of its file; no reader raises it."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            error.filename = error.filename or str(path)
        raise


def append_line(path: Path, text: str) -> None:
    """Appends a line to a file and flushes to disk."""
    with path.open("ab") as file:
        file.write(f"{text}\n".encode())
        _sync(file)


def _sync(file: io.BufferedIOBase) -> None:
    file.flush()
    os.fsync(file.fileno())


class Output:
    """Files that grow together by chunks, with a journal of what of them is valid.

    A context manager: the files get their names when the context ends without an error.
    Until then they are `.part`s, which the next `Output` of the same paths continues if
    its `identity`, facts about the work, is the same; `state` is what the last chunk
    was stored with ({}: there is none). A file that ends with `.gz` is compressed. A
    stream gets the chunks at once; if `path` is one, nothing continues.
    """

    def __init__(
        self,
        path: AnyPath,
        identity: Mapping[str, Any],
        *,
        rejects: AnyPath | None = None,
        overwrite: bool = False,
    ):
        self.rejects, self.state, self._overwrite = rejects, {}, overwrite
        self._paths = [Path(p) for p in (path, rejects) if p is not None]
        self._targets = [p for p in self._paths if not is_stream(p)]
        self._identity = json.loads(json.dumps(identity))
        self._journal = None if is_stream(path) else _beside(Path(path), "journal")

    def __enter__(self) -> Output:
        import filelock  # takes a while

        with contextlib.ExitStack() as stack:
            for target in self._targets:
                lock = filelock.FileLock(_beside(target, "lock"), timeout=0)
                try:
                    lock.acquire()
                except filelock.Timeout:
                    raise FileExistsError(f"Another process writes {target}") from None
                stack.callback(Path(lock.lock_file).unlink, missing_ok=True)
                stack.callback(lock.release)
            sizes = iter(self._resume())
            old = [p for p in self._targets if p.exists() and not self._overwrite]
            if old:
                message = f"{old[0]} exists: use --overwrite or another name"
                raise FileExistsError(message)
            self._open, self._files = stack.enter_context(contextlib.ExitStack()), []
            for path in self._paths:
                is_part = path in self._targets
                file = _open_at(path, next(sizes)) if is_part else _stream(path)
                self._open.enter_context(_named(path))  # closing writes the rest
                self._files.append(self._open.enter_context(file))
            if not self.state:
                self.commit("", "", state={})
            self._stack = stack.pop_all()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        with self._stack:
            for path, file in zip(self._paths, self._files, strict=True):
                if path.suffix == ".gz" and path in self._targets and not file.tell():
                    file.write(gzip.compress(b""))  # an empty file is none of gzip's
            self._open.close()  # no system renames an open file but Unix
            if kind is None:
                for path in reversed(self._targets):
                    os.replace(_beside(path, "part"), path)
                if self._journal:
                    self._journal.unlink()

    def _resume(self) -> list[int]:
        """Reads the journal of an interrupted run; returns the valid sizes in bytes."""
        if not self._journal or self._overwrite or not self._journal.exists():
            return [0] * len(self._targets)
        try:
            content = json.loads(self._journal.read_text("utf-8"))
            identity, sizes, state = (content[k] for k in ("identity", "sizes", "done"))
        except (ValueError, KeyError, TypeError):
            raise InputError("damaged: use --overwrite", self._journal) from None
        if identity != self._identity:
            names = [k for k, v in self._identity.items() if identity.get(k) != v]
            raise FileExistsError(
                f"{self._targets[0]}.part was begun with another {', '.join(names)}; "
                "give the same, or use --overwrite"
            )
        parts = [_beside(path, "part") for path in self._targets]
        for path, part, size in zip(self._targets, parts, sizes, strict=True):
            if not part.exists() and path.exists() and path.stat().st_size == size:
                os.replace(path, part)  # the kill came after it had got its name
        if not parts[0].exists():
            return [0] * len(parts)
        self.state = state
        return sizes

    def commit(self, *texts: str, state: Mapping[str, Any]) -> None:
        """Appends a text to each file; `state` is for a run that continues."""
        self.state, sizes = {**state}, []
        for path, file, text in zip(self._paths, self._files, texts, strict=False):
            data = text.encode()
            # Each chunk is a gzip member, so that the file can be cut between them.
            is_zipped = data and path.suffix == ".gz"
            with _named(path):
                file.write(gzip.compress(data, 6, mtime=0) if is_zipped else data)
                file.flush()
                if path in self._targets:
                    os.fsync(file.fileno())
                    sizes.append(file.tell())
        if self._journal:
            content = {"identity": self._identity, "sizes": sizes, "done": self.state}
            with writing(self._journal, f"{self._journal.name}.new") as file:
                file.write(json.dumps(content).encode())


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(f"{path.name}.{ending}")


def _open_at(path: Path, size: int) -> io.BufferedIOBase:
    """Opens the part of a file after its first `size` bytes; cuts off the rest."""
    file = _beside(path, "part").open("ab")
    if size > file.tell():
        file.close()
        raise InputError("shorter than it was: use --overwrite", file.name)
    file.truncate(size)
    file.seek(size)
    return file
