"""The nights on disk: what each of them found, and which came before.

A night is one commit, measured in certain environments with certain options. Its folder holds one
file for each step that is done, and such a file appears whole or not at all: so a night that was
cut off, in whatever way, is gone on with by doing the steps that have no file.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

STAMP = "%Y%m%dT%H%M%SZ"


def put(data: Any, path: Path) -> None:
    """Write JSON, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    draft.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    os.replace(draft, path)


@dataclass(frozen=True)
class Night:
    """One night.

    Args:
      folder: Where its files are.
      commit: What was measured.
      options: What has to be the same for two nights to be compared.
      environments: The versions in each environment, by its name.
    """

    folder: Path
    commit: str
    options: Mapping[str, Any]
    environments: Mapping[str, Mapping[str, str]]

    @property
    def started(self) -> datetime:
        """When it began."""
        return datetime.strptime(self.folder.name.split("-")[0], STAMP).replace(tzinfo=UTC)

    @property
    def reports(self) -> dict[str, Path]:
        """The conformance reports that are there, by what was judged where; the reference first."""
        paths = sorted(self.folder.glob("conformance/*.json"), key=lambda path: path.stem)
        paths.sort(key=lambda path: not path.stem.startswith("reference"))
        return {path.stem: path for path in paths}

    @property
    def figures(self) -> dict[str, Path]:
        """What was measured by each group of benchmarks, by its name and the environment's."""
        return {path.stem: path for path in sorted(self.folder.glob("benchmarks/*.json"))}

    @property
    def verdict(self) -> Mapping[str, Any] | None:
        """What was said at the end, if it came to its end."""
        path = self.folder / "verdict.json"
        return json.loads(path.read_text("utf-8")) if path.exists() else None


@dataclass(frozen=True)
class History:
    """All nights in a folder, from the first to the last."""

    folder: Path

    def __iter__(self) -> Iterator[Night]:
        """The nights; a folder without its `night.json` was cut off before anything was done."""
        for path in sorted(self.folder.glob("nights/*/night.json")):
            yield Night(path.parent, **json.loads(path.read_text("utf-8")))

    def open(
        self,
        commit: str,
        options: Mapping[str, Any],
        environments: Mapping[str, Mapping[str, str]],
        *,
        fresh: bool,
    ) -> Night:
        """The last night that is of this commit in these environments; or a new one."""
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
        name = f"{started.strftime(STAMP)}-{commit[:12]}"
        put(wanted, self.folder / "nights" / name / "night.json")
        return Night(self.folder / "nights" / name, **wanted)

    def before(self, night: Night, has: Callable[[Night], bool]) -> Night | None:
        """The last one before `night` that can be compared with it, and has what is asked for."""
        earlier = [one for one in self if one.folder.name < night.folder.name]
        return next(
            (one for one in reversed(earlier) if one.options == night.options and has(one)), None
        )

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """An empty folder on the same disk, so that what is made there can be moved whole."""
        (self.folder / "scratch").mkdir(parents=True, exist_ok=True)
        folder = Path(mkdtemp(dir=self.folder / "scratch"))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
