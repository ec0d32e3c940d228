"""The settings of a run, settled once, before any law is collected.

`settle` checks every option and imports the implementation in a process of its own, to learn its
name, version and claims. The `Run` that it returns is plain data, the same in every process.

    run = settle("flax", profile="quick", patterns=["metadata"])
    run.version, run.claims, len(run.requirements)
"""

import functools
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType
from typing import Any

import jax

from scutch import catalogue
from scutch.implementation import Implementation, SetupError
from scutch.judging import changed, compiled, known, portfolio, profiles, shards, suite
from scutch.judging.causes import Cause
from scutch.judging.choices import check, known_failures, skipped
from scutch.judging.jax_parts import backends_are_started
from scutch.judging.known import Expected
from scutch.judging.probe import probe
from scutch.judging.settings import check_settings
from scutch.judging.verdicts import Expectation, Ruling
from scutch.loading import known_names

_START = 5.0
"""Seconds that a run takes besides its laws: to import JAX, the implementation and the laws."""
_ADAPTERS = "scutch.adapters."
"""The beginning of the module name of every adapter that comes with the suite."""


@dataclass(frozen=True)
class Run:
    """One judging of one implementation, with its settings; equal in every process.

    Args:
      where: How the implementation is found.
      name: Of the implementation.
      version: Of the implementation.
      claims: Its capabilities.
      platform: JAX's platform.
      devices: How many devices there are.
      profile: The name of the profile.
      examples: Inputs for each law.
      seed: Of the search.
      level: The level that must hold.
      patterns: Which requirements are judged; empty for all.
      known: The known failures about this release.
      replay: A call to try instead of searching, as text; empty for none.
      timeout: Seconds that one law may take.
      processes: Of the job in which laws of several processes are tried; 1 for no job.
      launched: Whether a launcher has started the judge in each process of a job.
      tried: Names of laws that are not tried again.
      by_traces: Whether a law that compares two routes may take equal traces for agreement.
      compiled: The name of the folder in which compiled programs are kept; empty to keep none.
      shard: The part of the requirements that is judged, such as `3/8`; empty for all.
      code: The hash of the code that the import of the implementation has imported.
      offers: The implementation's claims, as `Implementation.offers` has them.
      chosen: The requirements that it judges, with the inputs for each of their laws; `None` for
        all that are named.
      until: The time, of `time.time`, after which no further law is tried; 0 for none.
      since: The commit whose changes are judged; empty for all.
      why: A sentence: the changes since that commit, and how many requirements they select.
      skipped: Requirements that are not judged, with the user's reason.
      edition: The edition of the catalogue that must hold; empty for the newest.
      first: By law, calls that are tried before any is drawn: they broke it in an earlier run.
    """

    where: str
    name: str
    version: str
    claims: tuple[str, ...]
    platform: str
    devices: int
    profile: str
    examples: int
    seed: int
    level: str
    patterns: tuple[str, ...]
    known: tuple[known.Known, ...]
    replay: str
    timeout: float
    processes: int = 2
    launched: bool = False
    tried: tuple[str, ...] = ()
    by_traces: bool = True
    compiled: str = ""
    shard: str = ""
    code: str = ""
    offers: tuple[str, ...] = ()
    chosen: Mapping[str, int] | None = None
    until: float = 0.0
    since: str = ""
    why: str = ""
    skipped: Mapping[str, str] = field(default_factory=dict)
    edition: str = ""
    first: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def named(self) -> tuple[catalogue.Requirement, ...]:
        """The requirements that the user has named; all where none is named."""
        return catalogue.select(self.patterns) if self.patterns else catalogue.load()

    @property
    def asked(self) -> tuple[catalogue.Requirement, ...]:
        """The requirements that all shards together judge: the named ones that are chosen."""
        return tuple(one for one in self.named if self.chosen is None or one.id in self.chosen)

    @property
    def is_short(self) -> bool:
        """Whether laws get fewer inputs than `examples`, as in a run of the portfolio."""
        return any(number < self.examples for number in (self.chosen or {}).values())

    def inputs_for(self, requirement: str) -> int:
        """On how many inputs a law of ordinary cost is tried.

        Args:
          requirement: The id that the law tries.
        """
        return (self.chosen or {}).get(requirement, self.examples)

    @functools.cached_property
    def requirements(self) -> tuple[catalogue.Requirement, ...]:
        """The requirements that are judged: of a shard, its part."""
        if not self.shard:
            return self.asked
        part = shards.Shard.parse(self.shard).part_of(one.id for one in self.asked)
        return tuple(one for one in self.asked if one.id in part)

    @functools.cached_property
    def wanted(self) -> frozenset[str]:
        """The identifiers of the requirements that are judged and claimed."""
        claims = set(self.claims)
        judged = (one for one in self.requirements if one.id not in self.skipped)
        return frozenset(one.id for one in judged if claims.issuperset(one.capabilities))

    def weighed(self, ruling: Ruling) -> Ruling:
        """The ruling as it counts in this run.

        A skipped requirement is unclaimed, for the user's reason. One that is newer than the
        edition is a should: it is reported, and fails no run.
        """
        row = ruling.requirement
        if row.id in self.skipped:
            return replace(ruling, verdict="unclaimed", reason=f"skipped: {self.skipped[row.id]}")
        if not self.edition or catalogue.edition(row.since) <= catalogue.edition(self.edition):
            return ruling
        return replace(ruling, requirement=replace(row, level="should"))

    @property
    def expectations(self) -> tuple[Expectation, ...]:
        """The known failures, as verdicts need them."""
        return tuple(
            replace(entry.expectation, inherited=entry.implementation != self.name)
            for entry in self.known
        )

    def changed(self, implementation: Implementation) -> str:
        """The difference between the claims and devices here and those when the run began.

        Args:
          implementation: The implementation as the process that judges it has imported it.

        Returns:
          A sentence; empty where claims and devices are the same.
        """
        before = {*self.offers, f"{self.devices} devices of {self.platform}"}
        devices = jax.devices()
        now = {*implementation.offers, f"{len(devices)} devices of {devices[0].platform}"}
        if now == before:
            return ""
        return (
            f"it had {_several(before - now)} when the run began, and has {_several(now - before)} "
            "where laws are tried; expected the same in every process"
        )

    def to_data(self) -> dict[str, Any]:
        """The run as data that JSON can hold, for a worker of pytest-xdist."""
        return asdict(self)

    @classmethod
    def from_data(cls, data: dict[str, Any]) -> "Run":
        """The run that `to_data` turned into data, also where JSON has made lists of tuples."""
        lists = {name: tuple(v) for name, v in data.items() if isinstance(v, list | tuple)}
        entries = tuple(
            known.Known(
                **{**entry, "errors": tuple(entry["errors"])}
                | {"cause": Cause(**entry["cause"]) if entry["cause"] else None}
            )
            for entry in data["known"]
        )
        return cls(**{**data, **lists, "known": entries})

    def known_of(self, law: suite.Law) -> Expected:
        """The call that is known to break a law, and the ways in which it is known to break."""
        return known.expected(self.known, law.requirement, law.name)


def settle(
    where: str,
    *,
    profile: str = profiles.DEFAULT,
    examples: int | None = None,
    seed: int | None = None,
    level: str = "must",
    patterns: Sequence[str] = (),
    known_files: Sequence[str] = (),
    replay: str = "",
    timeout: float | None = None,
    isolate: bool = True,
    processes: int | None = None,
    launched: bool = False,
    by_traces: bool = True,
    keep_compiled: bool = True,
    shard: str = "",
    within: float | None = None,
    workers: int = 1,
    since: str = "",
    skip: Sequence[str] = (),
    edition: str = "",
    first: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> Run:
    """Check every choice and find the implementation.

    Args:
      where: How the implementation is found, as `loading.load` takes it.
      profile: The name of a profile.
      examples: Inputs for each law, at least 1; the profile's where left out.
      seed: Of the search; the profile's where left out.
      level: `must` or `should`: the level that must hold.
      patterns: Requirements, as `catalogue.select` takes them; empty for all.
      known_files: Paths of files of known failures, `shipped`, `none`, or the name of an
        implementation that comes with some, which the judged one descends from; empty for
        `shipped`.
      replay: A call to try instead of searching; empty for none.
      timeout: Seconds that one law may take; where left out, the profile's, and as many times that
        as `examples` asks for more inputs than the profile.
      isolate: Whether the implementation is imported in a process of its own.
      processes: Of the job in which laws of several processes are tried: 2, 4 or 8, or 1 for none;
        2 where left out, and 1 on another platform than the CPU.
      launched: Whether a launcher has started the judge in each process of a job; then the laws
        of several processes are tried, and no others.
      by_traces: Whether a law that compares two routes may take equal traces for agreement.
      keep_compiled: Whether compiled programs are kept for the next run.
      shard: The part of the requirements that is judged, such as `3/8`; empty for all.
      within: Seconds that the run may take, above 0; no limit where left out.
      workers: How many processes try laws at the same time, as pytest-xdist's `-n` says.
      since: A commit of the repository here: the run judges requirements whose laws call a function
        that has changed since, and requirements that have not held yet in such a run; empty for
        all.
      skip: Requirements that are not judged, as `PATTERN: REASON`.
      edition: The edition of the catalogue that must hold; empty for the newest.
      first: By law, calls that are tried before any is drawn.

    Returns:
      The settings of the run.

    Raises:
      SetupError: An argument is invalid, or the implementation cannot be judged; the message names
        the fault and the remedy.
    """
    suite.prove_assertions()
    check_settings()
    if isolate and backends_are_started():
        raise SetupError(
            "JAX",
            "it has looked for devices already, so that laws cannot be tried in processes "
            "of their own; expected that no plugin and no conftest.py uses JAX, or --in-process",
        )
    check(
        profile=profile,
        level=level,
        examples=examples,
        seed=seed,
        timeout=timeout,
        within=within,
        processes=processes,
        edition=edition,
        shard=shard,
        replay=replay,
    )
    if launched and not patterns:
        patterns = ("processes",)
    if patterns:
        catalogue.select(patterns)
    entries = [e for file in known_files or ("shipped",) for e in known_failures(file)]
    chosen = profiles.PROFILES[profile]
    budget = chosen.seconds if within is None else max(1.0, within - _START) * workers
    if (within is None and (patterns or examples is not None or since)) or replay:
        budget = None
    if examples is None:
        examples = chosen.examples
    if timeout is None:
        timeout = chosen.timeout * max(1, examples / chosen.examples)
    if seed is None:
        seed = profiles.fresh_seed() if chosen.seed is None else chosen.seed
    found = probe(where, isolate=isolate)
    release = (found["name"], found["version"])
    told = [(name, found["version"]) for name in known_files if name in known.shipped_names()]
    upstream = [tuple(found["upstream"])] if found["upstream"] else told[:1]
    if not (release in upstream or known_names().get(where, where).startswith(_ADAPTERS)):
        # An adapter that is only called `flax` does not inherit Flax's known failures.
        others = {each for each in known.shipped() if each.implementation == release[0]}
        entries = [each for each in entries if each not in others]
    upstream = [each for each in upstream if each != release]
    where_compiled = f"{found['devices']} of {found['platform']}, {found['kind']}"
    if processes is None:
        processes = 2 if found["platform"] == "cpu" else 1
    if processes > 1 and found["platform"] != "cpu":
        raise SetupError(
            f"--processes {processes}",
            f"jobs are started on the CPU only, and this run is on {found['platform']!r}; "
            "expected --processes 1 or --platform cpu",
        )
    begun = time.time() - time.process_time()  # the start of a process is work for one processor
    run = Run(
        where,
        found["name"],
        found["version"],
        tuple(found["claims"]),
        found["platform"],
        found["devices"],
        profile,
        examples,
        seed,
        level,
        tuple(patterns),
        () if replay else known.applicable(entries, release, *upstream),
        replay,
        timeout,
        processes,
        launched,
        by_traces=by_traces,
        compiled=compiled.subject(*release, found["code"], where_compiled) if keep_compiled else "",
        shard=str(shards.Shard.parse(shard)) if shard else "",
        code=found["code"],
        offers=tuple(found["offers"]),
        until=begun + within if within else 0.0,
        skipped=dict(skipped(skip)),
        edition=edition,
        first=dict(first),
    )
    if since:
        run = _affected(run, since)
    return run if budget is None else _shortened(run, budget)


def _affected(run: Run, since: str) -> Run:
    """The run of the claimed requirements that a change can reach, or that no run has kept."""
    found, calls = changed.changed(since, changed.files()), changed.kept(run.where)
    seeing = [one for one in run.wanted if one in calls and found.reach(calls[one])]
    anew = run.wanted - calls.keys()
    chosen = dict.fromkeys((*seeing, *anew), run.examples)
    why = f"{found}; {len(seeing)} of {len(run.wanted)} requirements call it"
    if anew:
        why += f"; {len(anew)} have not held yet in a run with --changed, and are judged too"
    return replace(run, chosen=chosen, since=since, why=why)


def _shortened(run: Run, seconds: float) -> Run:
    """The run of the claimed requirements that find the most faults in some CPU seconds.

    Raises:
      SetupError: Every requirement that is asked for costs more.
    """
    chosen = portfolio.within(seconds, run.wanted)
    if run.wanted and not chosen:
        expected = f"expected more than {_START:g} s for the start of the run and for one law"
        raise SetupError(f"--within: {seconds:.1f} CPU s are left for laws", expected)
    return replace(run, chosen={one.requirement: one.examples for one in chosen})


def _several(parts: Collection[str]) -> str:
    return "; ".join(sorted(parts)) or "nothing else"
