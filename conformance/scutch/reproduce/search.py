"""The search for a script that shows a fault: drafts are tried until one does.

A draft is right if it exits with 1 on the implementation and with 0 on the reference, which does
not have the fault. For each ending, the first draft holds only the events on which the failed
comparison depends. If it is not right, the next draft adds every event that may have changed a
value. If that draft is right, events are removed from it as long as it stays right.
"""

import traceback
from collections.abc import Iterator, Sequence

from scutch.implementation import Implementation
from scutch.reproduce.checking import Nursery
from scutch.reproduce.endings import Draft
from scutch.reproduce.events import Event, Literal, Ref
from scutch.reproduce.layout import prepared
from scutch.reproduce.names import Nameless, Names
from scutch.reproduce.needs import RAISED, Ending, possible_effects
from scutch.reproduce.tape import Tape

_PASSIVE = ("parameter", "display", "with")
_SHOWN = ("compare", "alike", "truth")
_DECISIONS = 40
_TRIED = 6
_GUARDS = 3


def search(
    tape: Tape, error: BaseException, implementation: Implementation, nursery: Nursery
) -> tuple[str, str]:
    """Find a script that fails on the implementation and not on the reference.

    Args:
      tape: The events of the law's run.
      error: The exception that the law raised.
      implementation: The one that the script is about.
      nursery: The process that runs the drafts.

    Returns:
      The script without its heading, and the output of its run on the implementation.

    Raises:
      Nameless: No draft is right; the message has the first four reasons, each once.
    """
    trials = Trials(tape, implementation, nursery)
    for ending in endings(tape, error):
        found = trials.run(ending, ())
        if found is None and (effects := trials.writable(ending)):
            found = trials.shortened(ending, effects)
        if found is not None:
            return found
    raise Nameless("; ".join(dict.fromkeys(trials.problems[:4])) or "nothing of it was noted")


def tried(source: str, implementation: Implementation, nursery: Nursery) -> tuple[str, str]:
    """A program that a person wrote, and the output of its run on the implementation.

    Args:
      source: The program, without a heading.
      implementation: The one that it is about.
      nursery: The process that runs it.

    Returns:
      As `search`.

    Raises:
      Nameless: It does not exit with 1, or does not exit with 0 on the reference.
    """
    source = prepared(source)
    own = nursery.run(source)
    if own.code != 1:
        raise Nameless(f"the program of the entry ended with {own.code}: {own.printed:.300}")
    if implementation.name != "reference":
        other = nursery.run(source, Names(implementation).aliases)
        if other.code != 0:
            raise Nameless(f"the program of the entry fails on the reference: {other.printed:.300}")
    return source, own.printed


def endings(tape: Tape, error: BaseException) -> Iterator[Ending]:
    """The ways in which a script may end, the likeliest first.

    Args:
      tape: The events of the law's run.
      error: The exception that the law raised.

    Yields:
      Endings: the event that raised `error`, alone, if there is one. Else the last call, if the law
      wanted it to be refused; then the last events that raised or gave an answer, the latest first;
      then other calls that returned, if the message of `error` says `refuse`.
    """
    held = tape.known.get(id(error))
    if held is not None and held[0] is error:
        yield Ending(held[1].event, "raises")
        return
    decisions = [e for e in reversed(tape.order) if e.tainted and e.kind not in _PASSIVE]
    asked = [e for e in decisions if e.error is None and (
        e.kind in _SHOWN or type(e.result) is bool)]  # fmt: skip
    returned = [e for e in decisions if e.kind in ("call", "method") and e not in asked
                and e.error is None]  # fmt: skip
    if traceback.extract_tb(error.__traceback__)[-1].name == "refused":
        yield from (Ending(each, "accepted") for each in decisions[:1] if each in returned)
    found = []
    for event in decisions[:_DECISIONS]:
        if isinstance(event.error, Exception):
            found.append(Ending(event, "raises"))
        elif (cause := raised_in(event)) is not None:
            found.append(Ending(cause, "raises"))
        elif event in asked:
            found.append(Ending(event, event.kind if event.kind in _SHOWN else "answer"))
    yield from found[:1]
    if found and found[0].event in asked:
        for guard in asked[1 : _GUARDS + 1]:
            yield Ending(found[0].event, found[0].mode, (guard,))
    yield from found[1:_TRIED]
    if "refuse" in str(error):
        yield from (Ending(each, "accepted") for each in returned[:_GUARDS])


def raised_in(event: Event) -> Event | None:
    """The event whose error an `is None` comparison checks; `None` for any other comparison."""
    match event.kind, event.name, event.operands:
        case "compare", "is" | "is not", (Ref(cause, path), Literal(None)) if path:
            return cause if isinstance(cause.error, Exception) and path[0] == RAISED else None
    return None


class Trials:
    """Drafts of one script, and why they were rejected."""

    def __init__(self, tape: Tape, implementation: Implementation, nursery: Nursery) -> None:
        """Start with no draft and no problem.

        Args:
          tape: The events of the law's run.
          implementation: The one that the script is about.
          nursery: The process that runs the drafts.
        """
        self.tape, self.implementation, self.nursery = tape, implementation, nursery
        self.problems: list[str] = []

    def run(self, ending: Ending, effects: Sequence[Event]) -> tuple[str, str] | None:
        """Write a draft and run it.

        Args:
          ending: The event that ends the draft, and how.
          effects: Events that the draft includes because they may change a value.

        Returns:
          The script and its output; `None` if the draft cannot be written or is not right.
        """
        try:
            draft = Draft(self.tape, self.implementation, ending, effects)
            source = draft.source()
        except RecursionError:
            self.problems.append("its values refer to each other in a circle")
            return None
        except Nameless as problem:
            self.problems.append(str(problem))
            return None
        own = self.nursery.run(source)
        if own.code != 1:
            self.problems.append(f"a draft ended with {own.code}: {own.printed:.300}")
            return None
        if self.implementation.name != "reference":
            other = self.nursery.run(source, draft.names.aliases)
            if other.code != 0:
                self.problems.append(f"a draft fails on the reference, too: {other.printed:.300}")
                return None
        return source, own.printed

    def writable(self, ending: Ending) -> list[Event]:
        """The events before the end that may have changed a value and that can be written."""
        found = []
        for effect in possible_effects(self.tape, ending.event):
            try:
                Draft(self.tape, self.implementation, ending, (effect,)).source()
            except (Nameless, RecursionError):
                continue
            found.append(effect)
        return found

    def shortened(self, ending: Ending, effects: list[Event]) -> tuple[str, str] | None:
        """A right draft with few effects.

        Args:
          ending: The event that ends the draft, and how.
          effects: All events that the draft may need.

        Returns:
          As `run`; `None` if the draft with all effects is not right.
        """
        found = self.run(ending, effects)
        size = len(effects)
        while size and found is not None:
            start = 0
            while start < len(effects):
                fewer = effects[:start] + effects[start + size :]
                shorter = self.run(ending, fewer) if fewer else None
                if shorter is None:
                    start += size
                else:
                    effects, found = fewer, shorter
            size //= 2
        return found
