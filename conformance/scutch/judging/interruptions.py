"""One answer to the signals that ask the judge to end: Ctrl-C (SIGINT), SIGTERM and SIGHUP.

The first signal raises `Interrupted`, so that the judge closes its files and reports the laws that
it tried. Further signals change nothing: the ending takes seconds, and deletes temporary folders.
SIGKILL ends the judge at once; its keepers then end the processes that it has started.

    with heeded(SIGNALS):
        try_all_laws()
"""

import contextlib
import signal
import threading
from collections.abc import Iterable, Iterator
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
FROM_OTHERS = (signal.SIGTERM, signal.SIGHUP)
"""The signals that do not come from the keyboard, where debuggers take Ctrl-C for themselves."""


class Interrupted(KeyboardInterrupt):
    """A signal has asked the judge to end; pytest prints the text of it.

    Wrong, since it is no `Exception`, and the user waits for an end that does not come:

        except BaseException:
            continue

    Right:

        except KeyboardInterrupt:
            raise
    """

    __module__, __qualname__ = "builtins", "scutch"  # which pytest prints before the text


@contextlib.contextmanager
def heeded(numbers: Iterable[signal.Signals]) -> Iterator[None]:
    """Raise `Interrupted` at the first of some signals, until the block ends.

    Python hands signals to its main thread, so nothing changes in another one. A signal that is
    ignored stays so: `nohup` has the judge ignore SIGHUP.

    Args:
      numbers: The signals.
    """
    before = {number: signal.getsignal(number) for number in numbers}
    taken = [number for number, handler in before.items() if handler is not signal.SIG_IGN]
    if threading.current_thread() is not threading.main_thread():
        taken = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        for each in taken:
            signal.signal(each, lambda *_: None)  # child processes would inherit SIG_IGN
        name = signal.Signals(number).name
        raise Interrupted(f"interrupted by {name}; what was not tried has no verdict")

    for number in taken:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, before[number])
