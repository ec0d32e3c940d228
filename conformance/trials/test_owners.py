"""One box class, judged from the test file of its owner."""

import dataclasses
import functools
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import jax
import numpy as np
import pytest
import scutch
from jax.sharding import PartitionSpec
from scutch.adapters.reference import implementation
from scutch_reference import meta


@jax.tree_util.register_pytree_node_class
@dataclasses.dataclass(frozen=True)
class Quantized(meta.AxisMetadata):
    """A box as a user would write it, with a scale beside the names."""

    payload: object
    names: tuple
    scale: float = 1.0

    def tree_flatten(self):
        return (self.payload,), (self.names, self.scale)

    @classmethod
    def tree_unflatten(cls, static, children):
        return cls(*children, *static)

    def unbox(self):
        return self.payload

    def replace_boxed(self, val):
        return dataclasses.replace(self, payload=val)

    def add_axis(self, index, params):
        names = [*self.names[:index], params["partition_name"], *self.names[index:]]
        return dataclasses.replace(self, names=tuple(names))

    def remove_axis(self, index, params):
        if self.names[index] != params["partition_name"]:
            raise ValueError(f"axis {index} of {self} is not {params['partition_name']!r}")
        return dataclasses.replace(self, names=(*self.names[:index], *self.names[index + 1 :]))


class Forgetful(Quantized):
    """Breaks BOX-4a: `replace_boxed` forgets the scale."""

    def replace_boxed(self, val):
        return type(self)(val, self.names)


jax.tree_util.register_pytree_node_class(Forgetful)


def test_a_box_class_that_obeys_the_laws_is_told_so():
    judgment = scutch.judge_box(Quantized, implementation=implementation)
    assert {r.verdict for r in judgment.rulings} == {"passed"}
    assert {
        "metadata/box-axes/removing-undoes-adding",
        "metadata/box-values/inputs-stay-unchanged",
        "transformations/fits-rank/lifts-of-linen[own-methods]",
    } <= {r.requirement.id for r in judgment.rulings}
    assert judgment.lacks == ("a partition spec",)
    assert judgment.untried == (
        "metadata/box-specs/names-become-the-spec",
        "bridge/variables/foreign-box-crosses",
    )


SPEC = "metadata/box-specs/names-become-the-spec"


@pytest.mark.parametrize(
    ("spec", "judged"),
    [
        (lambda names: names[::-1], True),
        (lambda names: names[:-1], True),
        (lambda names: (), True),
        (lambda names: [None if name == "layers" else name for name in names], False),
    ],
    ids=["reversed", "cut", "empty", "mapped"],
)
def test_a_spec_is_judged_unless_it_maps_each_name(spec, judged):
    """A class may map names to other mesh axes; its spec is not to lose or move one."""

    class Sharded(Quantized):
        def get_partition_spec(self):
            return PartitionSpec(*spec(self.names))

    jax.tree_util.register_pytree_node_class(Sharded)
    judge = functools.partial(scutch.judge_box, Sharded, implementation=implementation)
    if judged:
        with pytest.raises(scutch.Nonconforming, match=SPEC):
            judge(requirements=[SPEC])
    else:
        assert (
            SPEC in judge(requirements=[SPEC, "metadata/box-axes/removing-undoes-adding"]).untried
        )


def test_a_box_class_that_does_not_is_told_where():
    with pytest.raises(scutch.Nonconforming) as caught:
        scutch.judge_box(
            Forgetful,
            make=lambda value, names: Forgetful(value, names, 2.0),
            implementation="reference",
        )
    text = str(caught.value)
    assert "Forgetful breaks" in text
    assert (
        "metadata/box-values/replacing-keeps-metadata `box.replace_boxed` changes the value only"
        in text
    )
    assert "  one = make(np.arange(1, 3).reshape((2,)).astype('float32'), ('data',))" in text
    assert "replay: judge_box(..., replay='test_replacing_keeps_all_but_the_value(box=" in text
    assert "metadata/box-values/replacing-keeps-metadata" in [
        r.requirement.id for r in caught.value.judgment.broken
    ]
    assert all(isinstance(error, AssertionError) for error in caught.value.exceptions)


def test_an_unknown_implementation_is_refused():
    with pytest.raises(scutch.SetupError, match="unknown implementation 'flux'"):
        scutch.judge_box(Quantized, implementation="flux")


def test_a_pattern_that_names_nothing_is_refused():
    with pytest.raises(scutch.SetupError, match="BOX-99"):
        scutch.judge_box(Quantized, implementation="reference", requirements=["BOX-99"])


class Evasive(Quantized):
    """Skips the test of its owner while it is examined."""

    def add_axis(self, index, params):
        pytest.skip("not here")


class Fleeing(Quantized):
    """Ends Python while it is examined."""

    def unbox(self):
        raise SystemExit(0)

    def add_axis(self, index, params):
        return self.unbox()


class Shy(Quantized):
    """Takes no payload but the array with which the judge examines a class."""

    def __init__(self, payload, names, scale=1.0):
        examined_with = np.ones((2, 3), "float32")
        if repr(payload) != repr(examined_with):
            raise ValueError("not this")
        super().__init__(payload, names, scale)


for each in (Evasive, Fleeing, Shy):
    jax.tree_util.register_pytree_node_class(each)


@pytest.mark.parametrize("box_class", [Evasive, Fleeing])
def test_a_class_that_gives_an_order_while_it_is_examined_is_refused(box_class):
    with pytest.raises(scutch.SetupError, match="raised while one box was examined"):
        scutch.judge_box(box_class, implementation=implementation)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"requirements": []}, "leave nothing to judge by"),
        ({"requirements": ["objects/graphs"]}, "no law about this class"),
        ({"exclude": ["metadata", "transformations", "bridge"]}, "leave nothing to judge by"),
        ({"replay": "test_no_such_law()"}, "no law about this class"),
        (
            {
                "replay": "test_removing_an_added_axis_restores_the_box("
                "box=Box(Array((2,), 'float32', 0), ('data',), Mesh((2,), ('data',))), "
                "index=0, name='model')"
            },
            "the law is not about this input",
        ),
    ],
)
def test_a_call_that_tries_nothing_is_refused(arguments, why):
    with pytest.raises(scutch.SetupError, match=why):
        scutch.judge_box(Quantized, implementation=implementation, **arguments)


def numberless(value, names):
    if isinstance(value, int | float):
        raise TypeError("no numbers")
    return Quantized(value, names)


def of_float32(value, names):
    if getattr(value, "dtype", None) != np.float32:
        raise TypeError("only float32")
    return Quantized(value, names)


@pytest.mark.parametrize("make", [numberless, of_float32])
def test_a_maker_may_refuse_values(make):
    judgment = scutch.judge_box(
        Quantized,
        make=make,
        implementation=implementation,
        requirements=["metadata/box-values", "metadata/box-nodes"],
    )
    assert "metadata/box-values/unbox-returns-same-object" in {
        ruling.requirement.id for ruling in judgment.rulings
    }


def test_a_class_of_which_no_law_can_make_a_box_is_refused():
    with pytest.raises(scutch.SetupError, match="no box could be made for any law"):
        scutch.judge_box(
            Shy,
            implementation=implementation,
            requirements=["metadata/box-axes/removing-undoes-adding"],
        )


def test_a_class_of_tests_has_an_item_for_each_requirement(tmp_path):
    (tmp_path / "test_boxes.py").write_text(
        "import scutch\n"
        "from trials.test_owners import Forgetful, implementation\n"
        "class TestForgetful(scutch.BoxTests):\n"
        "    box = Forgetful\n"
        "    make = lambda value, names: Forgetful(value, names, 2.0)\n"
        "    implementation = implementation\n"
        "class TestKnown(TestForgetful):\n"
        "    known = {'metadata/box-values/replacing-keeps-metadata': 'we never replace'}\n"
    )
    report = tmp_path / "report.xml"
    chosen = "replacing-keeps-metadata or removing-undoes-adding or names-become-the-spec"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-c",
        os.devnull,
        "--rootdir",
        tmp_path,
        f"--junitxml={report}",
        "-k",
        chosen,
        tmp_path / "test_boxes.py",
    ]
    paths = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    environment = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    outcomes = {
        (case.get("classname").rpartition(".")[2], case.get("name").rpartition("/")[2][:-1]): (
            [(each.tag, each.get("message")) for each in case] or [("passed", "")]
        )[0]
        for case in ElementTree.parse(report).getroot()[0]
    }
    kept = "removing-undoes-adding", "replacing-keeps-metadata", "names-become-the-spec"
    (first, second, third) = (outcomes["TestForgetful", name] for name in kept)
    assert first == ("passed", ""), done.stdout
    assert second[0] == "failure"
    assert "Forgetful breaks metadata/box-values/replacing-keeps-metadata" in second[1]
    assert third[0] == "skipped"
    assert "no law about this class" in third[1]
    assert outcomes["TestKnown", kept[1]] == ("skipped", "we never replace")
    assert len(outcomes) == 6
