"""Nothing that an implementation owns decides a comparison in a law.

`str`, `tuple`, `dict`, `int` and the classes of an implementation decide themselves about their
equality, length and elements. So a law compares by the judge's equality whatever it got
from an implementation, and Python's own operators stand only between values that the judge made.
"""

import ast
import importlib
import inspect
from collections import defaultdict

import jax
import jax.numpy as jnp
import pytest
from scutch.judging import hypothesis_parts, suite
from scutch.judging.trying import try_law
from scutch.lawkit import equality
from scutch.lawkit.equality import alike
from scutch.lawkit.tolerances import CALLS, near
from trials.comparisons import EXACT, undecided
from trials.hostile.hiding import LosesUnlisted, Tabled, Unlisted
from trials.hostile.hiding import implementation as hidden

ALLOWED = {
    ("test_ways", "self.get_value() == other"): "is the `==` of a class that the law writes",
    ("test_objects_plain", "way == 'default'"): "is a word that the judge drew",
}
"""Comparisons that stand, by module and text, and why."""

INSTEAD = """
An operand came from the implementation, whose class may say `True` to everything. Write:
  a == b                 alike(a, b), which compares exact types and what they hold
  a != b                 not alike(a, b)
  a in b                 holds(b, a)
  set(a) == set(b)       alike_in_any_order(a, b), of elements that come once
  a.keys() == b.keys()   alike_in_any_order(a, b)
  "word" in str(error)   "word" in plain_text(error)
  len(a) == 3            len([*a]) == 3
and where the requirement is about the class's own `==`: says_equal(a, b). All are in
scutch.lawkit.equality; `trials/comparisons.py` says which values are the judge's own.
"""

PLAIN = (str, int, float, complex, bool, bytes, type(None))


def is_plain(value):
    """Whether a drawn value is built-in in every part: the driver does not build such ones."""
    if type(value) is dict:
        return all(map(is_plain, [*value, *value.values()]))
    parts = value if type(value) in (tuple, list, set, frozenset) else None
    return type(value) in PLAIN if parts is None else all(map(is_plain, parts))


@pytest.fixture(scope="module")
def modules():
    """For each module of laws the parameters of each law that are drawn as plain data."""
    found = defaultdict(dict)
    for law in suite.laws():
        drawn = []
        fixtures = dict.fromkeys(law.fixtures)
        hypothesis_parts.search(
            law.function, drawn.append, fixtures=fixtures, examples=2, seed=0, shrink=False
        )
        own = [name for name in drawn[0] if all(is_plain(inputs[name]) for inputs in drawn)]
        found[law.function.__module__][law.function.__name__] = frozenset(own)
    return found


def test_no_comparison_of_a_law_is_left_to_the_implementation(modules):
    found, used = [], set()
    for name, plain in modules.items():
        module = importlib.import_module(name)
        for node in undecided(inspect.getsource(module), plain):
            key = name.rpartition(".")[2], ast.unparse(node)
            used.add(key)
            if key not in ALLOWED:
                found.append(f"{module.__file__}:{node.lineno}: {ast.unparse(node)}")
    assert not found, "\n".join([*found, INSTEAD])
    assert used >= ALLOWED.keys(), f"remove {ALLOWED.keys() - used} from ALLOWED"


def test_the_functions_to_write_instead_are_there():
    named = {name for name in EXACT if hasattr(equality, name)}
    assert named >= {"alike", "alike_in_any_order", "holds", "plain_text", "says_equal"}


LAW = """
KINDS = ("scan", "vmap")

def helper(nnx, kind, value):
    {helped}
    return value

def test_law(nnx, root, kind, number):
    seen = []
    made = {{"a": nnx.make(root)}}
    def work(module, x):
        seen.append(x)
        return x
    found = helper(nnx, kind, nnx.call(work, root))
    {text}
"""

LEFT = {
    "a result": "assert found == 3",
    "an attribute": "assert found.name == 'a'",
    "a shape": "assert (found.shape, number) == ((2,), number)",
    "what is not equal": "assert found != kind",
    "the other side": "assert kind == root.kind",
    "a member": "assert kind in found",
    "no member": "assert found not in KINDS",
    "a built input": "assert root == root",
    "a list of results": "assert [each.name for each in found] == ['a']",
    "a new list": "assert [*found] == [1]",
    "a set of results": "assert len({*found}) == 1",
    "the length that it says": "assert len(found) == 1",
    "the number that it iterates over": "assert sum(each for each in found) == 1",
    "a text": "assert str(found) == 'text'",
    "what was seen inside": "assert seen == [1]",
    "an item of the judge's": "assert made['a'] == 1",
    "a name for it": "other = found\n    assert other == 1",
    "a part of it": "one, *rest = found\n    assert rest == []",
    "in a loop": "for each in found:\n        assert each == 1",
    "in a loop over items": "for key, each in made.items():\n        assert each == kind",
    "in a lambda": "nnx.map(lambda path: path == ('a',))",
    "in an inner function": "def take(path):\n        return path == kind\n    nnx.map(take)",
    "in a comprehension": "assert any(each == 1 for each in found)",
    "by walrus": "assert (other := found) and other == 1",
    "of a chain": "assert number == number == found",
    "under a condition": "assert (3 if number else found) == 3",
    "what a context gives": "with nnx.context() as other:\n        assert other == 1",
    "a method of the same name": "assert root.holds(3) == found.alike(3)",
    "a name for something else": "alike = nnx.alike\n    assert alike(3) == 3",
    "an error": "try:\n        pass\n    except Exception as error:\n        assert error == 1",
}

DECIDED = {
    "a literal": "assert kind == 'scan'",
    "a constant": "assert kind in KINDS",
    "drawn data": "assert number + 1 == len(KINDS)",
    "the judge's equality": "assert alike(found, 3) == (number == 3)",
    "identity": "assert [*map(id, found)] == [id(root)]",
    "the object itself": "assert found is root",
    "a hash": "assert hash(found) == hash(root)",
    "the length of a list": "assert len([*found]) == number",
    "how often the law's function ran": "assert len(seen) == number",
    "a number made of it": "assert int(found) == 3",
    "a word in a text": "assert 'word' in plain_text(found)",
    "its `==`": "assert says_equal(found, root) is (kind == 'scan')",
    "the keys of the judge's": "assert made.keys() == {'a'}",
    "its own class": "class Own:\n        def __eq__(self, other):\n            return self == 3",
}

PLAIN_PARAMETERS = {"test_law": frozenset({"kind", "number"})}


@pytest.mark.parametrize("text", LEFT.values(), ids=LEFT)
def test_what_an_implementation_could_decide_is_found(text):
    assert undecided(LAW.format(text=text, helped="pass"), PLAIN_PARAMETERS)


@pytest.mark.parametrize("text", DECIDED.values(), ids=DECIDED)
def test_what_the_judge_decides_is_left_alone(text):
    assert not undecided(LAW.format(text=text, helped="pass"), PLAIN_PARAMETERS)


def test_functions_of_a_module_are_followed():
    kind = LAW.format(text="pass", helped="assert kind == 'scan'")
    value = LAW.format(text="pass", helped="assert value == 'scan'")
    assert not undecided(kind, PLAIN_PARAMETERS)
    assert undecided(value, PLAIN_PARAMETERS)
    assert undecided(f"{kind}\n    nnx.call(helper)", PLAIN_PARAMETERS)


NAN = float("nan")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "complex64"])
def test_nan_is_alike_and_near_to_nan_alone(dtype):
    """A copy of an array that holds NaN is alike and near to it; an array with a number is not."""
    one, copy, other = (jnp.asarray([1.0, x], dtype) for x in (NAN, NAN, 2.0))
    assert alike(one, copy)
    assert near(one, copy, **CALLS)
    assert not alike(one, other)
    assert not near(one, other, **CALLS)
    assert not near(other, one, **CALLS)


def test_nan_in_a_container_is_alike_to_another_nan():
    assert alike({"scale": NAN}, {"scale": float("nan")})
    assert not alike({"scale": NAN}, {"scale": 1.0})
    assert not alike([1.0], [NAN])


@pytest.mark.parametrize("box", [Unlisted, Tabled])
def test_boxes_are_compared_by_what_a_user_reads(box):
    """A mesh that is in no field, and in no attribute, is a part of the box all the same."""
    mesh, other = (jax.make_mesh((1,), (axis,)) for axis in ("data", "model"))
    one = box(jnp.zeros(2), ("data",), mesh=mesh)
    assert alike(one, box(jnp.zeros(2), ("data",), mesh=mesh))
    assert not alike(one, box(jnp.zeros(2), ("data",), mesh=other))
    assert not alike(one, box(jnp.zeros(2), ("data",)))
    assert not alike(one, box(jnp.zeros(2), ("model",), mesh=mesh))
    assert not alike(one, box(jnp.ones(2), ("data",), mesh=mesh))


@pytest.mark.parametrize(("box", "broken"), [(Unlisted, False), (LosesUnlisted, True)])
def test_a_box_that_loses_an_unlisted_mesh_is_convicted_and_an_honest_one_is_not(box, broken):
    laws = suite.tried_by(
        f"metadata/box-{each}"
        for each in (
            "axes/removing-undoes-adding",
            "axes/adding-undoes-removing",
            "equality/copies-equal-the-original",
            "values/replacing-keeps-metadata",
            "nodes/unflattening-restores-the-box",
            "values/axes-commute-with-replacing",
        )
    )
    trials = [try_law(law, hidden(box), examples=30) for law in laws if law.subject != "logical"]
    failed = {trial.requirement for trial in trials if trial.outcome == "failed"}
    assert len(trials) >= 6
    assert failed == (
        {"metadata/box-axes/removing-undoes-adding", "metadata/box-axes/adding-undoes-removing"}
        if broken
        else set()
    )
