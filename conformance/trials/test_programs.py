"""Programs that are cut out of the suite and made shorter: each step, and what stops it."""

import ast
import io
import re
import time
from contextlib import redirect_stdout

import pytest
from scutch.judging import suite
from scutch.judging.calls import parse_call
from scutch.loading import load
from scutch.reproduce import checking, displays, steps
from scutch.reproduce.programs import Failure
from scutch.reproduce.pruning import Pruned, compared, ending
from scutch.reproduce.reducing import Reducer
from scutch.reproduce.running import Ran
from scutch.reproduce.syntax import CHECK, closed, relined

FAULTY = """
import sys

def unused():
    return 1

class Box:
    value: object
    extra: object = None

    def opened(self):
        return self.value

    def closed(self):
        return unused()

def build(kind, value):
    if kind == 'box':
        return Box(value)
    return value

def doubled(value):
    twice = value * 2
    return twice

noise = [1, 2, 3]
total = sum(noise)
if len(noise) == 3:
    found = [doubled(each) for each in (3, 4)]
else:
    found = []
"""
CHECKED = "if not ASKED(found[0]) == 7:\n    print(found[0])\n    sys.exit(1)"


def program(asked="", text=FAULTY):
    """A program that ends with a comparison, as a law's does."""
    tree = ast.parse(text)
    (last,) = ast.parse(CHECKED.replace("ASKED", asked)).body
    for node in ast.walk(last):
        setattr(node, CHECK, True)
    tree.body.append(last)
    return tree


class Drafts:
    """Programs run here: one is right if it prints 6 and exits with 1."""

    def __init__(self):
        self.count = 0

    def shows(self, tree):
        self.count += 1
        out = io.StringIO()
        try:
            with redirect_stdout(out):
                exec(ast.unparse(tree), {})
        except SystemExit as stop:
            return (stop.code, out.getvalue()) == (1, "6\n")
        except Exception:
            return False
        return False

    def values(self, tree):
        found = {}

        def note(number, value):
            text = (repr(value), ()) if type(value) in (int, list) else ("", ())
            found[number] = text if found.get(number, text) == text else ("", ())
            return value

        with pytest.raises(SystemExit), redirect_stdout(io.StringIO()):
            exec(compile(tree, "script.py", "exec"), {"_note_": note})
        return found

    def ran(self, tree):
        found = Ran()
        code = compile(ast.unparse(tree), "script.py", "exec")
        with redirect_stdout(io.StringIO()):
            found.call(lambda: exec(code, {}), "script.py")
        return found


def test_a_program_keeps_only_what_it_shows():
    drafts = Drafts()
    tree = Reducer(program(), drafts, until=time.monotonic() + 60).run()
    assert drafts.shows(tree)
    assert len(ast.unparse(tree).splitlines()) <= 5
    assert "noise" not in ast.unparse(tree)


def test_no_step_is_tried_after_the_time():
    tree, drafts = program(), Drafts()
    before = ast.unparse(tree)
    assert ast.unparse(Reducer(tree, drafts, until=time.monotonic() - 1).run()) == before
    assert drafts.count == 0


def every(step, text):
    """The texts of a program after each change of a step."""
    found = []
    for number, _ in enumerate(step(ast.parse(text))):
        tree = ast.parse(text)
        changed = [*step(tree)][number](tree)
        closed(changed)
        found.append(ast.unparse(ast.fix_missing_locations(changed)))
    return found


@pytest.mark.parametrize(
    ("step", "before", "after"),
    [
        (steps.returned, "def f(a, b=2):\n    return a + b\nx = f(1)", ["x = 1 + 2"]),
        (
            steps.returned,
            "def f(a):\n    if a:\n        return 1\n    return a\nx = f(y)",
            ["x = 1", "x = y"],
        ),
        (steps.returned, "x = (lambda a: a + 1)(2)", ["x = 2 + 1"]),
        (
            steps.methods,
            "class C:\n    a: int\n    def m(self, b):\n        return self.a + b\nx = C(1).m(2)",
            ["def C_m(self, b):\n    return self.a + b\nx = C_m(C(1), 2)"],
        ),
        (steps.methods, "class C:\n    a: object\nx = C(1).a", ["x = 1"]),
        (
            steps.spliced,
            "a = 0\ndef f(b):\n    a = b\n    return a\nx = f(1)",
            ["a = 0\nb = 1\na_2 = b\nx = a_2"],
        ),
        (steps.variables, "x = f()\ny = x + 1", ["y = f() + 1"]),
        (
            steps.named,
            "def f():\n    return 1\nx = g(lambda: f())",
            ["def call():\n    return f()\nx = g(call)"],
        ),
        (
            steps.parameters,
            "def f(a, b, *, c=1):\n    return a\nx = f(1, 2, c=3)",
            [
                "def f(a, *, c=1):\n    return a\nx = f(1, c=3)",
                "def f(a, b):\n    return a\nx = f(1, 2)",
            ],
        ),
        (displays.unrolled, "x = partial(f, 1)(2)", ["x = f(1, 2)"]),
        (displays.unrolled, "x = {'a': 1}['a']", ["x = 1"]),
        (displays.unrolled, "x = [f(e) for e in (1, 2)]", ["x = [f(1), f(2)]"]),
        (displays.unrolled, "x = tuple(map(f, [1, 2]))", ["x = (f(1), f(2))"]),
        (displays.unrolled, "x = {k: f(v) for k, v in {'a': 1}.items()}", ["x = {'a': f(1)}"]),
        (displays.unrolled, "g(*(1, 2), **{'a': 3})", ["g(1, 2, a=3)"]),
        (displays.unrolled, "x = MappingProxyType({'a': 1})", ["x = {'a': 1}"]),
    ],
)
def test_a_step_puts_the_meaning_in_the_place_of_the_form(step, before, after):
    assert [text.rpartition("\n\n")[2].strip() for text in every(step, before)] == after


def test_arguments_of_functions_of_others_stay():
    changes = every(lambda tree: steps.simpler((), tree), "def f(a):\n    pass\nf(1)\nouter(2)")
    assert changes == ["def f(a):\n    pass\nf()\nouter(2)"]
    assert not every(lambda tree: steps.simpler(("C",), tree), "class C:\n    pass\nC(1)")


def test_what_did_not_run_is_left_out():
    text = (
        "def f(a):\n    '''Text.'''\n    if a:\n        return 1\n    return 2\n"
        "def g(a: int) -> int:\n    if a > 1:\n        b = 1\n    else:\n        b = 2\n"
        "    assert b\n    reached('two')\n    reached(str(a))\n    return b\n"
        "f(0)\nf(1)\ng(1)\n"
    )
    ran = Ran()
    space = {"reached": print}
    ran.call(lambda: exec(compile(text, "script.py", "exec"), space), "script.py")
    pruned = Pruned(ran, None, "script.py")
    left = [one for each in ast.parse(text).body for one in pruned.kept(each)]
    assert ast.unparse(ast.Module(left, [])).split("\n\n") == [
        "def f(a):\n    if a:\n        return 1\n    return 2",
        "def g(a):\n    b = 2\n    str(a)\n    return b\nf(0)\nf(1)\ng(1)",
    ]


@pytest.mark.parametrize(
    ("law", "shown"),
    [
        ("assert a == b", "print(f'expected {expected}, got {got}')"),
        ("assert not a", "print(f'expected nothing, got {got}')"),
        ("assert f(a)", "print('expected f(a)')"),
        ("raise AssertionError(f'{a} came')", "print(f'{a} came')"),
    ],
)
def test_the_assertion_that_failed_ends_the_program(law, shown):
    end = ast.unparse(ast.Module([*ending(ast.parse(law).body[0])], []))
    assert shown in end
    assert end.rstrip().endswith("sys.exit(1)")


def test_an_equality_prints_both_sides():
    text = ast.unparse(compared(program(asked="f")))
    assert "got = f(found[0])\nexpected = 7\nif not got == expected:" in text


def test_a_program_gives_all_names_that_it_reads():
    tree = ast.parse("import os\ndef f():\n    return g()\nx = 1\nprint(x)")
    assert closed(tree)
    assert ast.unparse(tree) == "x = 1\nprint(x)"
    assert not closed(ast.parse("print(y)"))


def test_each_head_has_one_line():
    tree = relined(ast.parse("f(\n    1,\n)\nif (\n    a\n):\n    b()\n"))
    assert [node.lineno for node in tree.body] == [1, 2]
    assert tree.body[1].body[0].lineno == 3


class Told:
    """A nursery that answers what it was given."""

    limit = 1.0

    def __init__(self, own, other):
        self.answers = {False: own, True: other}

    def run(self, source, aliases=None):
        return checking.Outcome(*self.answers[aliases is not None])

    def expect(self, seconds):
        self.limit = seconds


REACHED = "the comparison was reached\n"


@pytest.mark.parametrize(
    ("own", "other", "right"),
    [
        ((1, "6\n"), (0, REACHED), True),
        ((0, ""), (0, REACHED), False),
        ((2, "NameError"), (0, REACHED), False),
        ((1, "6\n"), (1, REACHED), False),
        ((1, "6\n"), (0, ""), False),
    ],
)
def test_a_program_is_right_if_it_fails_where_the_fault_is_and_compares_where_it_is_not(
    own, other, right
):
    drafts = checking.Drafts(Told(own, other), {"nnx": "from flax import nnx"}, unasserted=False)
    assert drafts.shows(program()) is right
    assert drafts.told == ("6\n" if right else "")
    assert bool(drafts.problem) is not right


def test_the_program_of_a_law_that_compares_with_the_reference_is_refused():
    (law, *_) = (each for each in suite.laws() if "reference" in each.fixtures)
    reference = load("reference")
    with pytest.raises(Exception, match="compares with the reference implementation"):
        Failure.of(law, {}, reference, reference)


def test_the_first_program_holds_nothing_of_the_suite():
    law = suite.named("test_a_negative_index_adds_the_axis_of_the_array")
    call = (
        "test_a_negative_index_adds_the_axis_of_the_array"
        "(box=Box(Array((2,)), ('data',)), back=1, name='model')"
    )
    flax = load("flax")
    failure = Failure.of(law, parse_call(call)[1], flax, load("reference"))
    text = ast.unparse(
        failure.program(failure.ends()[0] if callable(failure.ends) else failure.ends[0])
    )
    assert not re.search(r"\b(import|from) scutch", text)
    assert "sys.exit(1)" in text
    assert "from flax" in text
