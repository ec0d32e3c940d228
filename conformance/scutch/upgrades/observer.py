"""Notes which lines of chosen files a process runs; `observing` loads it in every Python it starts.

It imports nothing of scutch: the processes may have another environment than this one.
"""

import importlib.machinery
import importlib.util
import json
import os
import sys
from types import CodeType, FrameType
from typing import Any

TOOL = 4
"""An id of `sys.monitoring` that coverage tools and profilers leave free."""


class Observer:
    """Appends each wanted line to a file of the process, when it runs for the first time.

    Args:
      wanted: Line numbers by absolute path.
      folder: Where the files are, named by the number of the process.
    """

    def __init__(self, wanted: dict[str, list[int]], folder: str) -> None:
        self.wanted = {path: set(lines) for path, lines in wanted.items()}
        self.folder = folder
        self.paths: dict[str, str] = {}
        self.seen: set[tuple[int, str, int]] = set()

    def path_of(self, code: CodeType) -> str:
        """The path of the wanted file that code is from; empty for any other file."""
        name = code.co_filename
        if name not in self.paths:
            path = os.path.realpath(name)
            self.paths[name] = path if path in self.wanted else ""
        return self.paths[name]

    def note(self, path: str, line: int) -> None:
        """Write a line down, once in each process: a fork has another number.

        Args:
          path: Of a wanted file.
          line: From 1.
        """
        key = os.getpid(), path, line
        if line in self.wanted[path] and key not in self.seen:
            self.seen.add(key)
            with open(os.path.join(self.folder, str(key[0])), "a", encoding="utf-8") as file:
                file.write(json.dumps([path, line]) + "\n")

    def on_line(self, code: CodeType, line: int) -> Any:
        """Note a line; `sys.monitoring` calls this when each line runs for the first time.

        Args:
          code: The code object that runs.
          line: From 1.
        """
        path = self.path_of(code)
        if path:
            self.note(path, line)
        return sys.monitoring.DISABLE  # type: ignore[attr-defined,unused-ignore]

    def on_event(self, frame: FrameType, event: str, _: Any) -> Any:
        """Note a line; before Python 3.12, `sys.settrace` calls this for each event of a frame.

        Args:
          frame: The frame that runs.
          event: Such as `line`; only `line` and `call` are noted.
        """
        path = self.path_of(frame.f_code)
        if not path:
            return None
        if event in ("line", "call"):
            self.note(path, frame.f_lineno)
        return self.on_event


def start(job: str) -> None:
    """Observe this process from now on, and run the `sitecustomize` that it would have had.

    Args:
      job: A file of JSON: `wanted` lines by path, and the `folder` for the files of seen lines.
    """
    with open(job, encoding="utf-8") as file:
        data = json.load(file)
    observer = Observer(data["wanted"], data["folder"])
    with open(os.path.join(data["folder"], str(os.getpid())), "a", encoding="utf-8"):
        pass  # says that this process is observed
    if sys.version_info >= (3, 12):
        sys.monitoring.use_tool_id(TOOL, "scutch upgrade")
        sys.monitoring.register_callback(TOOL, sys.monitoring.events.LINE, observer.on_line)
        sys.monitoring.set_events(TOOL, sys.monitoring.events.LINE)
    else:
        import threading

        sys.settrace(observer.on_event)
        threading.settrace(observer.on_event)
    _run_the_other(os.path.dirname(job))


def _run_the_other(own: str) -> None:
    """Run the `sitecustomize` that ours hides, if there is one."""
    elsewhere = [path for path in sys.path if os.path.realpath(path) != os.path.realpath(own)]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", elsewhere)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
