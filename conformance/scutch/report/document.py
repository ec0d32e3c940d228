"""The JSON report: the verdicts of one run of the judge, as a document.

A `Report` is a header (suite, implementation, environment, profile, seed), one `Outcome` for each
requirement, and a footer that says whether the run was complete. `write` and `load` are inverse;
`schema.json`, beside this file, is the published form. Writing needs the standard library alone;
loading validates, which needs the extra `report`.
"""

import dataclasses
import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Final, Self

import scutch
from scutch.catalogue import current, group_of, place, retired
from scutch.implementation import SetupError
from scutch.judging.trials import NO_COST, Cost
from scutch.judging.trials import Counterexample as Counterexample
from scutch.judging.verdicts import GRAVITY
from scutch.report.text import line, publish

SCHEMA: Final = "scutch-report/1"


class ReportError(Exception):
    """A report cannot be read, written or shown; the message says which, where and why.

    Wrong, because pytest's own report is another document:

        scutch report junit.xml

    Right:

        scutch run --report flax.json
        scutch report flax.json

    Attributes:
      path: Of the report, the picture or the site.
      problem: The place in it, the value found there, and the value expected.
    """

    def __init__(self, path: object, problem: str, action: str = "") -> None:
        """Name the path, the action that failed on it, and the reason."""
        self.path, self.problem = str(path), problem
        super().__init__(f"{action}{path}: {problem}")


@dataclass(frozen=True)
class Product:
    """Something with a name and a version: the suite, or the implementation.

    Args:
      name: As in `pip install NAME`, or the name that its adapter gives it.
      version: Of the release.
    """

    name: str
    version: str

    def __str__(self) -> str:
        """Name and version, with a space between them."""
        return f"{self.name} {self.version}"


@dataclass(frozen=True)
class Environment:
    """Where the run took place.

    Args:
      jax: The version of JAX.
      python: The version of Python.
      platform: JAX's, such as `cpu`.
      devices: How many there were.
    """

    jax: str
    python: str
    platform: str
    devices: int


@dataclass(frozen=True)
class Part:
    """The part of the requirements that a shard has judged.

    Args:
      number: Which shard; from 1.
      of: How many shards there are.
      requirements: How many requirements all of them judge together.
    """

    number: int
    of: int
    requirements: int

    def __str__(self) -> str:
        """The shard, and the number of all requirements."""
        return f"shard {self.number}/{self.of} of {self.requirements} requirements"


@dataclass(frozen=True)
class Outcome:
    """The verdict on one requirement, with the inputs that break it.

    Args:
      id: Such as `metadata/box-axes/removing-undoes-adding`.
      level: `must` or `should`.
      title: One line.
      verdict: One of `verdicts.VERDICTS`.
      needs: Identifiers of the requirements whose failure explains one of this.
      blocked_by: The failed ones among them.
      tests: Names of the laws that tried it.
      examples: Inputs on which they ran to their end, each counted once for each law.
      seconds: How long they took.
      reason: Why it is not `passed`.
      upstream: Address of the issue of a known failure.
      counterexample: The smallest input that was found to break it.
      also: The smallest inputs that break it in other ways.
      replay: A command that breaks it again.
      script: A program that shows the counterexample without this suite; see `scutch reproduce`.
      cost: The processor time, the compilations and the memory of its laws.
    """

    id: str
    level: str
    title: str
    verdict: str
    needs: tuple[str, ...] = ()
    blocked_by: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    examples: int = 0
    seconds: float = 0.0
    reason: str | None = None
    upstream: str | None = None
    counterexample: Counterexample | None = None
    also: tuple[Counterexample, ...] = ()
    replay: str | None = None
    script: str | None = None
    cost: Cost = NO_COST

    @property
    def group(self) -> str:
        """The group of the catalogue that it is in; the first word of an id that is no path."""
        return group_of(self.id) or self.id.partition("-")[0]


@dataclass(frozen=True)
class Report:
    """One run of the judge over one implementation.

    Args:
      suite: The scutch that judged.
      implementation: The implementation that was judged.
      environment: Where the run took place.
      profile: How hard it was tried.
      seed: Of the search.
      level: The level that must hold.
      requirements: The outcome of each requirement, in any order.
      complete: Whether every law that was to be tried was tried.
      shard: Which part of a divided run it is of; `None` where the run was not divided.
    """

    suite: Product
    implementation: Product
    environment: Environment
    profile: str
    seed: int
    level: str
    requirements: tuple[Outcome, ...]
    complete: bool
    shard: Part | None = None

    @property
    def cost(self) -> Cost:
        """The processor time, the compilations and the memory of all laws."""
        return sum((each.cost for each in self.requirements), NO_COST)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """The report that a document of the published form describes; inverse of `to_json`."""
        fields = {key: value for key, value in document.items() if key != "schema"}
        return cls(
            **fields
            | {
                "suite": Product(**fields["suite"]),
                "implementation": Product(**fields["implementation"]),
                "environment": Environment(**fields["environment"]),
                "requirements": tuple(map(_outcome, fields["requirements"])),
                "shard": Part(**fields["shard"]) if fields.get("shard") else None,
            }
        )

    def to_json(self) -> dict[str, Any]:
        """The document of the published form; requirements in the order of their ids."""
        ordered = sorted(self.requirements, key=lambda outcome: place(outcome.id))
        plain = dataclasses.asdict(dataclasses.replace(self, requirements=tuple(ordered)))
        # as JSON has it, with lists for tuples
        return dict(json.loads(json.dumps({"schema": SCHEMA} | plain)))


def _outcome(document: Mapping[str, Any]) -> Outcome:
    example = document["counterexample"]
    own = {
        **{name: tuple(document[name]) for name in ("needs", "blocked_by", "tests")},
        "counterexample": None if example is None else Counterexample(**example),
        "also": tuple(Counterexample(**each) for each in document.get("also", ())),
        "cost": Cost(**document.get("cost", {})),
    }
    return Outcome(**{**document, **own})


def suite() -> Product:
    """This scutch, as the header of a report names it."""
    return Product("scutch", scutch.__version__)


@cache
def schema() -> dict[str, Any]:
    """The published JSON Schema of a report."""
    file = resources.files("scutch.report").joinpath("schema.json")
    return dict(json.loads(file.read_text(encoding="utf-8")))


def check_path(path: str | Path) -> None:
    """Refuse a path at which no report can be written; missing folders are made.

    Args:
      path: Where a report is to be written.

    Raises:
      SetupError: It does not end in `.json`, is a folder, or lies where nothing can be written.
    """
    path, what = Path(path), f"--report {str(path)!r}"
    if path.suffix != ".json":
        raise SetupError(what, "expected a path that ends in .json")
    if path.is_dir():
        raise SetupError(what, "it is a folder; expected the path of a file")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}."):
            pass
    except (OSError, ValueError) as error:
        problem = getattr(error, "strerror", None) or str(error)
        raise SetupError(what, f"nothing can be written there: {problem}") from None


def is_complete(path: str | Path) -> bool:
    """Whether there is a report at `path`, of a run in which every law was tried."""
    try:
        found = json.loads(Path(path).read_text("utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(found, dict) and found.get("complete") is True


def broken_by(path: str | Path) -> dict[str, list[str]]:
    """The calls that broke laws in a report, by law; none where there is no report at `path`."""
    try:
        rows = json.loads(Path(path).read_text("utf-8"))["requirements"]
        shown = [found for row in rows for found in (row["counterexample"], *row["also"]) if found]
        calls = [(found["test"], found["input"]) for found in shown if found["input"]]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return {test: [call for name, call in calls if name == test] for test, _ in calls}


def write(report: Report, path: str | Path) -> None:
    """Write the report to `path`, whole or not at all; the same report gives the same bytes.

    Args:
      report: The report to write.
      path: Ends in `.json`. Missing folders are made.

    Raises:
      ReportError: The path does not end in `.json`, or cannot be written.
    """
    path = Path(path)
    if path.suffix != ".json":
        raise ReportError(path, "expected a name that ends in .json", "cannot write a report to ")
    text = json.dumps(report.to_json(), indent=2, allow_nan=False) + "\n"
    try:
        publish(text, path)
    except OSError as error:
        raise ReportError(path, str(error.strerror), "cannot write a report to ") from error


def load(path: str | Path) -> Report:
    """The report at `path`, checked against the published schema.

    Raises:
      ReportError: The file is missing, is not JSON, departs from the schema, or has a requirement
        twice. The message says the file, the place in it, and the values found and expected.
    """
    document = _parse(Path(path))
    found = document.get("schema") if isinstance(document, dict) else None
    if isinstance(found, str) and found != SCHEMA:
        raise ReportError(
            path, f"at schema: found {line(found)!r}, but this scutch reads {SCHEMA!r}"
        )
    _validate(document, path)
    report = Report.from_json(document)
    ids = [outcome.id for outcome in report.requirements]
    for index, identifier in enumerate(ids):
        if identifier in ids[:index]:
            raise ReportError(
                path,
                f"at requirements[{index}].id: found {identifier} a second time, "
                "expected each requirement once",
            )
    return _of_today(report)


def _of_today(report: Report) -> Report:
    """The report with today's ids; where several old ids are one now, the gravest outcome stays."""
    found: dict[str, Outcome] = {}
    for old in report.requirements:
        if old.id not in retired():
            needs, roots = (tuple(map(current, each)) for each in (old.needs, old.blocked_by))
            outcome = dataclasses.replace(old, id=current(old.id), needs=needs, blocked_by=roots)
            pair = (found.get(outcome.id, outcome), outcome)
            found[outcome.id] = min(pair, key=lambda each: GRAVITY.index(each.verdict))
    return dataclasses.replace(report, requirements=tuple(found.values()))


def _parse(path: Path) -> Any:
    def refuse(constant: str) -> float:
        raise ValueError(f"{constant} is not a number of JSON")

    try:
        return json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)
    except OSError as error:
        raise ReportError(
            path,
            f"{error.strerror}; expected a report of scutch (run the judge with "
            "--report NAME.json)",
            "cannot read ",
        ) from error
    except (ValueError, RecursionError) as error:
        raise ReportError(path, f"not JSON: {error}; expected a report of scutch") from error


def _validate(document: Any, path: str | Path) -> None:
    import jsonschema  # type: ignore[import-untyped]

    validator = jsonschema.Draft202012Validator(schema())
    error = jsonschema.exceptions.best_match(validator.iter_errors(document))
    if error is None:
        return
    steps = (f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.absolute_path)
    where = "".join(steps).lstrip(".") or "the top level"
    match error.validator:
        case "required":
            missing = [name for name in error.validator_value if name not in error.instance]
            found = f"no {', '.join(missing)}"
        case "additionalProperties":
            known = error.schema["properties"]
            found = f"unknown {', '.join(name for name in error.instance if name not in known)}"
        case _:
            found = json.dumps(error.instance)
    expected = error.schema.get("description", f"{error.validator} {error.validator_value}")
    found = line(found if len(found) <= 80 else found[:77] + "...")
    raise ReportError(path, f"at {where}: found {found}, expected {expected}")
