"""The trials of a run, kept in a file from which a later run goes on.

The first line has the implementation and the settings of the run; each further line is one trial,
written when the law has been tried. So whatever ends a run, a later run need not try these laws
again. It tries laws again that crashed or timed out: the event that ended the run may have ended
them.

    run, progress = resume(Path("night.trials"), run)
    progress.keep(trial)
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import jax

import scutch
from scutch.implementation import SetupError
from scutch.judging.run import Run
from scutch.judging.trials import Trial

KEPT = ("passed", "failed", "skipped")


@dataclass(frozen=True)
class Progress:
    """The file of one run.

    Args:
      path: Where it is; its folder exists.
      trials: The trials in it, from earlier parts of the run.
    """

    path: Path
    trials: tuple[Trial, ...]

    def keep(self, trial: Trial) -> None:
        """Add a trial, in one write."""
        with self.path.open("ab", buffering=0) as file:
            file.write(trial.to_data().encode() + b"\n")


def seed_in(path: Path) -> int | None:
    """The seed of the run in the file; None where there is no such file."""
    lines = _lines(path)
    return int(str(_header(path, lines)["seed"])) if lines else None


def resume(path: Path, run: Run) -> tuple[Run, Progress]:
    """The run without the laws that were tried, and the file, which is begun where it is missing.

    Args:
      path: Of the file; its folder exists.
      run: The run, with its implementation and its settings.

    Raises:
      SetupError: The file is of a run that judged something else, or in another way.
    """  # noqa: DOC501
    lines, wanted = _lines(path), _identity(run)
    found = _header(path, lines) if lines else wanted
    for name, value in wanted.items():
        if found.get(name) != value:
            raise SetupError(
                f"--resume {path}",
                f"its run had {name} {found.get(name)!r}, and this one has {value!r}; "
                "expected a file of the same run, or none",
            )
    try:
        tried = {one.test: one for one in map(Trial.from_data, lines[1:]) if one.outcome in KEPT}
    except (ValueError, TypeError, KeyError, AttributeError):
        raise _no_progress(path) from None
    # Written anew: without a line that was cut off, and without trials that are to be repeated.
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    kept = [json.dumps(wanted), *(one.to_data() for one in tried.values())]
    try:
        draft.write_text("".join(f"{line}\n" for line in kept), encoding="utf-8")
        os.replace(draft, path)
    except OSError as error:
        raise SetupError(f"--resume {path}", f"it cannot be written: {error.strerror}") from None
    return replace(run, tried=tuple(tried)), Progress(path, tuple(tried.values()))


def _no_progress(path: Path) -> SetupError:
    return SetupError(
        f"--resume {path}",
        "it is no file of a run; expected one that --resume has written",
    )


def _header(path: Path, lines: Sequence[str]) -> dict[str, object]:
    """The first line of the file: the implementation and the settings of its run."""
    try:
        found = json.loads(lines[0])
    except ValueError:
        raise _no_progress(path) from None
    if not isinstance(found, dict) or type(found.get("seed")) is not int:
        raise _no_progress(path)
    return found


def _lines(path: Path) -> Sequence[str]:
    """The lines of the file that were written to their end."""
    try:
        text = path.read_text("utf-8") if path.exists() else ""
    except (OSError, UnicodeDecodeError):
        raise _no_progress(path) from None
    return text.rpartition("\n")[0].splitlines()


def _identity(run: Run) -> dict[str, object]:
    return {
        "suite": scutch.__version__,
        "jax": jax.__version__,
        "implementation": f"{run.name} {run.version} ({run.where})",
        "code": _fingerprint(run),
        "profile": run.profile,
        "examples": run.examples,
        "chosen": run.chosen,
        "seed": run.seed,
        "shard": run.shard,
        "known": [[entry.requirement, entry.witness, *entry.errors] for entry in run.known],
    }


def _fingerprint(run: Run) -> str:
    """The hash, in part, of the code that is judged: edited code is another subject.

    It covers the packages that the import of the implementation has imported. Where its adapter is
    a file, it also covers the modules and packages beside it, which a law may be the first to
    import.
    """
    found = hashlib.sha256(run.code.encode())
    where = run.where if run.where.endswith(".py") else run.where.rpartition(":")[0]
    if where.endswith(".py"):
        for file in _modules_in(Path(where).resolve().parent):
            with contextlib.suppress(OSError):  # a file that cannot be read cannot be imported
                found.update(f"{file} {file.stat().st_size}\n".encode())
                found.update(file.read_bytes())
    return found.hexdigest()[:16]


def _modules_in(folder: Path) -> Iterator[Path]:
    """The Python files of a folder, and of the packages in it; nothing of other folders."""
    for each in sorted(folder.iterdir()):
        if each.suffix == ".py" and each.is_file():
            yield each
        elif (each / "__init__.py").is_file():
            yield from _modules_in(each)
