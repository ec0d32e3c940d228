"""The public interface of each release, read from its wheel without importing it.

`ci/matrix --interfaces` downloads the wheel of each recorded release of Flax and of JAX, reads it
with griffe, and writes the history of every public name to the folder
`conformance/scutch/releases/interfaces`. No code of a release runs: a signature is read from its
source.
"""

import ast
import subprocess
import sys
import tempfile
import textwrap
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from scutch import releases
from scutch.releases.interface import Interface, history_text
from scutch.report.text import count, publish

from scutch_ci.checkout import ROOT, NothingMeasured
from scutch_ci.targets import pinned

FOLDER = ROOT / "conformance" / "scutch" / "releases" / "interfaces"
SPECIAL = ("__init__", "__call__")
"""Methods that users reach without naming them."""
LEFT_OUT = ("experimental", "tools", "testing", "interpreters", "extend", "example_libraries")
"""Folders whose names promise nothing to users."""
METADATA = ("get_metadata", "has_metadata", "get", "pop")


def update() -> int:
    """Write the interfaces of all recorded releases of Flax and JAX; returns an exit code."""
    FOLDER.mkdir(exist_ok=True)
    for package in releases.WITH_INTERFACE:
        interfaces = []
        for version in [each.release for each in pinned(package)]:
            interfaces.append(Interface(package, version, of_release(package, version)))
            print(f"{package} {version}: {count(len(interfaces[-1].names), 'name')}", flush=True)
        publish(history_text(interfaces), FOLDER / f"{package}.json")
    return 0


def of_release(package: str, version: str) -> dict[str, str]:
    """The public names of a release on the index, each with its definition.

    Raises:
      NothingMeasured: pip finds no wheel of the release.
    """
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "pip",
                "download",
                "--quiet",
                "--no-deps",
                "--ignore-requires-python",
                "--only-binary=:all:",
                "--dest",
                folder,
                f"{package}=={version}",
            ],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        wheels = list(Path(folder).glob("*.whl"))
        if done.returncode or not wheels:
            raise NothingMeasured(f"{package} {version}: no wheel; pip says {done.stderr.strip()}")
        with zipfile.ZipFile(wheels[0]) as wheel:
            wheel.extractall(folder)
        return of_folder(package, Path(folder))


def of_folder(package: str, folder: Path) -> dict[str, str]:
    """The public names of a package in a folder, each with its definition.

    Args:
      package: Its import name.
      folder: The folder that holds the package, as an entry of `sys.path` does.

    Returns:
      By full name, the definition as `scutch.releases.interface` describes it.

    Raises:
      NothingMeasured: griffe is missing, or this Python cannot read a file.
    """
    try:
        import griffe
    except ModuleNotFoundError:
        raise NothingMeasured("reading wheels needs griffe: pip install griffe") from None
    for file in (folder / package).rglob("*.py"):  # griffe leaves out a file that it cannot parse
        try:
            ast.parse(file.read_text("utf-8"))
        except SyntaxError as error:
            raise NothingMeasured(
                f"{file.relative_to(folder)}, line {error.lineno}: Python "
                f"{sys.version_info.major}.{sys.version_info.minor} cannot read it: {error.msg}; "
                "run this with a newer one: PYTHON=python3.13 ci/matrix --interfaces"
            ) from error
    loader = griffe.GriffeLoader(search_paths=[folder], allow_inspection=False)
    module: Any = loader.load(package, submodules=True)
    loader.resolve_aliases(implicit=True, external=False)
    names = dict(_members(module, package))
    if package == "flax":
        names |= metadata_keys((folder / package / "nnx").rglob("*.py"))
    return names


def _members(owner: Any, path: str) -> Iterator[tuple[str, str]]:
    for name, member in owner.members.items():
        full = f"{path}.{name}"
        if (name.startswith("_") and name not in SPECIAL) or name in LEFT_OUT:
            continue
        if name.endswith("_test") or name == "tests":
            continue
        if member.is_alias:
            target = _target(member)
            if target is None:
                continue
            if target.is_module or not _is_private(target.path):
                yield full, f"= {target.path}"
                continue
            member = target
        yield full, definition(member)
        if member.is_module or member.is_class:
            yield from _members(member, full)


def _target(alias: Any) -> Any:
    """The object that an alias stands for in its own package; `None` for anything else."""
    import griffe

    try:
        target = alias.final_target
    except (griffe.AliasResolutionError, griffe.CyclicAliasError):
        return None
    if target.is_module and not str(alias.parent.filepath).endswith("__init__.py"):
        return None  # a module that this one imports for itself
    return target


def _is_private(path: str) -> bool:
    return any(part.startswith("_") or part in LEFT_OUT for part in path.split("."))


def definition(member: Any) -> str:
    """The definition of a name, in the form that `scutch.releases.interface` describes."""
    if member.is_function:
        text = f"def {signature(member)}"
    elif member.is_class:
        text = f"class ({', '.join(map(str, member.bases))})"
        if any("dataclass" in str(each.value) for each in member.decorators):
            text = f"data{text}"
    elif member.is_attribute:
        text = "field" if member.annotation is not None else "value"
        text += f" = {member.value}" if member.value is not None and member.parent.is_class else ""
    else:
        text = "module"
    message = _deprecated(member)
    text = " ".join(text.split())
    return f"{text}  # deprecated: {message}" if message else text


def signature(function: Any) -> str:
    """Parameters and defaults of a function, as Python writes them, without annotations."""
    parts: list[str] = []
    last = ""
    for each in function.parameters:
        kind = each.kind.value if each.kind else "positional or keyword"
        if last == "positional-only" and kind != last:
            parts.append("/")
        if kind == "keyword-only" and last not in (kind, "variadic positional"):
            parts.append("*")
        stars = {"variadic positional": "*", "variadic keyword": "**"}.get(kind, "")
        default = f"={each.default}" if each.default is not None and not stars else ""
        parts.append(f"{stars}{each.name}{default}")
        last = kind
    if last == "positional-only":
        parts.append("/")
    return f"({', '.join(parts)})"


# ---------------------------------------------------------------- deprecations


def _deprecated(member: Any) -> str:
    """The message of a deprecation that every use of a function or class meets; empty if none."""
    if not (member.is_function or member.is_class):
        return ""
    for each in member.decorators:
        if "deprecated" in str(each.value):
            return _message(ast.parse(str(each.value), mode="eval").body) or "no reason is given"
    if not member.is_function:
        return ""
    try:
        body = ast.parse(textwrap.dedent(member.source)).body
    except (SyntaxError, IndexError):
        return ""
    statements = body[0].body if body and isinstance(body[0], ast.FunctionDef) else []
    for statement in statements:  # only at the top: beneath an `if`, some uses meet it
        if isinstance(statement, ast.Expr) and _warns(statement.value):
            return _message(statement.value) or "no reason is given"
    return ""


def _warns(call: ast.expr) -> bool:
    return (
        isinstance(call, ast.Call)
        and ast.unparse(call.func).endswith("warn")
        and any(
            "DeprecationWarning" in ast.unparse(each)
            for each in (*call.args, *(word.value for word in call.keywords))
        )
    )


def _message(call: ast.expr) -> str:
    texts = [
        each.value
        for each in ast.walk(call)
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    ]
    return " ".join(" ".join(texts).split())[:160]


# ---------------------------------------------------------------- keys of metadata


def metadata_keys(sources: Iterable[Path]) -> dict[str, str]:
    """The keys of a variable's metadata that the library itself reads, or renames.

    Returns:
      By `metadata[KEY]`, `key`, or `= metadata[NEW]` where the library moves the value of an old
      key to a new one.
    """
    read: set[str] = set()
    renamed: dict[str, str] = {}
    for file in sources:
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            read.update(_keys_read(node))
            renamed |= _keys_renamed(node)
    names = {f"metadata[{key}]": "key" for key in read if not key.startswith("on_")}
    return names | {f"metadata[{old}]": f"= metadata[{new}]" for old, new in renamed.items()}


def _is_metadata(node: ast.expr) -> bool:
    return "metadata" in ast.unparse(node).rpartition(".")[2]


def _keys_read(node: ast.AST) -> Iterator[str]:
    found: list[ast.expr] = []
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
        found = [node.left] if _is_metadata(node.comparators[0]) else []
    elif isinstance(node, ast.Subscript) and _is_metadata(node.value):
        found = [node.slice]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        of_metadata = node.func.attr.endswith("_metadata") or _is_metadata(node.func.value)
        found = node.args[:1] if node.func.attr in METADATA and of_metadata else []
    for each in found:
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each.value


def _keys_renamed(node: ast.AST) -> dict[str, str]:
    """`metadata["new"] = metadata.pop("old")`, as a mapping from the old key to the new one."""
    if not (isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript)):
        return {}
    target, value = node.targets[0], node.value
    if not (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Attribute)
        and value.func.attr == "pop"
        and _is_metadata(target.value)
        and _is_metadata(value.func.value)
    ):
        return {}
    new, old = target.slice, value.args[0]
    if isinstance(new, ast.Constant) and isinstance(old, ast.Constant):
        return {str(old.value): str(new.value)}
    return {}
