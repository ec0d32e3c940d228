"""The command `ci/mutants`: plant faults in an implementation, and say which of them the laws find.

A *mutant* is an implementation with one fault planted in it (`faults`). Nothing that is installed
is changed: a mutant is a fork of one warm process that has the laws and not yet the implementation;
the fork imports it with the text of one file replaced.

First the laws are tried on the implementation as it is. That tells which functions each of them
calls, so which laws can see a fault, and how long each takes. A law that fails there, or that is
known to fail, convicts no mutant. Then the laws that can see a fault are tried on its mutant, quick
and special ones first, until one *fails*: on few inputs, and then, if none has failed, on as many
as a run of the profile `ci` draws. A fault comes to one of these:

    found      a law failed
    survived   every law that sees it passed, or none sees it
    crashed, timeout    the process ended, or went on for ever, while it tried a law
    broken     the mutant cannot be imported

Those that ci/mutants.toml lists as equivalent, with the reason why nobody could tell, are not
planted, and none is in a function that no law calls: `--unseen` names these. The score is what was
found of what was found or survived. Each result is a line of a file, so that the same command goes
on where it was interrupted.
"""

import argparse
import functools
import hashlib
import importlib.machinery
import importlib.metadata
import importlib.util
import json
import multiprocessing
import random
import re
import sys
import threading
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from fnmatch import fnmatch
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

import jax
from rich.progress import Progress
from scutch import catalogue
from scutch.implementation import load
from scutch.judging import known, profiles, suite
from scutch.judging.isolation import Lost, Runner
from scutch.judging.profiles import FOLDER_OF_COMPILED, KEEP_ALL
from scutch.judging.trying import try_law
from scutch.report.text import publish

from scutch_ci import conformance
from scutch_ci.checkout import ROOT, processors
from scutch_ci.faults import Fault, faults_in

OUTPUT = ROOT / "build" / "mutants"
LISTED = ROOT / "ci" / "mutants.toml"
FEW = 10
"""Inputs for each law at first; most faults are found by these."""

PACKAGES = {"reference": "scutch_reference", "flax": "flax"}
FILES = {
    "reference": ("**/*.py",),
    "flax": (
        "core/axes_scan.py", "core/lift.py", "core/meta.py", "core/scope.py", "core/spmd.py",
        "linen/module.py", "linen/partitioning.py", "linen/spmd.py", "linen/transforms.py",
        "nnx/bridge/*.py", "nnx/extract.py", "nnx/filterlib.py", "nnx/graphlib.py",
        "nnx/module.py", "nnx/pytreelib.py", "nnx/rnglib.py", "nnx/spmd.py", "nnx/statelib.py",
        "nnx/training/optimizer.py", "nnx/transforms/*.py", "nnx/variablelib.py",
        "training/train_state.py",
    ),
}  # fmt: skip
"""Where faults are planted: in the files of the contract's areas. Both implementations do more in
them than the contract asks for, so only functions that some law calls get any."""


CACHED = type(functools.cache(len))
"""What `functools.cache` and `functools.lru_cache` make of a function."""
MAKING = ("scutch.inputs", "scutch.lawkit")
"""Packages of the judge that make classes and values of an implementation, and keep them."""


@dataclass(frozen=True)
class Sight:
    """What a law did on the implementation as it is.

    Args:
      outcome: Of its trial.
      seconds: How long it took, on few inputs.
      functions: Those of the package that it called, as `file:scope`.
    """

    outcome: str
    seconds: float
    functions: tuple[str, ...]


@dataclass(frozen=True)
class Result:
    """What a fault came to.

    Args:
      fault: Its name.
      file: Where it was planted.
      outcome: `found`, `survived`, `crashed`, `timeout` or `broken`.
      law: The one that failed, or in which the process ended.
      reason: How it failed.
      laws: How many laws can see the fault.
      seconds: How long it took.
      diff: The change, as a unified diff.
    """

    fault: str
    file: str
    outcome: str
    law: str
    reason: str
    laws: int
    seconds: float
    diff: str


@dataclass(frozen=True)
class Subject:
    """The implementation that faults are planted in.

    Args:
      where: How it is found, as `implementation.load` takes it.
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

    def module(self, file: str) -> str:
        """The name of the module that a file holds."""
        return ".".join([self.package, *Path(file).with_suffix("").parts]).removesuffix(".__init__")


@functools.cache
def _sources(root: Path, patterns: Sequence[str]) -> Mapping[str, str]:
    found = sorted({file for pattern in patterns for file in root.glob(pattern)})
    return {str(file.relative_to(root)): file.read_text("utf-8") for file in found}


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
        """The code of the text with the fault; never what was compiled of the file before."""
        return compile(self.text, self.path, "exec", dont_inherit=True)


# ---------------------------------------------------------------- in the fork


def judging(subject: Subject, fault: Fault | None) -> Callable[[Any], Any]:
    """What a fork answers: `null` imports the implementation and tells its claims and the functions
    that this called, `[law, inputs]` tries a law on it.

    Args:
      subject: The implementation.
      fault: What is planted in it first; None for the implementation as it is.
    """
    by_name = {law.name: law for law in suite.laws()}

    def answer(request: Any) -> Any:
        called: set[str] = set()
        if request is None:
            if fault is None:
                trace(str(subject.root), called)
            else:
                text = fault.planted_in(subject.sources[fault.file])
                place = subject.module(fault.file), subject.root / fault.file
                sys.meta_path.insert(0, Planted(*place, text))
            try:
                return [list(load(subject.where).claims), sorted(called)]
            except BaseException as error:
                return f"{type(error).__name__}: {error}"
            finally:
                sys.settrace(None)
        name, examples = request
        if fault is None:
            forget([by_name[name].function.__module__, *modules_of(subject.package, *MAKING)])
            trace(str(subject.root), called)
        try:
            trial = try_law(by_name[name], load(subject.where), examples=examples, shrink=False)
        finally:
            sys.settrace(None)
        told = trial.counterexample.input if trial.counterexample else ""
        return [trial.outcome, trial.seconds, sorted(called), f"{told}: {trial.reason}"]

    return answer


def modules_of(*packages: str) -> list[str]:
    """The names of the modules of some packages that are imported."""
    starts = tuple(f"{package}." for package in packages)
    return [name for name in sys.modules if f"{name}.".startswith(starts)]


def forget(modules: Sequence[str]) -> None:
    """Have modules compute again what they have computed for other laws, which see it too."""
    for name in modules:
        for each in list(vars(sys.modules[name]).values()):
            if isinstance(each, CACHED):
                each.cache_clear()


def trace(folder: str, called: set[str]) -> None:
    """Note every function in a folder of Python files that is called, as `file:scope`."""
    notes: dict[CodeType, bool] = {}

    def call(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if code not in notes:
            notes[code] = code.co_filename.startswith(folder)
            if notes[code]:
                scope = code.co_qualname.replace(".<locals>", "")
                called.add(f"{code.co_filename[len(folder) + 1 :]}:{scope}")

    threading.settrace(call)
    sys.settrace(call)


# ---------------------------------------------------------------- what laws see


def sights(subject: Subject, jobs: int) -> dict[str, Sight]:
    """What every law does on the implementation as it is.

    Kept until a file of the implementation changes, and for each law until its module does.
    """
    file = OUTPUT / f"{subject.where}-sights.json"
    kept = json.loads(file.read_text("utf-8")) if file.exists() else {}
    wanted = {name: digest(text, *subject.sources.values()) for name, text in texts_of_laws()}
    kept = {name: each for name, each in kept.items() if each["digest"] == wanted.get(name)}
    left = [name for name in wanted if name not in kept]
    parts = [(subject, left[first : first + 16]) for first in range(0, len(left), 16)]
    with multiprocessing.get_context("fork").Pool(jobs) as pool, Progress() as progress:
        task = progress.add_task(f"laws on {subject.where}", total=len(left))
        for part in pool.imap_unordered(sights_of, parts):
            for name, sight in part.items():
                kept[name] = {"digest": wanted[name], "sight": list(asdict(sight).values())}
            publish(json.dumps(kept), file)
            progress.advance(task, len(part))
    return {name: Sight(*each["sight"]) for name, each in kept.items()}


def digest(*texts: str) -> str:
    """Other texts have another one."""
    return hashlib.sha256("\0".join([jax.__version__, *texts]).encode()).hexdigest()[:16]


def texts_of_laws() -> Iterator[tuple[str, str]]:
    """The laws that are tried in one process, and only in it: names, and texts of their modules."""
    for law in suite.laws():
        alone = not law.in_job and suite.UNASSERTED not in law.fixtures
        if alone and law.requirement in catalogue.by_id():
            module = sys.modules[law.function.__module__]
            yield law.name, _text(Path(str(module.__file__)))


@functools.cache
def _text(file: Path) -> str:
    return file.read_text("utf-8")


def sights_of(part: tuple[Subject, Sequence[str]]) -> dict[str, Sight]:
    """What some laws do on the implementation as it is; given as `(subject, names)`."""
    subject, names = part
    runner = Runner(judging(subject, None))
    claims, _ = imported(subject, runner)
    found = {}
    for law in suite.laws():
        if law.name not in names:
            continue
        if not set(catalogue.by_id()[law.requirement].capabilities) <= set(claims):
            found[law.name] = Sight("unclaimed", 0.0, ())
            continue
        if runner.pid is None:
            runner.ask(None, 300)
        answer = runner.ask([law.name, FEW], 300)
        found[law.name] = (
            Sight(answer.outcome, 300.0, ()) if isinstance(answer, Lost)
            else Sight(answer[0], answer[1], tuple(answer[2]))
        )  # fmt: skip
    runner.close()
    return found


def imported(subject: Subject, runner: Runner) -> Any:
    """What an implementation claims, and the functions of it that its import calls."""
    answer = runner.ask(None, 300)
    if not isinstance(answer, list):
        raise SystemExit(f"ci/mutants: {subject.where} cannot be imported: {answer}")
    return answer


def called_by_import(subject: Subject) -> frozenset[str]:
    """The functions, as `file:scope`, that run while the implementation is imported.

    What they make, such as a registered class, is used by laws that do not call them.
    """
    runner = Runner(judging(subject, None))
    _, functions = imported(subject, runner)
    runner.close()
    return frozenset(functions)


def convicting(subject: Subject, seen: Mapping[str, Sight]) -> dict[str, Sight]:
    """The laws that can convict: they pass on the implementation as it is, and always should.

    What is known of its other releases says nothing.
    """
    expected = {
        each.test for each in known.shipped() if each.applies(subject.where, subject.version)
    }
    return {
        name: sight for name, sight in seen.items()
        if sight.outcome in ("passed", "untested") and name not in expected
    }  # fmt: skip


def seeing(fault: Fault, laws: Mapping[str, Sight], by_import: Collection[str] = ()) -> list[str]:
    """The laws that call the function of a fault, or any of its class or its file if it is in none.

    Those come first that are quick and call little else: they are about that function. If the
    import calls it, the laws that call others of its file follow.

    Args:
      fault: The fault.
      laws: What each law did on the implementation as it is.
      by_import: The functions that run while the implementation is imported.
    """
    runs_early = any(shows_in(fault, place) for place in by_import)
    widest = replace(fault, scope="") if runs_early else fault

    def rank(name: str) -> tuple[bool, float]:
        sight = laws[name]
        calls_it = any(shows_in(fault, each) for each in sight.functions)
        return not calls_it, sight.seconds * len(sight.functions)

    found = [n for n, sight in laws.items() if any(shows_in(widest, f) for f in sight.functions)]
    return sorted(found, key=rank)


def shows_in(fault: Fault, function: str) -> bool:
    """Whether who calls a function, given as `file:scope`, can see a fault."""
    if not fault.scope:
        return function.startswith(f"{fault.file}:")
    return function.startswith(f"{fault.place}.") or function == fault.place


# ---------------------------------------------------------------- one mutant


def tried(work: tuple[Subject, Fault, Sequence[str], Mapping[str, Sight], int]) -> Result:
    """Try the laws that can see a fault on its mutant, until one fails.

    Args:
      work: The implementation, the fault, the laws in their order, what they did on the
        implementation as it is, and on how many inputs each is tried at most.
    """
    subject, fault, names, laws, examples = work
    started = time.monotonic()
    diff = fault.diff(subject.sources[fault.file])

    def result(outcome: str, law: str = "", reason: str = "") -> Result:
        seconds = round(time.monotonic() - started, 1)
        return Result(fault.name, fault.file, outcome, law, reason[:500], len(names), seconds, diff)

    runner = Runner(judging(subject, fault))
    try:
        imported = runner.ask(None, 60)
        if not isinstance(imported, list):
            return result("broken", "", getattr(imported, "reason", imported))
        for count in dict.fromkeys((min(FEW, examples), examples)):
            for name in names:
                answer = runner.ask([name, count], 30 + 10 * laws[name].seconds * count / FEW)
                if isinstance(answer, Lost):
                    return result(answer.outcome, name, f"{answer.doing}: {answer.reason}")
                if answer[0] == "failed":
                    return result("found", name, answer[3])
        return result("survived")
    finally:
        runner.close()


# ---------------------------------------------------------------- which faults, and their score


@dataclass(frozen=True)
class Listed:
    """An entry of ci/mutants.toml: what nobody could tell, with the reason.

    Args:
      implementation: The one that it is about.
      file: Of its package, or a pattern: `*` for all.
      reason: Why no law can tell.
      function: A function or class in which no fault counts, or, with `taken`, this one does not.
      holds: A regular expression; only a fault that replaces a text with it does not count.
      under: A regular expression; only a fault in a block does not count that begins with a line
        with it, such as `if x is None:`.
      taken: The lines that the fault takes away, joined, for one fault.
      added: The lines that it adds.
    """

    implementation: str
    file: str
    reason: str
    function: str = ""
    holds: str = ""
    under: str = ""
    taken: str = ""
    added: str = ""


def listed(file: Path = LISTED) -> tuple[Listed, ...]:
    """The entries of ci/mutants.toml."""
    content = tomllib.loads(file.read_text("utf-8"))
    return tuple(Listed(**each) for each in content.get("equivalent", ()))


def is_listed(fault: Fault, subject: Subject, entries: Sequence[Listed]) -> bool:
    """Whether a fault is one that nobody could tell."""
    source = subject.sources[fault.file]
    replaced = source.encode()[slice(*fault.span)].decode()
    about = [
        each for each in entries
        if each.implementation == subject.where and fnmatch(fault.file, each.file)
        and (
            each.function in ("*", fault.scope, *fault.scope.split("."))
            or (each.taken and not each.function)
        )
        and re.search(each.holds, replaced) is not None
    ]  # fmt: skip
    # A comparison of whole files, and a walk up the file: once for all entries, if one asks.
    changed = fault.changed_lines(source) if any(each.taken for each in about) else ("", "")
    above = blocks(source, fault.line) if any(each.under for each in about) else [""]
    return any(
        (not each.taken or changed == (each.taken, each.added))
        and any(re.search(each.under, line) is not None for line in above)
        for each in about
    )


def blocks(source: str, number: int) -> list[str]:
    """The lines that begin the blocks in which a line stands, from 1; last, an empty one."""
    *before, line = source.splitlines()[:number]
    indent, found = len(line) - len(line.lstrip()), []
    for each in reversed(before):
        if each.strip() and len(each) - len(each.lstrip()) < indent:
            indent = len(each) - len(each.lstrip())
            found.append(each.strip())
    return [*found, ""]


def candidates(subject: Subject, laws: Mapping[str, Sight]) -> tuple[list[Fault], list[str]]:
    """The faults that are planted, and the functions that get none because no law calls them.

    Neither holds what is listed.
    """
    entries = listed()
    everything = [f for file, text in subject.sources.items() for f in faults_in(text, file)]
    counted = [fault for fault in everything if not is_listed(fault, subject, entries)]
    called = {place for sight in laws.values() for place in sight.functions}
    planted = [fault for fault in counted if any(shows_in(fault, place) for place in called)]
    unseen = {f.place: "" for f in counted if f.in_function and f.place not in called}
    return planted, list(unseen)


def score(results: Sequence[Result]) -> str:
    """What was found of what was found or survived."""
    found = sum(result.outcome == "found" for result in results)
    judged = found + sum(result.outcome == "survived" for result in results)
    return f"{found} of {judged}" + (f", {100 * found / judged:.0f} %" if judged else "")


def table(results: Sequence[Result]) -> Iterator[str]:
    """The score of each file and of all, with what else came of faults."""
    files = sorted({result.file for result in results})
    for name in [*files, "all"]:
        those = [result for result in results if name in (result.file, "all")]
        rest = Counter(r.outcome for r in those if r.outcome not in ("found", "survived"))
        more = "".join(f", {number} {outcome}" for outcome, number in rest.items())
        yield f"{name:32} {score(those)}{more}"


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    """The command's options."""
    parser = argparse.ArgumentParser(
        "ci/mutants", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="exit codes: 0 no fault survived, 1 some did, 2 nothing was tried",
    )  # fmt: skip
    add = parser.add_argument
    add("--implementation", choices=PACKAGES, default="reference", help="%(default)s by default")
    add("--sample", type=int, metavar="N", help="plant N faults, drawn at random (default: all)")
    add("--seed", type=int, default=0, metavar="S", help="of the sample (%(default)s)")
    add("--file", default="", metavar="TEXT", help="only in files whose path holds this text")
    add("--jobs", type=int, default=processors(), metavar="J", help="how many at a time")
    add("--examples", type=int, default=profiles.PROFILES["ci"].examples, metavar="N",
        help="inputs for each law, before a fault has survived (%(default)s)")  # fmt: skip
    add("--unseen", action="store_true", help="only name the functions that no law calls")
    add("--results", type=Path, metavar="FILE", help="where results are kept, and taken from")
    add("--again", action="store_true", help="try again what survived, crashed or timed out")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    """Plant the faults that the options ask for; returns an exit code."""
    options = parsed(arguments)
    OUTPUT.mkdir(parents=True, exist_ok=True)
    prepare()
    subject = Subject.of(options.implementation)
    seen = sights(subject, options.jobs)
    laws = convicting(subject, seen)
    planted, unseen = candidates(subject, laws)
    if options.unseen:
        print(*[place for place in unseen if options.file in place], sep="\n")
        return 0
    chosen = [fault for fault in planted if options.file in fault.file]
    if options.sample is not None:
        drawn = random.Random(options.seed).sample(chosen, min(options.sample, len(chosen)))
        chosen = sorted(drawn, key=chosen.index)
    if not chosen:
        told = Counter(sight.outcome for sight in seen.values())
        laws_did = ", ".join(f"{number} {outcome}" for outcome, number in told.items())
        print(f"ci/mutants: no fault to plant; laws: {laws_did}", file=sys.stderr)
        return 2
    file = options.results or OUTPUT / f"{subject.where}.jsonl"
    if file.exists():  # without a line that was cut off, to which the next would be added
        publish("".join(f"{json.dumps(asdict(each))}\n" for each in results_in(file)), file)
    kept = read(file, {fault.diff(subject.sources[fault.file]) for fault in chosen}, options.again)
    left = [fault for fault in chosen if fault.diff(subject.sources[fault.file]) not in kept]
    print(f"{len(chosen)} faults, {len(kept)} of them tried before, in {file}", flush=True)
    for result in tried_all(subject, left, laws, options.jobs, options.examples):
        kept[result.diff] = result
        with file.open("a", encoding="utf-8") as lines:
            lines.write(f"{json.dumps(asdict(result))}\n")
    results = list(kept.values())
    for result in results:
        if result.outcome not in ("found", "broken"):
            print(f"\n{result.outcome}, seen by {result.laws} laws {result.law}\n{result.diff}")
    print("", *table(results), sep="\n")
    print(f"no law calls {len(unseen)} functions, which got no fault; --unseen names them")
    return int(any(result.outcome == "survived" for result in results))


def prepare() -> None:
    """Have all laws at hand, and keep what XLA compiles: mutants compile the same programs."""
    profiles.prepare_devices()
    compiled = {FOLDER_OF_COMPILED: str(conformance.COMPILED / "xla")}
    for name, value in {**compiled, **KEEP_ALL}.items():
        jax.config.update(name, value)  # type: ignore[no-untyped-call]
    suite.laws()


def read(file: Path, wanted: set[str], again: bool) -> dict[str, Result]:
    """The results that a file has of some faults, given and kept by their diffs.

    Args:
      file: It may be missing.
      wanted: The diffs.
      again: Whether only what was found, or cannot be imported, counts.
    """
    return {
        result.diff: result for result in (results_in(file) if file.exists() else ())
        if result.diff in wanted and (not again or result.outcome in ("found", "broken"))
    }  # fmt: skip


def results_in(file: Path) -> list[Result]:
    """The results in a file; of a line that was cut off, nothing."""
    whole = file.read_text("utf-8").rpartition("\n")[0]
    return [Result(**json.loads(line)) for line in whole.splitlines()]


def tried_all(
    subject: Subject, faults: Sequence[Fault], laws: Mapping[str, Sight], jobs: int, examples: int
) -> Iterator[Result]:
    """Try the laws on each mutant, several at a time; yields results as they come."""
    work, by_import = [], called_by_import(subject)
    for fault in faults:
        names = seeing(fault, laws, by_import)
        work.append((subject, fault, names, {name: laws[name] for name in names}, examples))
    with multiprocessing.get_context("fork").Pool(jobs) as pool, Progress() as progress:
        task = progress.add_task("mutants", total=len(work))
        for result in pool.imap_unordered(tried, work):
            progress.console.print(
                f"{result.outcome:9} {result.seconds:6.1f} s  {result.fault[:70]}  {result.law}",
                markup=False, highlight=False,
            )  # fmt: skip
            progress.advance(task)
            yield result


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
