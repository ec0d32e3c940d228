"""The nightly runs on disk, in their order, with the files that each of them wrote.

A *night* is one nightly run: one commit, judged and measured in certain environments with certain
options. Its folder holds one file for each task that is done, and each file appears whole or not at
all. So a night that was interrupted, whatever the cause, goes on with the tasks that have no file.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

TIME_FORMAT = "%Y%m%dT%H%M%SZ"


def write_json(data: Any, path: Path) -> None:
    """Write a JSON file, whole or not at all; missing folders are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    draft.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    os.replace(draft, path)


def read_json(path: Path) -> Any:
    """Read a JSON file."""
    return json.loads(path.read_text("utf-8"))


@dataclass(frozen=True)
class Night:
    """One nightly run.

    Args:
      folder: Where its files are.
      commit: The full hash of the commit that was judged and measured.
      options: The options that must be equal for two nights to be compared.
      environments: The versions of Python and packages in each environment, by its name.
    """

    folder: Path
    commit: str
    options: Mapping[str, Any]
    environments: Mapping[str, Mapping[str, str]]

    @property
    def started(self) -> datetime:
        """When it started, in UTC."""
        return datetime.strptime(self.folder.name.split("-")[0], TIME_FORMAT).replace(tzinfo=UTC)

    @property
    def reports(self) -> dict[str, Path]:
        """The conformance reports, by implementation and environment; the reference's first."""
        paths = sorted(self.folder.glob("conformance/*.json"), key=lambda path: path.stem)
        paths.sort(key=lambda path: not path.stem.startswith("reference"))
        return {path.stem: path for path in paths}

    @property
    def figures(self) -> dict[str, Path]:
        """The files of measured figures, by environment and group of benchmarks."""
        return {path.stem: path for path in sorted(self.folder.glob("benchmarks/*.json"))}

    @property
    def mutants(self) -> dict[str, Path]:
        """The files with the results of planted faults, by implementation."""
        return {path.stem: path for path in sorted(self.folder.glob("mutants/*.jsonl"))}

    def has_counterpart(self, file: Path) -> bool:
        """Whether this night has a report or figures under the name of another night's `file`."""
        return (self.folder / file.parent.name / file.name).exists()

    @property
    def is_empty(self) -> bool:
        """Whether nothing was judged or measured."""
        return not self.reports and not self.figures

    @property
    def verdict(self) -> Mapping[str, Any] | None:
        """The regressions and failed tasks, as JSON; None if the run has not come to its end."""
        path = self.folder / "verdict.json"
        return read_json(path) if path.exists() else None


@dataclass(frozen=True)
class History:
    """All nights in a folder, from the first to the last.

    Args:
      folder: Holds `nights`, and files that are kept from night to night.
    """

    folder: Path

    def __iter__(self) -> Iterator[Night]:
        """The nights; a run interrupted before it wrote `night.json` is none."""
        for path in sorted(self.folder.glob("nights/*/night.json")):
            yield Night(path.parent, **read_json(path))

    @property
    def earlier(self) -> list[Path]:
        """The files of figures that `--backfill` has measured for commits without a night."""
        return sorted(self.folder.glob("earlier/*.json"))

    def open(
        self,
        commit: str,
        options: Mapping[str, Any],
        environments: Mapping[str, Mapping[str, str]],
        *,
        fresh: bool,
    ) -> Night:
        """The night to go on with, or a new one.

        Args:
          commit: The full hash of the commit to judge and measure.
          options: The options that must be equal for two nights to be compared.
          environments: The versions of Python and packages in each environment, by its name.
          fresh: Whether to begin a new night in any case.

        Returns:
          The last night of this commit with these options and environments, or else a new one.
        """
        shutil.rmtree(self.folder / "scratch", ignore_errors=True)
        content = {"commit": commit, "options": options, "environments": environments}
        wanted = json.loads(json.dumps(content))
        if not fresh:
            for night in reversed(list(self)):
                if wanted == {name: getattr(night, name) for name in wanted}:
                    return night
        started = datetime.now(UTC)
        for last in self:  # two nights in a second, or a clock set back, must not change the order
            started = max(started, last.started + timedelta(seconds=1))
        name = f"{started.strftime(TIME_FORMAT)}-{commit[:12]}"
        write_json(wanted, self.folder / "nights" / name / "night.json")
        return Night(self.folder / "nights" / name, **wanted)

    def before(self, night: Night, condition: Callable[[Night], bool]) -> Night | None:
        """The last night before `night` that has equal options and meets a condition, if any."""
        earlier = [one for one in self if one.folder.name < night.folder.name]
        comparable = (one for one in reversed(earlier) if one.options == night.options)
        return next(filter(condition, comparable), None)

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """A new folder on the nights' disk, so that a finished file can be moved in one step."""
        (self.folder / "scratch").mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=self.folder / "scratch", ignore_cleanup_errors=True) as folder:
            yield Path(folder)
