"""The settings of a project: the table `tool.scutch` of its `pyproject.toml`.

    [tool.scutch]
    implementation = "my_fork.py"
    known = ["my_known.toml"]
    edition = "0.2"
    skip = [{ requirement = "export", reason = "we export with our own tool" }]

`scutch run` puts these settings before the words that were typed, and leaves out each setting whose
option was typed. `settings.schema.json` is the published form, for editors and for tools.
"""

import difflib
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from scutch.implementation import SetupError

OPTIONS: Final[Mapping[str, str]] = {
    "implementation": "--implementation",
    "profile": "--profile",
    "level": "--level",
    "edition": "--edition",
    "known": "--known",
    "requirements": "--requirement",
    "skip": "--skip",
}
"""By setting, the option that it stands for."""
_SEVERAL: Final = ("known", "requirements", "skip")


def project(folder: Path) -> tuple[Path | None, Mapping[str, Any]]:
    """The file with the settings that apply in a folder, and the settings.

    Args:
      folder: It, or the first folder around it with a `pyproject.toml` that has such a table.

    Returns:
      `None` and no settings where no file has any.

    Raises:
      SetupError: The file is no TOML, or a setting is not one of `OPTIONS` or has another type.
    """
    for parent in (folder, *folder.parents):
        file = parent / "pyproject.toml"
        if not file.is_file():
            continue
        try:
            tool = tomllib.loads(file.read_text("utf-8")).get("tool", {})
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise SetupError(str(file), f"expected TOML, and got: {error}") from None
        if isinstance(tool, dict) and "scutch" in tool:
            return file, _checked(file, tool["scutch"])
    return None, {}


def _checked(file: Path, table: Any) -> Mapping[str, Any]:
    if not isinstance(table, dict):
        raise SetupError(f"{file}: tool.scutch", f"expected a table, and got {table!r}")
    for name, value in table.items():
        if name not in OPTIONS:
            near = difflib.get_close_matches(name, OPTIONS, 1)
            meant = f"; did you mean {near[0]!r}?" if near else ""
            raise SetupError(
                f"{file}: tool.scutch.{name}", f"expected one of {', '.join(OPTIONS)}{meant}"
            )
        if name == "skip":
            fits = isinstance(value, list) and all(map(_skips, value))
            wanted = 'a list of { requirement = "...", reason = "..." }'
        elif name in _SEVERAL:
            fits = isinstance(value, list) and all(isinstance(each, str) for each in value)
            wanted = "a list of texts"
        else:
            fits, wanted = isinstance(value, str), "a text"
        if not fits:
            raise SetupError(f"{file}: tool.scutch.{name}", f"expected {wanted}, and got {value!r}")
    return table


def _skips(entry: Any) -> bool:
    """Whether an entry names requirements and gives a reason."""
    if not isinstance(entry, dict) or entry.keys() != {"requirement", "reason"}:
        return False
    return all(isinstance(each, str) and each.strip() for each in entry.values())


def words(settings: Mapping[str, Any], given: Sequence[str], file: Path | None) -> list[str]:
    """The settings as words of a command line, without those that the user has given.

    Args:
      settings: The settings that `project` returned.
      given: The words that the user has typed.
      file: Where the settings stand; paths in them are relative to its folder.

    Returns:
      One word for each value, such as `--profile=ci`.
    """
    found = []
    for name, value in settings.items():
        option = OPTIONS[name]
        if any(word == option or word.startswith(f"{option}=") for word in given):
            continue
        for each in value if name in _SEVERAL else [value]:
            text = f"{each['requirement']}: {each['reason']}" if name == "skip" else each
            if name in ("implementation", "known") and file is not None:
                text = _placed(text, file.parent)
            found.append(f"{option}={text}")
    return found


def _placed(text: str, folder: Path) -> str:
    """A path as it is to be read elsewhere than in its folder; any other text as it is."""
    there = folder / text
    return str(there) if there.is_file() and not Path(text).is_file() else text
