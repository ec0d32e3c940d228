"""Ruff and our own check name each missing part of a docstring by file and line, and no other."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from scutch_ci import docstyle

ROOT = Path(__file__).parents[2]
MODULE = '"""An idea.\n\nAnd more of it.\n"""\n\n'
COMPLETE = '''
import functools
from dataclasses import dataclass
from typing import ClassVar, NoReturn, overload


class Shape:
    """A pair of lengths.

    Args:
      rows: A number.
      columns: A number.
    """

    def __init__(self, rows, columns):
        self.rows, self.columns = rows, columns

    def __eq__(self, other):
        return self.rows == other.rows

    def scaled(self, factor, axis, *args, **kwargs) -> "Shape":
        """The shape with one length multiplied; `args` and `**kwargs` go to `numpy`.

        Args:
          factor: A number.
          axis (int): 0 or 1.

        Returns:
          A new shape.

        Raises:
          ValueError: The axis is another.
        """
        if axis > 1:
            raise ValueError(axis)
        return Shape(self.rows * factor, self.columns)


class Square(Shape):
    """A shape with equal lengths, e.g. one of `A. B` or `C. D`."""


@dataclass
class Box:
    """A shape, and a height.

    Attributes:
      shape: The shape.
    """

    shape: Shape
    default: ClassVar = 1
    _height: int


class BaseError(Exception):
    """The base of these errors."""


class ShapeError(BaseError):
    """A length is negative.

    Wrong::

        Shape(-1, 2)

    Right::

        Shape(1, 2)
    """


@overload
def area(shape, unit, digits) -> None:
    """Print a shape."""


def area(shape, unit, digits) -> None:
    """Print the area of a shape.

    Args:
      shape, unit: A shape, and the name of a unit.
      digits: A number.
    """
    print(functools.partial(again, shape), unit, digits)


def end(a, b, c) -> NoReturn:
    """End the process.

    Args:
      a: A.
      b, c: The others.

    Raises:
      SystemExit: Always.
    """
    raise SystemExit(a)


def values(draw, size):
    """A strategy, to which Hypothesis passes `draw`."""


def again(*args, **kwargs):
    """Print the area as before."""
    area(*args, **kwargs)


def _private(a, b, c):
    return a
'''


def found(tmp_path, text):
    """The findings of our own check in a module of this text, without the path."""
    file = tmp_path / "module.py"
    file.write_text(text)
    return [each.removeprefix("module.py:") for each in docstyle.findings([file], tmp_path)]


def found_by_ruff(text):
    """The findings of ruff, by our settings, about the docstrings of a module."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "ruff",
            "check",
            "--no-cache",
            "--output-format=json",
            "--quiet",
            "--stdin-filename=reference/scutch_reference/module.py",
            "-",
        ],
        cwd=ROOT,
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout, done.stderr
    codes = [(each["code"], each["location"]["row"]) for each in json.loads(done.stdout)]
    return [each for each in codes if each[0].startswith("D")]


def test_a_complete_module_has_no_findings(tmp_path):
    assert found(tmp_path, MODULE + COMPLETE) == []
    assert found_by_ruff(MODULE + COMPLETE) == []


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("def f():\n    '''One. Two.'''\n", "6: module.f: begins with 'One. Two.': expected one"),
        ("def f(a, b):\n    '''It works.'''\n", "6: module.f: `Args:` lacks a, b"),
        ("def f(a, *, b):\n    '''It works.\n\n    Args:\n      a: A.\n    '''\n", "lacks b"),
        ("def f(a, *args):\n    '''It works.\n\n    Args:\n      a: A.\n    '''\n", "lacks *args"),
        (
            "class A:\n    '''A.'''\n    def __init__(self, a, b):\n        pass\n",
            "6: module.A: `Args:` lacks a, b",
        ),
        (
            "class A:\n    '''A.'''\n    def f(self, a, b):\n        '''It works.'''\n",
            "8: module.A.f: `Args:` lacks a, b",
        ),
        ("@dataclass\nclass A:\n    '''A.'''\n    a: int\n    b: int\n", "A: `Args:` lacks a, b"),
        (
            "def f(a, b, c) -> int:\n    '''It works.\n\n    Args:\n      a, b: A.\n      c: A.\n"
            "    '''\n    return a\n",
            "6: module.f: has no `Returns:`",
        ),
        (
            "def f():\n    '''It works.'''\n    if 1:\n        raise x.OddError('no')\n",
            "6: module.f: raises an exception, and has no `Raises:`",
        ),
        ("class AError(ValueError):\n    '''A.'''\n", "6: module.AError: shows no `Wrong` code"),
        (
            "class B(ValueError):\n    '''Wrong is this, and Right is that.'''\n",
            "6: module.B: shows no `Wrong` code beside `Right` code",
        ),
    ],
)
def test_each_missing_part_is_named_with_its_line(tmp_path, text, finding):
    (only,) = found(tmp_path, MODULE + text)
    assert finding in only


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("def f():\n    pass\n", ("D103", 6)),
        ("class A:\n    pass\n", ("D101", 6)),
        ("class A:\n    '''A.'''\n\n    def f(self):\n        pass\n", ("D102", 9)),
        ("def f():\n    '''It works'''\n", ("D415", 7)),
        ("def f():\n    '''It works\n    well.\n    '''\n", ("D205", 7)),
        ("def f():\n    '''\n    It works.\n    '''\n", ("D212", 7)),
        (
            "def f(a):\n    '''It works.\n\n    Args:\n      b: A.\n    '''\n    print(a)\n",
            ("DOC102", 10),
        ),
        (
            "def f():\n    '''It works.\n\n    Returns:\n      A.\n    '''\n    print(1)\n",
            ("DOC202", 7),
        ),
        (
            "def f():\n    '''It works.\n\n    Yields:\n      A.\n    '''\n    return 1\n",
            ("DOC403", 7),
        ),
        (
            "def f():\n    '''It works.\n\n    Well.\n    '''\n    raise OSError(1)\n",
            ("DOC501", 7),
        ),
    ],
)
def test_ruff_finds_faults_of_form(text, finding):
    double = MODULE + text.replace("'''", '"""')
    assert finding in found_by_ruff(double)


def test_a_module_says_its_idea_in_two_lines(tmp_path):
    many = "".join(f"a{i} = {i}\n" for i in range(20))
    assert found_by_ruff("a = 1\n") == [("D100", 1)]
    assert found(tmp_path, '"""An idea."""\n') == []
    assert found(tmp_path, f'"""An idea."""\n{many}') == [
        "1: module: says its idea in one line: expected two or more, with an example"
    ]


def test_an_error_that_another_module_extends_needs_no_example(tmp_path):
    base, derived = tmp_path / "base.py", tmp_path / "derived.py"
    base.write_text(MODULE + "class AError(ValueError):\n    '''A.'''\n")
    derived.write_text(MODULE + "class BError(base.AError):\n    '''B.'''\n")
    (only,) = docstyle.findings([base, derived], tmp_path)
    assert only.startswith("derived.py:6: derived.BError: ")


def test_findings_make_the_command_fail(tmp_path, monkeypatch, capsys):
    """Laws are left out, and the exit code follows the findings."""
    assert not any("laws" in file.parts for file in docstyle.checked_files())
    assert docstyle.main() == 0
    monkeypatch.setattr(docstyle, "checked_files", lambda: [tmp_path / "a.py"])
    monkeypatch.setattr(docstyle, "ROOT", tmp_path)
    (tmp_path / "a.py").write_text(MODULE + "def f(a, b):\n    '''It works.'''\n")
    assert docstyle.main() == 1
    assert capsys.readouterr().out.endswith(
        "a.py:6: a.f: `Args:` lacks a, b\n1 findings in 1 files\n"
    )
