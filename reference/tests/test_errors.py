"""Each error names the operation that failed, the value that it got, and the expectation."""

import copy
import inspect
import pickle
import re
import string
import textwrap

import jax
import numpy as np
import pytest
import scutch_reference as ref
from jax.sharding import Mesh, PartitionSpec
from scutch_reference import LogicallyPartitioned, Partitioned, bridge, errors, linen, nnx

LAYERS = {ref.PARTITION_NAME: "layers"}
RULES = (("batch", "data"), ("embed", None))


@pytest.fixture
def box():
    """A box with a named and an unsharded axis."""
    return Partitioned(np.ones((4, 2)), ("data", None))


@pytest.fixture
def mesh():
    """Eight devices in two axes."""
    return Mesh(np.array(jax.devices()[:8]).reshape(2, 4), ("data", "model"))


@pytest.mark.parametrize("change", ["add_axis", "remove_axis"])
def test_a_missing_partition_name_shows_the_box_and_the_remedy(box, change):
    """The message names the box, and shows a right `metadata_params`."""
    with pytest.raises(errors.PartitioningUnspecifiedError) as caught:
        getattr(box, change)(0, {"other": 1})
    text = str(caught.value)
    assert "Partitioned(names=('data', None))" in text
    assert "metadata_params={'partition_name': 'layers'}" in text
    assert "{'other': 1}" in text


def test_removing_an_axis_of_another_name_shows_both_names(box):
    """The name found and the name expected are both there."""
    with pytest.raises(ValueError, match=r"remove axis 0 of .* as 'layers', .* named 'data'"):
        box.remove_axis(0, LAYERS)


def test_removing_a_named_axis_beyond_the_names_is_refused(box):
    """Beyond the names the axes are unsharded."""
    with pytest.raises(errors.AxisNameError, match="there is named None"):
        box.remove_axis(7, LAYERS)


def test_a_negative_index_out_of_range_shows_the_lowest(box):
    """A new axis may come before the first, and no further."""
    assert box.add_axis(-3, LAYERS).names == ("layers", "data", None)
    with pytest.raises(
        IndexError, match=r"index -4 is out of range .* lowest possible index is -3"
    ):
        box.add_axis(-4, LAYERS)
    with pytest.raises(
        IndexError, match=r"index -3 is out of range .* lowest possible index is -2"
    ):
        box.remove_axis(-3, LAYERS)


@pytest.mark.parametrize("names", ["data", None, 3, ({},)])
def test_names_that_are_no_sequence_are_refused(names):
    """A string is the usual mistake."""
    with pytest.raises(errors.NamesError, match="one entry for each axis, got"):
        Partitioned(1.0, names)


@pytest.mark.parametrize(
    ("updates", "message"),
    [
        ({"a": [1, 2]}, r"At \['c'\] the tree has an array float64\[3\], the updates have nothing"),
        ({"a": [1, 2], "c": 3, "d": 4}, r"At \['d'\] the tree has nothing, .* have a leaf int"),
        ({"a": [1, 2, 3], "c": 3}, r"At \['a'\]\[2\] the tree has nothing"),
        ({"a": (1, 2), "c": 3}, r"At \['a'\] the tree has a list with .* a tuple with"),
        ({"a": [{"x": 1}, 2], "c": 3}, r"At \['a'\]\[0\] the tree has an array .* a dict with"),
        ({"a": [None, 2], "c": 3}, r"At \['a'\]\[0\] the tree has an array .* have None"),
        ({"a": [1, 2], "c": [3]}, r"At \['c'\] the tree has an array .* a list with \[0\]"),
        (3, "At the root the tree has a dict .* have a leaf int"),
    ],
)
def test_updates_of_another_structure_are_refused_with_the_place(box, updates, message):
    """The message has the key path, and the entries of the tree and of the updates there."""
    tree = {"a": [box, 1], "c": Partitioned(Partitioned(np.ones(3), ("data",)), (None,))}
    with pytest.raises(errors.StructureMismatchError, match=message):
        ref.replace_boxed(tree, updates)


def test_an_error_of_a_box_is_not_taken_for_a_mismatch(box):
    """A `ValueError` from a box's own method passes through."""

    class Picky(Partitioned):
        def replace_boxed(self, val):
            raise ValueError("only on Sundays")

    with pytest.raises(ValueError, match="only on Sundays"):
        ref.replace_boxed([box, Picky(1.0, ())], [1, 2])


def test_virtual_box_classes_are_refused():
    """Boxes are told by their class, which derives from `AxisMetadata`."""
    with pytest.raises(TypeError, match="int must derive from AxisMetadata"):
        ref.AxisMetadata.register(int)


def test_boxes_cannot_be_changed(box):
    """Neither a field nor anything else can be set or deleted, in subclasses too."""
    for kept in (box, LogicallyPartitioned(1.0, (), rules=RULES)):
        for name in ("names", "rules", "new"):
            with pytest.raises(AttributeError, match=f"cannot assign to field '{name}'"):
                setattr(kept, name, ())
        with pytest.raises(AttributeError, match="cannot delete field 'names'"):
            del kept.names


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"batch": "data"}, "must be a tuple or a list, got {'batch': 'data'}"),
        ((("batch",),), r"must be a pair, got \('batch',\)"),
        (("batch",), "must be a pair, got 'batch'"),
        (((0, "data"),), r"begin with a logical name, got \(0, 'data'\)"),
        ((("batch", 0),), r"end with mesh axes, got \('batch', 0\)"),
        ((("batch", ("data", "data")),), "must use each mesh axis once, got"),
    ],
)
def test_malformed_rules_are_refused_wherever_they_come_in(rules, message):
    """Also when they are only set."""
    for use in (
        lambda: ref.set_logical_axis_rules(rules),
        lambda: ref.logical_to_mesh_axes(("batch",), rules),
        lambda: LogicallyPartitioned(1.0, (), rules=rules),
    ):
        with pytest.raises(errors.AxisRulesError, match=message):
            use()


def test_a_repeated_logical_name_is_named():
    """So are mesh axes that occur twice among the names."""
    with pytest.raises(ValueError, match=r"\('batch',\) occur more than once in \('batch', None"):
        ref.logical_to_mesh_axes(("batch", None, "batch"), RULES)
    with pytest.raises(ValueError, match=r"\('data',\) occur more than once"):
        ref.logical_to_mesh_axes((("data",), ("model", "data")), RULES)


def test_a_tree_of_specs_has_specs_only():
    """A bare name in the tree is refused, and not read letter by letter."""
    with pytest.raises(errors.NamesError, match="got 'batch'"):
        ref.logical_to_mesh({"a": ("batch", "embed")}, RULES)


@pytest.mark.parametrize("names", [(), ("batch",), ("batch", "embed", None)])
def test_a_constraint_of_another_rank_is_refused(mesh, names):
    """Too few names as well as too many."""
    with pytest.raises(errors.NamesError, match=rf"{len(names)} axis names .* with 2 axes"):
        ref.with_logical_constraint(np.ones((4, 2)), names, RULES, mesh)


def test_an_unmatched_name_is_refused_on_request(mesh):
    """`RAISE_ERROR` says which name and which rules."""
    with pytest.raises(errors.UnmatchedAxisError, match=r"\('heads',\) of \('batch', 'heads'\)"):
        ref.with_logical_constraint(
            np.ones((4, 2)), ("batch", "heads"), RULES, mesh, ref.RulesFallback.RAISE_ERROR
        )


def raised_ones(cls):
    """The error classes that are raised: those that have no subclasses, or show wrong code."""
    below = cls.__subclasses__()
    own = [] if below and "Wrong::" not in cls.__doc__ else [cls]
    return own + [error for each in below for error in raised_ones(each)]


def shown(error, title):
    """The code under a title in the docstring of an error class."""
    _, _, rest = inspect.getdoc(error).partition(f"{title}::\n")
    lines = [line for line in rest.splitlines() if line.strip()]
    end = lines.index("Right::") if "Right::" in lines else len(lines)
    return textwrap.dedent("\n".join(lines[:end]))


def run(code, mesh):
    """Run code of a docstring with the names that the module's docstring promises."""
    names = {"jax": jax, "jnp": jax.numpy, "P": PartitionSpec, "mesh": mesh, "ref": ref}
    exec(code, {**names, "nn": linen, "nnx": nnx, "bridge": bridge, "__name__": __name__})


@pytest.mark.parametrize("error", dict.fromkeys(raised_ones(errors.ScutchReferenceError)))
def test_the_docstring_of_an_error_shows_the_wrong_code_and_the_right(error, mesh):
    """The wrong code raises this error, whose parts are attributes; the right code runs."""
    if error is errors.ReplicationError and not hasattr(jax, "typeof"):
        pytest.skip("this JAX does not say along which axes a value may differ")
    with pytest.raises(error) as caught:
        run(shown(error, "Wrong"), mesh)
    assert type(caught.value) is error
    fields = {field for _, field, _, _ in string.Formatter().parse(error.text) if field}
    parts = {re.split(r"\W", field)[0] for field in fields}
    assert parts
    assert parts == vars(caught.value).keys() - {"__notes__"}
    with pytest.raises(AttributeError, match=f"{error.__name__} has no part 'other', only"):
        caught.value.other  # noqa: B018
    run(shown(error, "Right"), mesh)


def test_an_error_survives_copy_and_pickle(box):
    """With its parts, so that a pool of processes can hand it on."""
    with pytest.raises(errors.AxisNameError) as caught:
        box.remove_axis(0, LAYERS)
    for again in (copy.copy(caught.value), pickle.loads(pickle.dumps(caught.value))):
        assert str(again) == str(caught.value)
        assert (again.names, again.index, again.found, again.name) == (
            ("data", None),
            0,
            "data",
            "layers",
        )
