"""Containers of JAX around objects, and inside them: OBJ-8p, JIT-3k.

JAX knows more containers than lists, tuples and dictionaries: named tuples, and classes that are
registered as nodes. The oracles are JAX's own transformation of the arrays that the objects hold,
and the eager call.
"""

import collections
import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from scutch.inputs.graphs import classes
from scutch.lawkit.equality import alike
from scutch.lawkit.marks import costly, raised, reached, requirement


class Named(collections.namedtuple("Named", ["one", "two"])):
    """A named tuple."""

    __slots__ = ()


_registered = functools.partial(
    jax.tree_util.register_dataclass, data_fields=["one", "two"], meta_fields=[]
)


@_registered
@dataclasses.dataclass
class Record:
    """A dataclass whose fields can be set."""

    one: Any
    two: Any


@_registered
@dataclasses.dataclass(frozen=True)
class Frozen:
    """A dataclass whose fields stay."""

    one: Any
    two: Any


@jax.tree_util.register_pytree_with_keys_class
class Holder:
    """A class that is registered by its own methods, with static data beside its parts."""

    def __init__(self, one: Any, two: Any, scale: int = 1) -> None:
        """Keep two parts."""
        self.one, self.two, self.scale = one, two, scale

    def tree_flatten_with_keys(self) -> Any:
        """The parts by name, and the static scale."""
        names = map(jax.tree_util.GetAttrKey, ("one", "two"))
        return tuple(zip(names, (self.one, self.two), strict=True)), self.scale

    @classmethod
    def tree_unflatten(cls, scale: int, parts: Any) -> Any:
        """A holder of new parts."""
        return cls(parts[0], parts[1], scale)


KINDS = {"named tuple": Named, "dataclass": Record, "frozen dataclass": Frozen, "class": Holder}
CHANGES = ("part", "value", "static", "whole")
changes = st.tuples(st.sampled_from(CHANGES), st.sampled_from(["one", "two"]), st.integers(2, 5))


@requirement(
    "transformations/nothing-lost/jit-of-objects[container-changed-before]",
    must_reach=(*KINDS, *CHANGES),
)
@costly
@given(
    kind=st.sampled_from(list(KINDS)),
    steps=st.lists(changes, min_size=2, max_size=5),
    inner=st.sampled_from(["array", "variable"]),
    deep=st.booleans(),
)
def test_a_change_in_a_container_of_jax_is_seen(transforms, nnx, kind, steps, inner, deep):
    """A jitted call sees every change in a JAX container that its object holds.

    The container is a named tuple, a dataclass or a registered class. Since the call before, a
    part, its value, the static data or the whole container has changed. The result equals that of
    the eager call.
    """

    def part(number):
        value = jnp.full(2, number, "float32")
        return nnx.Param(value) if inner == "variable" else value

    module = classes(nnx)["Node"]()
    holder = KINDS[kind](part(1), part(2))
    module.a = nnx.data([holder] if deep else holder)

    def function(module, x):
        held = module.a[0] if deep else module.a
        values = [v.get_value() if inner == "variable" else v for v in (held.one, held.two)]
        return getattr(held, "scale", 1) * values[0] + x * values[1]

    jitted = transforms.jit(function)
    x = jnp.arange(2.0)
    jitted(module, x)
    for what, name, number in steps:
        held = module.a[0] if deep else module.a
        settable = kind in ("dataclass", "class")
        possible = {"value": inner == "variable", "part": settable, "static": kind == "class"}
        what = what if possible.get(what) else "whole"
        reached(what)
        if what == "value":
            getattr(held, name).set_value(jnp.full(2, number, "float32"))
        elif what == "part":
            setattr(held, name, part(number))
        elif what == "static":
            held.scale = number
        else:
            new = KINDS[kind](part(number), part(number + 1))
            if deep:
                module.a[0] = new
            else:
                module.a = nnx.data(new)
        found, expected = jitted(module, x), function(module, x)
        assert np.array_equal(found, expected), f"{found} after {what}; eagerly {expected}"


@jax.tree_util.register_pytree_node_class
class Unnamed:
    """A class that is registered without names for its parts."""

    def __init__(self, one: Any, two: Any) -> None:
        """Keep two parts."""
        self.one, self.two = one, two

    def tree_flatten(self) -> Any:
        """The parts; nothing is static."""
        return (self.one, self.two), None

    @classmethod
    def tree_unflatten(cls, static: None, parts: Any) -> Any:
        """An object with new parts."""
        return cls(*parts)


@jax.tree_util.register_pytree_with_keys_class
class Numbered(Unnamed):
    """A class that is registered with numbers for its parts, as lists have."""

    def tree_flatten_with_keys(self) -> Any:
        """The parts by number; nothing is static."""
        parts = enumerate((self.one, self.two))
        return tuple((jax.tree_util.SequenceKey(n), part) for n, part in parts), None


@dataclasses.dataclass(frozen=True, order=True)
class Part:
    """A key of a user's own class."""

    number: int


@jax.tree_util.register_pytree_with_keys_class
class Keyed(Unnamed):
    """A class that is registered with keys of a class of the user's own."""

    def tree_flatten_with_keys(self) -> Any:
        """The parts by key; nothing is static."""
        return ((Part(0), self.one), (Part(1), self.two)), None


HELD = {
    **KINDS,
    "unnamed": Unnamed,
    "numbered": Numbered,
    "own keys": Keyed,
    "ordered": lambda one, two: collections.OrderedDict(two=two, one=one),
    "default": lambda one, two: collections.defaultdict(list, two=two, one=one),
}


def _parts(held):
    """The two parts of a container made by `HELD`."""
    return [held[k] if isinstance(held, dict) else getattr(held, k) for k in ("one", "two")]


@requirement("objects/containers/jax-containers-are-walked", must_reach=tuple(HELD))
@given(
    kind=st.sampled_from(list(HELD)),
    inner=st.sampled_from(["array", "variable", "object"]),
    deep=st.booleans(),
    how=st.sampled_from(["merge", "clone", "update"]),
)
def test_containers_of_jax_are_part_of_the_graph(nnx, kind, inner, deep, how):
    """The state of an object has the parts of a held JAX container, each under its own path.

    `merge` and `clone` make a container of the same type with equal parts. `update` sets the parts,
    or refuses to if they are arrays.
    """

    def part(number):
        if inner == "array":
            return np.full(2, number)
        if inner == "variable":
            return nnx.Param(np.full(2, number))
        branch = classes(nnx)["Branch"]()
        branch.a = nnx.Param(np.full(2, number))
        return branch

    def value(part):
        leaf = part.a if inner == "object" else part
        return leaf if inner == "array" else leaf.get_value()

    def module(first):
        root = classes(nnx)["Node"]()
        held = HELD[kind](part(first), part(first + 1))
        root.a = nnx.data([held] if deep else held)
        return root

    root, numbers = module(1), [1, 2]
    assert alike(len({path for path, _ in nnx.to_flat_state(nnx.state(root))}), 2)
    if how == "update":
        error = raised(lambda: nnx.update(root, nnx.state(module(3))))
        if error is not None:  # an array in what cannot be changed
            assert alike(inner, "array"), error
            return
        found, numbers = root, [3, 4]
    else:
        found = nnx.clone(root) if how == "clone" else nnx.merge(*nnx.split(root))
    held = found.a[0] if deep else found.a
    assert type(held) is type(HELD[kind](1, 2))
    assert alike([*map(value, _parts(held))], [np.full(2, number) for number in numbers])


def _containers(leaves):
    """Containers of two leaves."""
    pairs = st.tuples(leaves, leaves)
    return st.one_of(
        st.builds(lambda pair: {"one": pair[0], "two": pair[1]}, pairs),
        st.builds(list, pairs),
        pairs,
        st.builds(lambda leaf: [leaf], leaves),
    )


LEAF = "leaf"
shapes = st.one_of(_containers(st.just(LEAF)), _containers(_containers(st.just(LEAF))))
WAYS = ("same", "leaf", "too short", "too long", "other type", "deeper")


def _prefix(tree, way, value):
    """A prefix of a tree of leaves, or a tree that is no prefix of it, filled with one value."""
    whole = jax.tree.map(lambda _: value, tree)
    match way:
        case "leaf":
            return value
        case "deeper":
            return jax.tree.map(lambda leaf: [leaf], whole)
        case "other type":
            if isinstance(tree, dict):
                return list(whole.values())
            return dict(enumerate(whole)) if isinstance(tree, tuple) else tuple(whole)
        case "too short" if isinstance(tree, dict):
            return {"one": whole["one"]}
        case "too short":
            return whole[:-1]
        case "too long" if isinstance(tree, dict):
            return {**whole, "three": value}
        case "too long":
            return type(tree)([*whole, value])
    return whole


@requirement(
    "transformations/options/lifts-of-objects[prefix]",
    must_reach=("vmap", "jit", "refused", "accepted"),
)
@given(kind=st.sampled_from(["vmap", "jit"]), tree=shapes, way=st.sampled_from(WAYS))
def test_a_prefix_fits_objects_where_it_fits_their_arrays(transforms, nnx, kind, tree, way):
    """A container of objects takes the prefixes of axes or shardings that JAX takes for the same
    container of arrays, and refuses those that JAX refuses.
    """
    mesh = Mesh(np.array(jax.devices()[:1]), ("data",))
    value = 0 if kind == "vmap" else NamedSharding(mesh, PartitionSpec("data"))
    prefix = _prefix(tree, way, value)

    def objects():
        def made(_):
            module = classes(nnx)["Node"]()
            module.a = nnx.Param(jnp.ones((2, 3)))
            return module

        return jax.tree.map(made, tree)

    def leaves(tree):
        return jax.tree.leaves(tree, is_leaf=lambda each: isinstance(each, nnx.Pytree))

    def of_objects(tree):
        return sum(module.a.get_value() for module in leaves(tree))

    def of_arrays(tree):
        return sum(jax.tree.leaves(tree))

    option = {"in_axes" if kind == "vmap" else "in_shardings": (prefix,)}
    arrays = jax.tree.map(lambda _: jnp.ones((2, 3)), tree)
    refusal = raised(lambda: getattr(jax, kind)(of_arrays, **option)(arrays))
    found = []
    error = raised(lambda: found.append(getattr(transforms, kind)(of_objects, **option)(objects())))
    if refusal is not None:
        reached("refused")
        assert error is not None, f"it was accepted; JAX refuses: {refusal}"
        return
    reached("accepted")
    assert error is None, f"it raised {error!r}; JAX accepts"
    assert np.array_equal(found[0], of_arrays(arrays))
