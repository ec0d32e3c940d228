"""An implementation that tries to stop the judge, or to get others blamed: an adapter.

While the law of a `Case` is tried, the methods of its boxes call the case's `act`; in all other
laws it is the reference. So one run tries all cases, and shows the damage that each leaves behind.
"""

import builtins
import ctypes
import json
import os
import resource
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import jax
from trials.hostile import Case, hostile

LEFT = "SCUTCH_TRIAL_LEFT"
"""Environment variable: the folder in which processes that should not outlive the run are noted."""


_acted: set[tuple[int, Callable[[], Any]]] = set()


def _note() -> None:
    """Note this process as one that should not outlive the run."""
    (Path(os.environ[LEFT]) / str(os.getpid())).touch()


def _fails(act: Callable[[], Any]) -> Callable[..., NoReturn]:
    """Does something that stays behind in the process, and breaks the law."""

    def call(honest: Any, *args: Any) -> NoReturn:
        act()
        raise ValueError("and then it fails")

    return call


def _then_honest(act: Callable[[], Any]) -> Callable[..., Any]:
    """Acts once in each process, and returns the honest result."""

    def call(honest: Any, *args: Any) -> Any:
        if (os.getpid(), act) not in _acted:  # once in a process is enough
            _acted.add((os.getpid(), act))
            act()
        return honest(*args)

    return call


def _sleep_for_ever() -> NoReturn:
    while True:
        time.sleep(600)


def _deaf() -> NoReturn:
    """Ignores every signal that can be."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGUSR1}:
        try:
            signal.signal(number, signal.SIG_IGN)
        except OSError:
            continue
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGHUP])
    _note()
    _sleep_for_ever()


def _leaves_a_daemon() -> None:
    """A grandchild in a session of its own, whose parent is gone."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            _deaf()
        os._exit(0)
    os.wait()


def _forks_for_ever() -> None:
    while True:
        if os.fork() == 0:
            _note()


def _descriptors() -> list[int]:
    """The open descriptors of this process, but for the first three."""
    return [n for n in map(int, os.listdir("/proc/self/fd")) if n > 2]


def _sends(data: bytes) -> Callable[[], None]:
    """Writes a message to every socket that is open."""

    def act() -> None:
        for number in _descriptors():
            try:
                with socket.socket(fileno=os.dup(number)) as channel:
                    channel.send(len(data).to_bytes(4, "big") + data)
            except OSError:
                continue

    return act


def _closes_all() -> None:
    os.closerange(3, 4096)


def _patches() -> None:
    """Breaks functions and settings that other laws need."""
    builtins.isinstance = lambda *_: True  # type: ignore[assignment]
    sys.path.clear()
    os.chdir("/")
    sys.setrecursionlimit(200)
    jax.tree_util.tree_flatten = None  # type: ignore[assignment]
    jax.config.update("jax_enable_x64", True)  # type: ignore[no-untyped-call]


def _starves() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
    threading.Thread(target=_sleep_for_ever, daemon=False).start()


class _Speechless(ValueError):
    """Its traceback cannot be shown, since its `repr` raises `SystemExit`."""

    def __repr__(self) -> str:
        raise SystemExit(0)


def _speechless(honest: Any, box: Any, *args: Any) -> NoReturn:
    raise _Speechless(_Speechless())


def _fills_memory() -> None:
    kept = []
    while True:
        kept.append(bytearray(1 << 40))


_PASSED = json.dumps([1, {"$report_type": "TestReport", "nodeid": "", "outcome": "passed"}])

CASES = (
    Case(
        "exits as if all were well",
        "test_removing_an_added_axis_restores_the_box",
        lambda *_: os._exit(0),
        "crashed",
    ),
    Case("aborts", "test_adding_a_removed_axis_restores_the_box", lambda *_: os.abort(), "crashed"),
    Case(
        "reads where nothing is",
        "test_an_added_axis_is_named_at_its_index",
        lambda *_: ctypes.string_at(0),
        "crashed",
    ),
    Case(
        "kills itself",
        "test_a_removed_axis_takes_its_name_along",
        lambda *_: os.kill(os.getpid(), signal.SIGKILL),
        "crashed",
    ),
    Case(
        "kills its group",
        "test_an_axis_beyond_the_rank_pads",
        lambda *_: os.killpg(0, signal.SIGKILL),
        "crashed",
    ),
    Case(
        "kills its keeper",
        "test_none_is_a_partition_name",
        lambda *_: (os.kill(os.getppid(), signal.SIGKILL), _deaf()),
        "crashed",
    ),
    Case(
        "stops its keeper",
        "test_an_axis_of_another_name_is_not_removed",
        lambda *_: (os.kill(os.getppid(), signal.SIGSTOP), os._exit(1)),
        "crashed",
    ),
    Case(
        "does not end",
        "test_a_negative_index_adds_the_axis_of_the_array",
        lambda *_: _deaf(),
        "timeout",
    ),
    Case("forks for ever", "test_copies_are_alike", lambda *_: _forks_for_ever(), "crashed"),
    Case("returns twice", "test_axes_commute_with_replacing", _then_honest(os.fork), "passed"),
    Case("leaves a daemon", "test_axes_touch_names_only", _then_honest(_leaves_a_daemon), "passed"),
    Case(
        "fills the memory",
        "test_replacing_keeps_all_but_the_value",
        lambda *_: _fills_memory(),
        "failed",
    ),
    Case(
        "sends no JSON",
        "test_replacing_leaves_the_box_alone",
        _then_honest(_sends(b"\x80\x04K\x01.")),
        "crashed",
    ),
    Case(
        "sends an answer of its own",
        "test_adding_to_a_tree_adds_to_each_box",
        _then_honest(_sends(_PASSED.encode())),
        "crashed",
    ),
    Case(
        "sends an answer of another form",
        "test_unbox_gives_the_values_in_their_places",
        _then_honest(_sends(b'{"a": 1}')),
        "crashed",
    ),
    Case(
        "closes all files",
        "test_axes_removed_in_reverse_order_restore_the_tree",
        _fails(_closes_all),
        "crashed",
    ),
    Case(
        "patches Python and JAX",
        "test_the_leaves_of_a_box_are_those_of_its_value",
        _fails(_patches),
        "crashed",
    ),
    Case(
        "limits files, leaves a thread",
        "test_adding_needs_a_partition_name[logical]",
        _fails(_starves),
        "failed",
    ),
    Case("cannot be shown", "test_axes_touch_names_only[logical]", _speechless, "failed"),
    Case(
        "clears the screen",
        "test_an_added_axis_is_named_at_its_index[logical]",
        _fails(lambda: print("\x1b[2J\ud800\r", "noise" * 100_000)),
        "failed",
    ),
    Case(
        "skips", "test_a_removed_axis_takes_its_name_along[logical]", lambda *_: _skip(), "failed"
    ),
    Case(
        "closes its output",
        "test_an_axis_beyond_the_rank_pads[logical]",
        _then_honest(lambda: os.close(1)),
        "passed",
    ),
    Case(
        "raises a group in a group, 2,000 deep",
        "test_unboxing_under_a_mesh_records_a_constraint",
        lambda *_: _raise_deep_group(),
        "failed",
    ),
    Case(
        "raises a message of 15 MB",
        "test_the_sharding_is_that_of_the_spec",
        lambda *_: _raise_long_message(),
        "failed",
    ),
    Case(
        "prints commands of GitHub",
        "test_updates_of_another_structure_are_refused[logical]",
        lambda *_: _give_commands(),
        "failed",
    ),
    Case(
        "deletes the temporary folder",
        "test_an_axis_of_another_name_is_not_removed[logical]",
        _then_honest(lambda: shutil.rmtree(tempfile.gettempdir())),
        "passed",
    ),
)


def _skip() -> NoReturn:
    import pytest

    pytest.skip("\x1b[31mnot here\ud800")


def _raise_deep_group() -> NoReturn:
    error: Exception = ValueError("at the bottom")
    for _ in range(2_000):
        error = ExceptionGroup("a level", [error])
    raise error


def _raise_long_message() -> NoReturn:
    raise ValueError("long " * 3_000_000)


def _give_commands() -> NoReturn:
    print("::error::from the implementation\n  ::set-env name=A::b\n##[error]again")
    raise ValueError("\n::error::in a message\n##[error]and again")


NAME = "hostile\n::error::in a name \x1b[31m" + "x" * 1_000

implementation = replace(hostile({case.law: case.act for case in CASES}), name=NAME)
