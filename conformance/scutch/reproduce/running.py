"""The lines that a call of a law runs, and the assertions that fail in it.

ran = Ran()
ran.call(lambda: law(box=box))
ran.error                    # the exception that the call raised
"""

import ast
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import scutch

SUITE = str(Path(scutch.__file__).parent)
"""How the names of the suite's files begin."""


@dataclass
class Ran:
    """What calls of a law ran.

    Args:
      steps: How often each line ran after which other line of its function, by the file of the
        suite; 0 is the begin and the end of the function.
      failed: The lines of assertions that failed, in their order, each with its file.
      error: The exception that the last call raised.
      left: The lines that such an exception left, each with its file.
    """

    steps: dict[str, Counter[tuple[int, int]]] = field(default_factory=dict)
    failed: list[tuple[str, int]] = field(default_factory=list)
    error: BaseException | None = None
    left: set[tuple[str, int]] = field(default_factory=set)

    def call(self, function: Callable[[], Any], inside: str = SUITE) -> None:
        """Call a function, and note the lines that run.

        Args:
          function: The call of a law, or a program.
          inside: How the names of the files begin whose lines count.
        """

        def entered(frame: Any, event: str, argument: Any) -> Any:
            file, before = frame.f_code.co_filename, 0

            def line(frame: Any, event: str, argument: Any) -> Any:
                nonlocal before
                if event == "exception":
                    if issubclass(argument[0], AssertionError) and argument[2].tb_next is None:
                        self.failed.append((file, frame.f_lineno))
                    return line
                now = frame.f_lineno if event == "line" else 0
                self.steps.setdefault(file, Counter())[before, now] += 1
                before = now
                return line

            return line if file.startswith(inside) else None

        before, self.error = sys.gettrace(), None
        sys.settrace(entered)
        try:
            function()
        except BaseException as error:
            self.error = error
            for frame, line in traceback.walk_tb(error.__traceback__):
                self.left.add((frame.f_code.co_filename, line))
        finally:
            sys.settrace(before)

    def ends(self) -> list[tuple[str, int] | None]:
        """Where a program may end.

        Returns:
          The file and line of each assertion that failed, the last first. `None` stands before them
          if the error that came out is not of an assertion of the suite.
        """
        frame = self.error.__traceback__ if self.error else None
        while frame is not None and frame.tb_next is not None:
            frame = frame.tb_next
        last = frame.tb_frame.f_code.co_filename if frame is not None else ""
        is_own = isinstance(self.error, AssertionError) and last.startswith(SUITE)
        others: list[tuple[str, int] | None] = [*dict.fromkeys(reversed(self.failed))]
        return others if is_own else [None, *others]

    def has(self, file: str, node: ast.AST) -> bool:
        """Whether a line of a node ran.

        Args:
          file: The file of the node.
          node: With the lines of the file.
        """
        own = lines_of(node)
        return any(now in own for _, now in self.steps.get(file, ()))

    def taken(self, file: str, node: ast.If) -> tuple[bool, bool]:
        """Whether the test of an `if` was ever true, and whether it was ever false.

        Args:
          file: The file of the node.
          node: With the lines of the file.
        """
        test, body = lines_of(node.test), lines_of(node.body[0])
        after = {now for before, now in self.steps.get(file, ()) if before in test}
        return any(n in body for n in after), any(n not in body and n not in test for n in after)


def lines_of(node: Any) -> range:
    """The lines of a statement or expression, with those of its decorators."""
    first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
    return range(first, node.end_lineno + 1)
