"""Measure one side of a comparison in a process of its own.

    python -P -m scutch.models.elsewhere REQUEST ANSWER

Two versions of a model have modules of one name, and two releases of Flax cannot be in one process.
"""

import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

import jax

import scutch
from scutch.implementation import SetupError
from scutch.models.examined import Examined
from scutch.models.model import model_at
from scutch.models.sides import Request, Side, measure


def measure_elsewhere(where: str, request: Request, python: str | None = None) -> Side:
    """Measure a side in a process of its own, where no module of the first model is in the way.

    Args:
      where: `FILE.py:NAME` or `MODULE:NAME` of a `scutch.Model`.
      request: The mesh shapes, the parts and the seed to measure with.
      python: A Python with scutch and another Flax; this one where left out.

    Returns:
      The side.

    Raises:
      SetupError: The other process failed; the error is its own, or has its last line.
    """
    with tempfile.TemporaryDirectory() as folder:
        asked, answered = Path(folder, "request"), Path(folder, "answer")
        asked.write_bytes(scutch.__version__.encode() + b"\n" + pickle.dumps((where, request)))
        command = [python or sys.executable, "-P", "-m", "scutch.models.elsewhere"]
        platforms = jax.config.jax_platforms  # type: ignore[attr-defined]
        environment = {**os.environ, **({"JAX_PLATFORMS": platforms} if platforms else {})}
        try:
            done = subprocess.run(
                [*command, str(asked), str(answered)],
                stderr=subprocess.PIPE,
                text=True,
                check=False,
                env=environment,
            )
        except OSError as error:
            raise SetupError(f"--python {python}", f"{error}; expected a Python") from error
        if not answered.exists():
            last = done.stderr.strip().splitlines()[-1:] or ["it says nothing"]
            raise SetupError(
                f"{where} in {command[0]}",
                f"the process ended with {done.returncode}: {last[0]}; expected a Python with "
                f"scutch {scutch.__version__} and the packages of the model",
            )
        answer: Side | tuple[str, str] = pickle.loads(answered.read_bytes())
    if isinstance(answer, Side):
        return answer
    raise SetupError(*answer)


def main(asked: str, answered: str) -> None:
    """Measure the model of a request file, and write the side, or the error, to a file.

    Args:
      asked: The path of the request.
      answered: The path of the answer.
    """
    version, _, request = Path(asked).read_bytes().partition(b"\n")
    Path(answered).write_bytes(pickle.dumps(_answer(version.decode(), request)))


def _answer(version: str, asked: bytes) -> Side | tuple[str, str]:
    """The side, or the subject and the problem of a `SetupError`."""
    if version != scutch.__version__:
        return f"scutch {scutch.__version__} in {sys.executable}", f"expected scutch {version}"
    where, request = pickle.loads(asked)
    try:
        return measure(Examined(model_at(where), request.meshes), request, where)
    except SetupError as error:
        return error.subject, error.problem


if __name__ == "__main__":
    main(*sys.argv[1:])
