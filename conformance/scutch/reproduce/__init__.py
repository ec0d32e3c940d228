"""Scripts that show a fault without this suite: `script(requirement, call, implementation)`.

    text = script("BOX-11", "test_a_negative_index_adds_...(box=Box(...), back=1, ...)", "flax")

gives a Python program of about 30 lines that imports the judged library, JAX and NumPy, and ends
with exit code 1 while the fault is there, 0 when it is gone, and 2 for any other error. `issue`
frames it as the text of an upstream issue. Where none can be written `NotReproducible` says why.

There is no template for a law. The law is run once more on its smallest input, and the lines of the
suite that run are noted (`running`). Copied without the others (`slicing`, `pruning`), and with a
driver that builds the input (`programs`), they are a program that needs no suite. Then it is made
shorter (`reducing`, `steps`, `displays`): a change is kept only if the program still fails when it
is run, and does not fail when the reference replaces the library (`checking`). A known failure may
have a program that a person wrote instead, which is tried likewise.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from scutch import catalogue
from scutch.implementation import SetupError
from scutch.judging import known, suite
from scutch.judging.causes import Cause
from scutch.reproduce import layout

SECONDS = 600


class NotReproducible(Exception):
    """No stand-alone script shows this failure.

    Wrong, as the fault is not there in the installed release:

        script("BOX-11", call, "reference")

    Right:

        script("BOX-11", call, "flax")

    Attributes:
      requirement: The identifier of the requirement.
      problem: Why there is no script.
    """

    def __init__(self, requirement: str, problem: str) -> None:
        """Name the requirement, and say why it has no script."""
        self.requirement, self.problem = requirement, problem
        super().__init__(f"no script for {requirement}: {problem}")


def script(
    requirement: str, call: str, implementation: str = "flax", *, python: str = sys.executable
) -> str:
    """A program that shows that an implementation breaks a requirement.

    It is run before it is returned, in a process of its own, and exits with 1.

    Args:
      requirement: Its identifier, such as `BOX-11`.
      call: The call of a law that breaks it, as reports and known failures show it.
      implementation: How it is found, as `scutch.loading.load` takes it.
      python: The interpreter of the environment where the implementation is installed; this suite
        must be importable there.

    Returns:
      The text of the program, which ends with a newline.

    Raises:
      NotReproducible: There is no such program.
      SetupError: There is no such requirement.
    """
    requirement = catalogue.current(requirement)
    row = catalogue.by_id().get(requirement)
    if row is None:
        raise SetupError(f"requirement {requirement!r}", "unknown; `scutch list` shows all")
    law = suite.named(call.partition("(")[0])
    flags = ["-O"] if law is not None and suite.UNASSERTED in law.fixtures else []
    entry = next(
        (
            e
            for e in known.shipped()
            if e.implementation == implementation
            and (e.requirement, e.witness) == (requirement, call)
        ),
        None,
    )
    request = {
        "requirement": requirement,
        "call": call,
        "where": implementation,
        "program": entry.script if entry else None,
    }
    try:
        done = subprocess.run(
            [python, *flags, "-m", "scutch.reproduce.process"],
            input=json.dumps(request),
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise NotReproducible(requirement, f"it took more than {SECONDS} s") from None
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or [f"it ended with {done.returncode}"]
        raise NotReproducible(requirement, last[0])
    reply = json.loads(done.stdout)
    if "problem" in reply:
        raise NotReproducible(requirement, reply["problem"])
    cause = entry.cause if entry else None
    text: str = layout.heading(row, reply["versions"], reply["told"], cause) + reply["script"]
    _verify(requirement, text, python, implementation)
    return text


def _verify(requirement: str, text: str, python: str, implementation: str) -> None:
    """Run a script in a new process, which finds modules beside the adapter, as a run does.

    Raises:
      NotReproducible: It does not end with 1.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "reproduce.py")
        file.write_text(text, "utf-8")
        adapter = Path(implementation)
        beside = str(adapter.parent.resolve()) if adapter.is_file() else ""
        path = os.pathsep.join(filter(None, [beside, os.environ.get("PYTHONPATH")]))
        done = subprocess.run(
            [python, str(file)],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            env={**os.environ, "PYTHONPATH": path},
        )
    if done.returncode != 1:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise NotReproducible(
            requirement, f"the script ends with {done.returncode}, expected 1: {' '.join(last)}"
        )


def issue(requirement: str, text: str, cause: Cause | None = None) -> str:
    """A script as the text of an upstream issue, in Markdown.

    Args:
      requirement: The identifier of the requirement.
      text: A program with its heading, as `script` returns it.
      cause: Its fault becomes the title, and its effect on users and its place come first.

    Returns:
      Markdown with a title, the requirement's text and its source, and the program.

    Raises:
      SetupError: There is no such requirement.
    """
    row = catalogue.by_id().get(catalogue.current(requirement))
    if row is None:
        raise SetupError(f"requirement {requirement!r}", "unknown; `scutch list` shows all")
    docstring, _, program = text.removeprefix('"""').partition('\n"""\n')
    versions, *told = docstring.rpartition("\n\n")[2].splitlines()
    sources = [f"{each.title}, <{each.address}>" for each in row.documents]
    quote = [f"> {row.quote}", "", *sources, ""] if row.quote else []
    loss = [row.loss, ""] if row.loss else []
    return "\n".join(
        [
            f"# {cause.fault if cause else row.title}",
            "",
            *([cause.effect, "", f"Where: `{cause.at}`", ""] if cause else []),
            row.text,
            "",
            *quote,
            *loss,
            "## To reproduce",
            "",
            "```python",
            program.strip(),
            "```",
            "",
            "It exits with 1 while the fault is there, and with 0 when it is gone.",
            "",
            "## What came",
            "",
            "```text",
            *told,
            "```",
            "",
            "## Versions",
            "",
            versions,
            "",
        ]
    )
