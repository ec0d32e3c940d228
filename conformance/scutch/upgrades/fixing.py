"""Safe renames in a user's code: keywords and keys of metadata that have another name now.

    edits = fixes(findings)
    print(diff(edits))
    apply(edits)

A name that is gone, a newly required argument, or a module that moved is left to the reader,
because the right replacement depends on the purpose of the code.
"""

import ast
import difflib
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

from scutch.upgrades.findings import Finding, Findings

Edit = tuple[int, int, str, str]
"""Line from 1, column from 0 in bytes of UTF-8, the old text and the new one."""


def fixes(findings: Findings) -> dict[Path, tuple[bytes, bytes]]:
    """The files that renames change, each with its bytes before and after.

    Args:
      findings: Of the files as they are now.
    """
    by_file: dict[str, list[Finding]] = {}
    for each in findings.found:
        if each.renames:
            by_file.setdefault(each.use.file, []).append(each)
    found = {}
    for name, chosen in by_file.items():
        before = Path(name).read_bytes()
        after = _edited(before, {edit for each in chosen for edit in _edits(before, each)})
        if after != before:
            ast.parse(after)
            found[Path(name)] = before, after
    return found


def _edited(source: bytes, edits: set[Edit]) -> bytes:
    lines = source.splitlines(keepends=True)
    for line, column, old, new in sorted(edits, reverse=True):
        text, end = lines[line - 1], column + len(old.encode())
        if text[column:end] == old.encode():
            lines[line - 1] = text[:column] + new.encode() + text[end:]
    return b"".join(lines)


def _edits(source: bytes, finding: Finding) -> Iterator[Edit]:
    """Where the old spelling stands at the place of a finding: in a call, or in a subscript."""
    if not finding.renames:
        return
    (old, new), use = finding.renames, finding.use
    is_key = use.name.startswith("metadata[")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Subscript) and is_key and _is_at(node, finding):
            yield from _texts([node.slice], old, new)
        if not isinstance(node, ast.Call):
            continue
        if _is_at(node if is_key else node.func, finding):
            yield from ((k.lineno, k.col_offset, old, new) for k in node.keywords if k.arg == old)
            if is_key:
                tables = [k.value for k in node.keywords if (k.arg or "").endswith("metadata")]
                keys = [k for table in tables if isinstance(table, ast.Dict) for k in table.keys]
                yield from _texts([*node.args, *filter(None, keys)], old, new)


def _is_at(node: ast.expr, finding: Finding) -> bool:
    return (node.lineno, node.col_offset + 1) == (finding.use.line, finding.use.column)


def _texts(nodes: list[ast.expr], old: str, new: str) -> Iterator[Edit]:
    """The inside of each string that is the old spelling, without its quotation marks."""
    for node in nodes:
        if isinstance(node, ast.Constant) and node.value == old:
            yield node.lineno, node.col_offset + 1, old, new


def diff(edits: Mapping[Path, tuple[bytes, bytes]]) -> str:
    """The changes that `apply` would write, as a unified diff."""
    lines = [
        line
        for path, texts in edits.items()
        for before, after in [[text.decode().splitlines(keepends=True) for text in texts]]
        for line in difflib.unified_diff(before, after, str(path), str(path))
    ]
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines).rstrip("\n")


def apply(edits: Mapping[Path, tuple[bytes, bytes]]) -> None:
    """Write all files, or none of them.

    Raises:
      OSError: A file could not be written; the files that were replaced have their old bytes again.
    """
    drafts = {path: path.with_name(f".{path.name}.{os.getpid()}.tmp") for path in edits}
    replaced = []
    try:
        for path, draft in drafts.items():
            draft.write_bytes(edits[path][1])
            shutil.copymode(path, draft)
        for path, draft in drafts.items():
            os.replace(draft, path)
            replaced.append(path)
    except OSError:
        for path in replaced:
            path.write_bytes(edits[path][0])
        raise
    finally:
        for draft in drafts.values():
            draft.unlink(missing_ok=True)
