"""Promises about the bridge's variables that only the reference makes; the judge tests the rest."""

import copy
import pickle
import threading

import jax
import jax.numpy as jnp
import pytest
from scutch_reference import bridge, meta, nnx
from scutch_reference.errors import CrossingError, RegistryError


def test_threads_agree_on_a_new_type():
    """However many ask for a name at once, there is one type."""
    found, barrier = [], threading.Barrier(8)

    def ask():
        barrier.wait()
        found.append(bridge.variable_type("asked_at_once"))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len({*found}) == 1


def test_todays_names_register_only_when_allowed():
    """`variable_type` always does; the names of Flax 0.12 ask for leave."""
    with pytest.raises(RegistryError, match="never_seen"):
        bridge.variable_type_from_name("never_seen")
    with pytest.raises(RegistryError, match="Unnamed"):
        bridge.variable_name_from_type(type("Unnamed", (nnx.Variable,), {}))
    made = bridge.variable_type_from_name("derived", base=nnx.Param, allow_register=True)
    assert issubclass(made, nnx.Param)

    @bridge.register_variable_name("decorated")
    class Decorated(nnx.Variable):
        pass

    assert bridge.variable_type("decorated") is Decorated


def test_a_type_has_one_name():
    """A second name is refused, or takes the place of the first."""
    typ = bridge.variable_type("first_name")
    with pytest.raises(RegistryError, match="first_name"):
        bridge.register_variable_name_type_pair("second_name", typ)
    bridge.register_variable_name_type_pair("second_name", typ, overwrite=True)
    assert bridge.variable_type_name(typ) == "second_name"
    assert bridge.variable_type("first_name") is not typ
    with pytest.raises(RegistryError, match="expected a variable type"):
        bridge.register_variable_name_type_pair("third_name", int)


def test_a_box_of_a_variable_is_copied_pickled_and_cached_whole():
    """Its metadata may hold lists, which count by content."""
    box = bridge.NNXMeta(nnx.Param, jnp.ones(2), {"note": [1, 2]})
    other = bridge.NNXMeta(nnx.Param, jnp.ones(2), {"note": [1, 3]})
    assert box == copy.deepcopy(box) == pickle.loads(pickle.dumps(box)) != other
    assert hash(box) == hash(copy.deepcopy(box))
    traced = []
    double = jax.jit(lambda x: traced.append(0) or jax.tree.map(lambda y: 2 * y, x))
    assert double(box).metadata == double(copy.deepcopy(box)).metadata == box.metadata
    assert double(other).metadata == other.metadata
    assert len(traced) == 2


def test_the_hooks_of_an_axis_run():
    """A box that gains an axis tells the hooks of its variable."""
    events = []
    hook = lambda variable, index, name: events.append((index, name))  # noqa: E731
    box = bridge.NNXMeta(nnx.Param, jnp.ones(2), {"out_sharding": ("a",), "on_add_axis": hook})
    assert box.add_axis(0, {meta.PARTITION_NAME: "b"}).metadata["out_sharding"] == ("b", "a")
    assert events == [(0, "b")]
    assert box.metadata["out_sharding"] == ("a",)


def test_what_cannot_cross_is_refused():
    """The error says why the value cannot cross."""

    class Bare(meta.Partitioned):
        def to_nnx_metadata(self):
            return {"names": self.names}

    with pytest.raises(CrossingError, match="must have a value"):
        bridge.to_nnx_var("params", Bare(1.0, ()))
    with pytest.raises(CrossingError, match=r"1\.0 as the collection 'params'; expected a mapping"):
        bridge.linen_vars_to_nnx_attrs({"params": 1.0})
    with pytest.raises(CrossingError, match="expected a variable or a graph definition"):
        bridge.nnx_attrs_to_linen_vars({"a": {"b": 1.0}})
    with pytest.raises(CrossingError, match=r"\('a',\) is in both 'params' and 'cache'"):
        bridge.linen_vars_to_nnx_attrs({"params": {"a": 1.0}, "cache": {"a": {"b": 2.0}}})


def test_a_wrapper_says_what_lies_in_its_collections():
    """The collections hold boxes of variables by default, or the results of `metadata_fn`."""

    class Scale(nnx.Module):
        def __init__(self):
            self.factor = nnx.Param(jnp.ones(2), note="some")

        def __call__(self, x):
            return self.factor * x

    boxed = bridge.to_linen(Scale).init({}, 1.0)["params"]["factor"]
    assert boxed.metadata["note"] == "some"
    bare = bridge.to_linen(Scale, metadata_fn=lambda variable: variable.get_raw_value())
    assert isinstance(bare.init({}, 1.0)["params"]["factor"], jax.Array)
