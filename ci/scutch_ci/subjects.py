"""Implementations that faults are planted in, and the forks that try laws on them.

A *mutant* is an implementation with one fault planted in it (`faults`). Nothing that is installed
is changed: a mutant is a fork of one warm process that has the laws and not yet the implementation;
the fork imports it with the text of one file replaced. The same fork without a fault tells which
functions of the implementation each law calls.

    runner = Runner(judging(Subject.of("flax"), None))
    claims, called = imported(subject, runner)
    outcome, seconds, called, reason, inputs = runner.ask(["test_a_box_is_a_pytree", 10], 60)
"""

import contextlib
import functools
import importlib.machinery
import importlib.metadata
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from scutch.judging import known, suite
from scutch.judging.changed import calls_noted
from scutch.judging.isolation import Runner
from scutch.judging.trying import try_law
from scutch.loading import load

from scutch_ci.conditions import CALLS
from scutch_ci.faults import Fault

PACKAGES = {"reference": "scutch_reference", "flax": "flax"}
FILES = {
    "reference": ("**/*.py",),
    "flax": (
        "core/axes_scan.py",
        "core/lift.py",
        "core/meta.py",
        "core/scope.py",
        "core/spmd.py",
        "linen/module.py",
        "linen/partitioning.py",
        "linen/spmd.py",
        "linen/transforms.py",
        "nnx/bridge/*.py",
        "nnx/extract.py",
        "nnx/filterlib.py",
        "nnx/graphlib.py",
        "nnx/module.py",
        "nnx/pytreelib.py",
        "nnx/rnglib.py",
        "nnx/spmd.py",
        "nnx/statelib.py",
        "nnx/training/optimizer.py",
        "nnx/transforms/*.py",
        "nnx/variablelib.py",
        "training/train_state.py",
    ),
}
"""Where faults are planted: in the files of the contract's areas."""
CACHED = type(functools.cache(len))
"""The class of a function under `functools.cache` or `functools.lru_cache`."""
MAKING = ("scutch.engine", "scutch.inputs", "scutch.lawkit")
"""Packages of the judge that make classes and values of an implementation, and keep them."""


@dataclass(frozen=True)
class Subject:
    """The implementation that faults are planted in.

    Args:
      where: How it is found, as `loading.load` takes it.
      package: The name of the Python package that holds it.
      root: Its folder.
    """

    where: str
    package: str
    root: Path

    @classmethod
    def of(cls, where: str) -> "Subject":
        """The subject of one of the names in `PACKAGES`."""
        spec = importlib.util.find_spec(PACKAGES[where])
        if spec is None or spec.origin is None:
            raise SystemExit(f"ci/mutants: {where} is not installed")
        return cls(where, PACKAGES[where], Path(spec.origin).parent)

    @property
    def version(self) -> str:
        """The release of the implementation, which need not be imported; empty if it has none."""
        try:
            return importlib.metadata.version(self.package)
        except importlib.metadata.PackageNotFoundError:
            return ""

    @property
    def sources(self) -> Mapping[str, str]:
        """The text of each file that faults are planted in, by its path."""
        return _sources(self.root, FILES[self.where])

    def ways(self, law: suite.Law) -> tuple[str, ...]:
        """The ways in which this release is known to break a law; none if it holds."""
        return known.expected(_expected(self), law.requirement, law.name).ways

    def module(self, file: str) -> str:
        """The name of the module that a file holds."""
        return ".".join([self.package, *Path(file).with_suffix("").parts]).removesuffix(".__init__")

    def place_of(self, code: CodeType) -> str:
        """A function of the package as `file:scope`; an empty text for code of other packages."""
        folder = f"{self.root}{os.sep}"
        if not code.co_filename.startswith(folder):
            return ""
        return (
            f"{code.co_filename.removeprefix(folder)}:{code.co_qualname.replace('.<locals>', '')}"
        )


@functools.cache
def _sources(root: Path, patterns: Sequence[str]) -> Mapping[str, str]:
    found = sorted({file for pattern in patterns for file in root.glob(pattern)})
    return {str(file.relative_to(root)): file.read_text("utf-8") for file in found}


@functools.cache
def _expected(subject: Subject) -> tuple[known.Known, ...]:
    return tuple(e for e in known.shipped() if e.applies(subject.where, subject.version))


class Planted(importlib.machinery.SourceFileLoader):
    """Imports one module of a package from another text than its file has."""

    def __init__(self, name: str, file: Path, text: str) -> None:
        """Keep the text; `sys.meta_path` takes the importer."""
        super().__init__(name, str(file))
        self.text = text

    def find_spec(self, fullname: str, path: Any, target: ModuleType | None = None) -> Any:
        """The module that has the fault is this importer's; all others are not."""
        if fullname != self.name:
            return None
        return importlib.util.spec_from_file_location(fullname, self.path, loader=self)

    def get_code(self, fullname: str) -> CodeType:
        """The code of the text with the fault; never the compiled code of the file on disk."""
        return compile(self.text, self.path, "exec", dont_inherit=True)


def judging(subject: Subject, fault: Fault | None) -> Callable[[Any], Any]:
    """The answers of a fork that judges one mutant.

    The request `null` imports the implementation, and is answered with its claims and the functions
    that the import called; `[law, inputs]` tries a law on it. Inputs that break a law as it is
    known to break are passed over, so that it convicts by the others. The last item of the answer
    says whether the fault was active so far.

    Args:
      subject: The implementation.
      fault: The fault that is planted first; None for the implementation as it is.
    """
    by_name = {law.name: law for law in suite.laws()}

    def noting() -> contextlib.AbstractContextManager[set[str]]:
        return calls_noted(subject.place_of) if fault is None else contextlib.nullcontext(set())

    def answer(request: Any) -> Any:
        if request is None:
            if fault is not None:
                text = fault.planted_in(subject.sources[fault.file])
                place = subject.module(fault.file), subject.root / fault.file
                sys.meta_path.insert(0, Planted(*place, text))
            try:
                with noting() as called:
                    claims = load(subject.where).claims
                return [list(claims), sorted(called)]
            except BaseException as error:
                return f"{type(error).__name__}: {error}"
        name, examples = request
        law = by_name[name]
        if fault is None:
            forget([law.function.__module__, *modules_of(subject.package, *MAKING)])
        with noting() as called:
            trial = try_law(
                law,
                load(subject.where),
                examples=examples,
                known=known.Expected(ways=subject.ways(law)),
                shrink=False,
            )
        told = trial.counterexample.input if trial.counterexample else ""
        outcome = "known" if trial.broke else trial.outcome
        reason = f"{told}: {trial.reason}"
        active = fault is None or not fault.condition or CALLS[True] > 0
        return [outcome, trial.seconds, sorted(called), reason, trial.examples + 1, active]

    return answer


def modules_of(*packages: str) -> list[str]:
    """The names of the modules of some packages that are imported."""
    starts = tuple(f"{package}." for package in packages)
    return [name for name in sys.modules if f"{name}.".startswith(starts)]


def forget(modules: Sequence[str]) -> None:
    """Empty the caches of functions in modules: they hold values made for other laws."""
    for name in modules:
        for each in list(vars(sys.modules[name]).values()):
            if isinstance(each, CACHED):
                each.cache_clear()


def imported(subject: Subject, runner: Runner) -> Any:
    """The claims of an implementation, and the functions of it that its import calls."""
    answer = runner.ask(None, 300)
    if not isinstance(answer, list):
        raise SystemExit(f"ci/mutants: {subject.where} cannot be imported: {answer}")
    return answer
