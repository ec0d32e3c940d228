"""The linter of docstrings names what is missing by file and line, and nothing else."""

import subprocess
import sys
from pathlib import Path

import pytest
from scutch_ci import docstyle

ROOT = Path(__file__).parents[2]
MODULE = '"""An idea.\n\nAnd more of it.\n"""\n\n'
COMPLETE = '''
import functools
from typing import overload


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

    def scaled(self, factor, axis, *args, **kwargs):
        """The shape with one length multiplied; `args` and `**kwargs` go to `numpy`.

        Args:
          factor: A number.
          axis (int): 0 or 1.

        Returns:
          A new shape.

        Raises:
          ValueError: The axis is another.
          OSError: Never.
        """
        if axis > 1:
            raise ValueError(axis)
        return Shape(self.rows * factor, self.columns)


class Square(Shape):
    """A shape with equal lengths, e.g. one of `A. B` or `C. D`."""

    def scaled(self, factor, axis, *args, **kwargs):
        """The square with both lengths multiplied."""
        raise ValueError(factor)


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
def area(shape, unit, digits): ...


def area(shape, unit, digits):
    """Print the area of a shape.

    Args:
      shape, unit: A shape, and the name of a unit.
      digits: A number.
    """

    def inner(a, b, c):
        raise KeyError(a)

    print(functools.partial(inner, shape), unit, digits)


def again(*args, **kwargs):
    """Print the area as before."""
    area(*args, **kwargs)


def _private(a, b, c):
    return a
'''


def found(tmp_path, text):
    """The findings in a module of this text, without the path."""
    file = tmp_path / "module.py"
    file.write_text(text)
    return [str(each).removeprefix("module.py:") for each in docstyle.findings([file], tmp_path)]


def test_a_complete_module_has_no_findings(tmp_path):
    assert found(tmp_path, MODULE + COMPLETE) == []


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("def f():\n    pass\n", "6: f: has no docstring"),
        ("class A:\n    def m(self):\n        '''It works'''\n", "6: A: has no docstring"),
        ("def f():\n    '''It works'''\n", "6: f: begins with 'It works': expected one sentence"),
        ("def f():\n    '''One. Two.'''\n", "6: f: begins with 'One. Two.': expected one sentence"),
        ("def f(a, b):\n    '''It works.'''\n", "6: f: `Args:` lacks a, b"),
        ("def f(a, *, b):\n    '''It works.\n\n    Args:\n      a: A.\n    '''\n", "lacks b"),
        ("def f(a, *args):\n    '''It works.\n\n    Args:\n      a: A.\n    '''\n", "lacks *args"),
        (
            "class A:\n    '''A.'''\n    def __init__(self, a, b):\n        pass\n",
            "6: A: `Args:` lacks a, b",
        ),
        ("@dataclass\nclass A:\n    '''A.'''\n    a: int\n    b: int\n", "A: `Args:` lacks a, b"),
        (
            "def f(a, b, c):\n    '''It works.\n\n    Args:\n      a, b: A.\n      c: A.\n    '''\n"
            "    return a\n",
            "6: f: has no `Returns:`",
        ),
        (
            "def f():\n    '''It works.'''\n    if 1:\n        raise x.OddError('no')\n",
            "6: f: `Raises:` lacks OddError",
        ),
        ("class AError(ValueError):\n    '''A.'''\n", "6: AError: shows no `Wrong` code beside"),
        (
            "class B(ValueError):\n    '''Wrong is this, and Right is that.'''\n",
            "6: B: shows no `Wrong` code beside `Right` code",
        ),
    ],
)
def test_what_is_missing_is_named_with_its_line(tmp_path, text, finding):
    (only,) = [each for each in found(tmp_path, MODULE + text) if "A.m" not in each]
    assert finding in only


def test_a_module_says_its_idea_in_two_lines(tmp_path):
    many = "".join(f"a{i} = {i}\n" for i in range(20))
    assert found(tmp_path, "a = 1\n") == ["1: module: has no docstring"]
    assert found(tmp_path, '"""An idea."""\n') == []
    assert found(tmp_path, f'"""An idea."""\n{many}') == [
        "1: module: says its idea in one line: expected two or more, with an example"
    ]


def test_an_override_inherits_from_another_module(tmp_path):
    base, derived = tmp_path / "base.py", tmp_path / "derived.py"
    base.write_text(
        MODULE + "class A:\n    '''A.'''\n    def f(self, a, b):\n        '''It works.'''\n"
    )
    derived.write_text(MODULE + "class B(A):\n    '''B.'''\n    def f(self, a, b):\n        pass\n")
    assert [each.file for each in docstyle.findings([base, derived], tmp_path)] == ["base.py"]


def test_findings_make_the_command_fail(tmp_path):
    """Laws are left out, and the exit code follows the findings."""
    assert not any("laws" in file.parts for file in docstyle.checked_files())
    done = subprocess.run(
        [sys.executable, "-P", "-m", "scutch_ci.docstyle", __file__],
        cwd=tmp_path, env={"PYTHONPATH": str(ROOT / "ci")}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "0 findings in 1 files\n")
