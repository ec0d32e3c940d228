"""A folder of compiled programs for each subject, which its next run reads instead of compiling.

Laws compile thousands of small programs, the same ones in every run. JAX finds a compiled program
by its text and by XLA's flags, whoever has compiled it: an implementation that compiles wrongly, or
that changes JAX, could leave a wrong program to the next one. So each *subject* has a folder of its
own. A subject is an implementation (its name, version and code), together with the compiler and the
devices that compile and run its programs:

    ~/.cache/scutch/compiled/flax-0.12.8-5c1e0f6a93d24b87

Where `XDG_CACHE_HOME` is set, it stands in the place of `~/.cache`. A run ends by deleting folders
that no run has used for `MOST_DAYS`, and the oldest where all hold more than `MOST_BYTES`.
"""

import contextlib
import hashlib
import importlib.metadata
import math
import os
import platform
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import jax
from jax.experimental.compilation_cache import compilation_cache

FOLDER = "jax_compilation_cache_dir"
KEEP_ALL: dict[str, Any] = {
    "jax_persistent_cache_min_compile_time_secs": 0,
    "jax_persistent_cache_min_entry_size_bytes": -1,
}
"""Options with which JAX also keeps programs that are small or compile quickly."""

MOST_BYTES = 2 << 30
MOST_DAYS = 30
_USED = "used"
"""A file in the folder of a subject; a run that begins sets its time. Its lines tell how many
programs were compiled, and in how many seconds: JAX keeps whole seconds only."""

_TOOLS = frozenset(
    "scutch jax jaxlib numpy scipy ml_dtypes opt_einsum flatbuffers etils filelock hypothesis "
    "_hypothesis_globals sortedcontainers pytest _pytest py pluggy iniconfig packaging pygments "
    "xdist execnet psutil typing_extensions _distutils_hack __main__ __mp_main__".split()
)
"""Packages of the judge, by the names that Python imports them by: JAX has its version in the
name of the folder, and the others compile nothing. A package that is not listed counts as a part of
the implementation: that can only make a folder of its own."""


def content() -> str:
    """The hash of the code of all packages that this process has imported, without the judge's.

    Called where an implementation has just been imported. A package counts with all its Python
    files, because it may import some of them later.
    """
    found = hashlib.sha256()
    names = {name.partition(".")[0] for name in sys.modules} - sys.stdlib_module_names - _TOOLS
    adapters = [name for name in sys.modules if name.startswith("scutch.adapters.")]
    for name in sorted([*names, *adapters]):
        module = sys.modules.get(name)
        origin = getattr(module, "__file__", None)
        folders = list(getattr(module, "__path__", ())) if module is not None else []
        files = [Path(origin)] if isinstance(origin, str) else []
        files += [file for folder in folders for file in Path(folder).rglob("*.py")]
        for file in sorted(set(files)):
            with contextlib.suppress(OSError):
                found.update(f"{name} {file.name} {file.stat().st_size}\n".encode())
                found.update(file.read_bytes())
    return found.hexdigest()


def subject(name: str, version: str, code: str, where: str) -> str:
    """The name of the folder of a subject.

    Args:
      name: Of the implementation.
      version: Of the implementation.
      code: The hash that `content` returned.
      where: JAX's platform, with the number and the kind of its devices.

    Returns:
      A name that another implementation, compiler or device does not have.
    """
    compiler = (
        jax.__version__,
        importlib.metadata.version("jaxlib"),
        platform.python_version(),
        *_processor(),
    )
    asked = (where, os.environ.get("XLA_FLAGS", ""), os.environ.get("LIBTPU_INIT_ARGS", ""))
    known_by = "\n".join((name, version, code, *compiler, *asked))
    plain = re.sub(r"[^A-Za-z0-9.]+", "-", f"{name}-{version}")[:80].strip("-.")
    return f"{plain}-{hashlib.sha256(known_by.encode()).hexdigest()[:16]}"


def _processor() -> tuple[str, ...]:
    """The processor's model and flags: machines with different ones may share a home folder."""
    told = []
    with contextlib.suppress(OSError):
        text = Path("/proc/cpuinfo").read_text("utf-8", errors="replace")
        told = re.findall(r"^(?:model name|flags|Features)\s*:.*$", text, re.MULTILINE)
    return (platform.machine(), *sorted(set(told)))


def kept_in() -> Path:
    """The folder of all subjects, in the cache folder of the user."""
    chosen = os.environ.get("XDG_CACHE_HOME", "")
    home = Path(chosen) if os.path.isabs(chosen) else Path.home() / ".cache"
    return home / "scutch" / "compiled"


@contextlib.contextmanager
def kept(name: str, *, joins: bool = False) -> Iterator[str]:
    """Have JAX read and write compiled programs in the folder of a subject, and in no other.

    Processes that are started inside the block use the folder, too. Where it cannot be made, no
    program is kept, and the processes of this run share a temporary folder.

    Args:
      name: The name that `subject` returned; empty to keep no program.
      joins: Whether this process is a worker of a run, whose temporary folder it shares.

    Yields:
      The folder; empty where no program is kept.
    """
    folder = str(_made(name) or "") if name else ""
    with contextlib.ExitStack() as undo:
        if folder:
            undo.enter_context(_told({FOLDER: folder, **KEEP_ALL}))
        elif joins:
            undo.enter_context(compiled_once())
        else:
            undo.enter_context(_told({FOLDER: undo.enter_context(_temporary()), **KEEP_ALL}))
        yield folder


@contextlib.contextmanager
def compiled_once() -> Iterator[None]:
    """Have JAX keep compiled programs until the block ends.

    The folder is the one that the environment variable `JAX_COMPILATION_CACHE_DIR` names, or a
    temporary one, deleted at the end. Processes that are started inside use it, too. How often
    a function is *traced* does not change.
    """
    with contextlib.ExitStack() as undo:
        options = dict(KEEP_ALL)
        if FOLDER.upper() not in os.environ:
            options[FOLDER] = undo.enter_context(_temporary())
        undo.enter_context(_told(options))
        yield


def _temporary() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="scutch-", ignore_cleanup_errors=True)


@contextlib.contextmanager
def _told(options: Mapping[str, Any]) -> Iterator[None]:
    """Set options of JAX in this process, and in those that it starts."""
    with contextlib.ExitStack() as undo:
        for name, value in options.items():
            undo.callback(jax.config.update, name, getattr(jax.config, name))
            before = os.environ.get(name.upper())
            if before is None:
                undo.callback(os.environ.pop, name.upper(), None)
            else:
                undo.callback(os.environ.__setitem__, name.upper(), before)
            os.environ[name.upper()] = str(value)
            jax.config.update(name, value)  # type: ignore[no-untyped-call]
        undo.callback(compilation_cache.reset_cache)
        compilation_cache.reset_cache()  # else JAX stays with the folder that it has opened
        yield


def _made(name: str) -> Path | None:
    """The folder of a subject, which only this user can read; None where it cannot be made."""
    folder = kept_in() / name
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        (folder / _USED).touch()
    except (OSError, RuntimeError):  # RuntimeError: there is no home folder
        return None
    return folder


def note(programs: int, seconds: float) -> None:
    """Note in the folder of a subject how long it took to compile some programs.

    Args:
      programs: How many; nothing is noted for 0.
      seconds: Of all of them.
    """
    used = _used()
    if programs and used.is_file():
        # A disk may be full, and another run may delete the folder: no verdict depends on this.
        with contextlib.suppress(OSError), used.open("a") as file:
            file.write(f"{programs} {seconds:.4f}\n")


def typical() -> float:
    """Seconds in which a program of the folder was compiled, on average; 0 where nobody knows."""
    text = ""
    with contextlib.suppress(OSError):  # a temporary folder has no such file
        text = _used().read_text()
    lines = re.findall(r"^(\d+) (\d+\.\d{4})$", text, re.MULTILINE)
    programs = sum(int(many) for many, _ in lines)
    return math.fsum(float(seconds) for _, seconds in lines) / programs if programs else 0.0


def _used() -> Path:
    """The file of the folder that JAX keeps programs in; only a folder of a subject has one."""
    return Path(getattr(jax.config, FOLDER) or "", _USED)


def prune() -> None:
    """Delete the folders that no run has used lately, and the oldest where all are too large."""
    now, total = time.time(), 0
    for used, folder in sorted(_all(), reverse=True):
        total += size(folder)
        if total > MOST_BYTES or now - used > MOST_DAYS * 86400:
            shutil.rmtree(folder, ignore_errors=True)


def _all() -> Iterator[tuple[float, Path]]:
    """The folder of every subject, with the time of its last use."""
    with contextlib.suppress(OSError, RuntimeError):
        for folder in kept_in().iterdir():
            with contextlib.suppress(OSError):
                yield (folder / _USED).stat().st_mtime, folder


def size(folder: Path) -> int:
    """The bytes of the files of a folder, which other runs may change meanwhile."""
    total = 0
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            with contextlib.suppress(OSError):
                total += entry.stat().st_size
    return total
