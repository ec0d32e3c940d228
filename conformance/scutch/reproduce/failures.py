"""Which call of a law a script is to be about: `failure("BOX-11", "flax")`.

A call is taken as it is. For an identifier it is the witness of a known failure of the installed
release, and else the smallest call that a short search finds.
"""

import contextlib

from scutch import catalogue
from scutch.implementation import Implementation, SetupError
from scutch.judging import known, suite
from scutch.judging.attempt import Setting
from scutch.judging.calls import NotACall, parse_call
from scutch.judging.profiles import PROFILES, prepare_devices
from scutch.judging.trying import try_law
from scutch.judging.unasserted import Unasserted
from scutch.loading import load


def failure(wanted: str, where: str) -> tuple[str, str]:
    """The requirement and the call that are meant.

    Args:
      wanted: The identifier of a requirement, or a call of a law.
      where: How the implementation is found, as `loading.load` takes it.

    Raises:
      SetupError: There is no such requirement or law, or nothing breaks it.
    """
    if "(" in wanted:
        return _law(wanted), wanted
    wanted = catalogue.current(wanted)
    if wanted not in catalogue.by_id():
        raise SetupError(f"no requirement {wanted!r}", "`scutch list` shows all")
    prepare_devices()
    implementation = load(where)
    for entry in known.of(implementation):
        if entry.requirement == wanted:
            return wanted, entry.witness
    return wanted, _searched(wanted, implementation, where)


def _law(call: str) -> str:
    """The requirement that a call of a law tries."""
    try:
        name, _ = parse_call(call)
    except NotACall as error:
        raise SetupError(f"the call {call!r}", str(error)) from None
    law = suite.named(name)
    if law is None:
        raise SetupError(f"no law {name!r}", "`scutch explain ID` shows the laws of a requirement")
    return law.requirement


def _searched(requirement: str, implementation: Implementation, where: str) -> str:
    """The smallest call that a search finds to break a requirement."""
    asked = f"{requirement} of {implementation.name} {implementation.version}"
    laws = [law for law in suite.tried_by([requirement]) if not law.in_job]
    if not laws:
        raise SetupError(asked, "only a job of several processes tries it; expected another")
    with contextlib.closing(Unasserted(where)) as unasserted:
        for law in laws:
            trial = try_law(
                law,
                implementation,
                examples=PROFILES["ci"].examples,
                setting=Setting(unasserted=unasserted),
            )
            if trial.counterexample is not None and trial.counterexample.input:
                return trial.counterexample.input
    raise SetupError(
        asked,
        "no input was found that breaks it; expected a requirement that fails, or a call of a law",
    )
