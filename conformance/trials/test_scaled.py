"""The README's box class with twelve planted bugs of one line: each is convicted by its name.

The class stands in the README as `test_my_box.py`. An owner judges it with `scutch box`, or with
`scutch.BoxTests`. Three other changes of it are no bugs, and nothing convicts them.
"""

import re
import sys
from dataclasses import dataclass

import pytest
import scutch
from scutch.cli import main
from scutch.loading import find
from trials.commits import some_in_a_commit
from trials.test_readme import blocks

SOURCE = dict(blocks("python"))["test_my_box.py"]


@dataclass(frozen=True)
class Change:
    """A change of one line.

    Args:
      line: The line of the README's class, without its indentation.
      by: The line in its place.
      breaks: The requirements that it breaks, the one that names the bug first; those that follow
        from others are left out.
    """

    line: str
    by: str
    breaks: tuple[str, ...] = ()

    def made(self) -> str:
        """The README's file with this change."""
        assert SOURCE.count(self.line) == 1, f"the README has no single line {self.line!r}"
        return SOURCE.replace(self.line, self.by)


ADDED = 'names = (*self.names[:index], params["partition_name"], *self.names[index:])'
RENAMED = "return dataclasses.replace(self, names=names)"
REMOVED = "return dataclasses.replace(self, names=(*self.names[:index], *self.names[index + 1 :]))"
CHECKED = 'if self.names[index] != params["partition_name"]:'
REPLACED = "return dataclasses.replace(self, payload=val)"
FLATTENED = "return (self.payload,), (self.names, self.scale)"

BUGS = {
    "the name is appended": Change(
        ADDED,
        'names = (*self.names, params["partition_name"])',
        ("metadata/box-axes/adding-names-the-axis", "metadata/box-axes/adding-undoes-removing"),
    ),
    "no name is added": Change(
        RENAMED, "return self", ("metadata/box-axes/adding-names-the-axis",)
    ),
    "None becomes a string": Change(
        ADDED,
        'names = (*self.names[:index], str(params["partition_name"]), *self.names[index:])',
        ("metadata/box-axes/none-is-a-name",),
    ),
    "the parameters are emptied": Change(
        ADDED,
        'names = (*self.names[:index], params.pop("partition_name"), *self.names[index:])',
        ("metadata/box-values/axes-keep-the-value",),
    ),
    "an added axis resets the scale": Change(
        RENAMED,
        "return Scaled(self.payload, names)",
        ("metadata/box-axes/removing-undoes-adding",),
    ),
    "a removed axis leaves its name": Change(
        REMOVED, "return self", ("metadata/box-axes/removing-takes-the-name",)
    ),
    "a new value resets the scale": Change(
        REPLACED,
        "return Scaled(val, self.names)",
        ("metadata/box-values/replacing-keeps-metadata",),
    ),
    "a new value changes the box": Change(
        REPLACED,
        'return object.__setattr__(self, "payload", val) or self',
        ("metadata/box-values/inputs-stay-unchanged",),
    ),
    "flattening loses the scale": Change(
        FLATTENED,
        "return (self.payload,), (self.names,)",
        ("metadata/box-nodes/unflattening-restores-the-box",),
    ),
    "the scale is a leaf": Change(
        FLATTENED,
        "return (self.payload, self.names, self.scale), ()",
        ("metadata/box-nodes/leaves-are-the-value",),
    ),
    "unflattening makes arrays": Change(
        "return cls(*children, *static)",
        "return cls(*map(jax.numpy.asarray, children), *static)",
        (
            "metadata/box-nodes/unflattening-restores-the-box",
            "metadata/box-nodes/tracing-keeps-boxes",
        ),
    ),
    "inner boxes are unboxed too": Change(
        "return self.payload\n",
        "return meta.unbox(self.payload)\n",
        ("metadata/box-values/unbox-returns-same-object",),
    ),
}

NO_BUGS = {
    "as it is": Change(ADDED, ADDED),
    "boxes equal themselves alone": Change(
        "@dataclasses.dataclass(frozen=True)", "@dataclasses.dataclass(frozen=True, eq=False)"
    ),
    "any axis may be removed": Change(CHECKED, "if False:"),
    "an assertion refuses another name": Change(
        CHECKED, 'assert self.names[index] == params["partition_name"]\n        if False:'
    ),
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder of a test; modules that it holds are found in that test only."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return tmp_path


@pytest.fixture
def scaled(request, folder):
    """A changed class in a file, as `FILE:NAME`; its function `make` stands beside it."""
    change = (BUGS | NO_BUGS)[request.param]
    file = folder / f"{request.param.replace(' ', '_')}.py"
    maker = "def make(value, names):\n    return Scaled(value, names, 2.0)\n"
    file.write_text(f"{change.made()}\n\n{maker}", "utf-8")
    yield f"{file.name}:Scaled", f"{file.name}:make"
    sys.modules.pop(file.stem, None)


@pytest.mark.parametrize(
    "scaled", some_in_a_commit(BUGS, str, ["flattening loses the scale"]), indirect=True
)
def test_the_command_convicts_a_bug_by_its_name(scaled, request, capsys):
    breaks = BUGS[request.node.callspec.params["scaled"]].breaks
    assert main(["box", scaled[0], "--make", scaled[1]]) == 1
    assert capsys.readouterr().out.startswith(f"{scaled[0]} breaks {', '.join(breaks)}\n")


@pytest.mark.parametrize("scaled", some_in_a_commit(NO_BUGS, str, ["as it is"]), indirect=True)
def test_the_command_convicts_no_other_change(scaled, capsys):
    assert main(["box", scaled[0], "--make", scaled[1]]) == 0
    assert "conforms in 29 requirements" in capsys.readouterr().out


@pytest.mark.parametrize("scaled", BUGS, indirect=True)
def test_an_item_fails_for_each_bug(scaled, request):
    class TestScaled(scutch.BoxTests):
        box = find(scaled[0])
        make = staticmethod(find(scaled[1]))

    named, *_ = BUGS[request.node.callspec.params["scaled"]].breaks
    with pytest.raises(pytest.fail.Exception, match=named):
        TestScaled().test_box(named)


@pytest.mark.parametrize("scaled", [bug for bug in BUGS if "scale" in bug], indirect=True)
def test_a_lost_scale_shows_without_a_maker(scaled, request, capsys):
    named, *_ = BUGS[request.node.callspec.params["scaled"]].breaks
    assert main(["box", scaled[0], "--requirement", named]) == 1
    assert "scale=2.0" in capsys.readouterr().out


def test_a_field_keeps_its_default_where_the_class_refuses_another(folder, capsys):
    field = '    scale: float = 1.0\n    how: str = "mean"\n    learned: bool = False\n'
    source = SOURCE.replace("    scale: float = 1.0\n", field)
    source = source.replace(
        "    def unbox(self):\n", '    def unbox(self):\n        assert self.how == "mean"\n'
    ).replace(REPLACED, "return Scaled(val, self.names, self.scale)")
    (folder / "moded.py").write_text(source, "utf-8")
    assert main(["box", "moded.py:Scaled", "--requirement", "metadata/box-values"]) == 1
    out = capsys.readouterr().out
    assert out.startswith("moded.py:Scaled breaks metadata/box-values/replacing-keeps-metadata\n")
    assert "box = Scaled(1, names=(), scale=2.0, learned=True)\n" in out


def test_a_known_failure_is_no_conviction_and_needs_a_reason(folder, capsys):
    bug, name = BUGS["inner boxes are unboxed too"], "metadata/box-values/unbox-returns-same-object"
    (folder / "known_scaled.py").write_text(bug.made(), "utf-8")
    asked = ["box", "known_scaled.py:Scaled", "--requirement", name]
    assert main(asked) == 1
    call = re.search(r"--replay \"(.*)\"$", capsys.readouterr().out, re.MULTILINE).group(1)
    assert main([*asked[:2], "--replay", call]) == 1
    assert main([*asked, "--known", f"{name}=boxes of boxes are rare here"]) == 0
    assert main([*asked, "--known", name]) == 2
    assert "expected ID=REASON" in capsys.readouterr().err
