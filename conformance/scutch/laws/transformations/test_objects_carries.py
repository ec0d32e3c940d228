"""Containers of objects under `grad` and `scan`, and carried objects with arrays: OBJ-7a, OBJ-7d.

The oracles are JAX's own gradient of the arrays in the container, and a loop in Python.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from scutch.inputs.graphs import classes, differences
from scutch.lawkit.domain import assume
from scutch.lawkit.equality import alike
from scutch.lawkit.marks import costly, reached, refused, requirement
from scutch.lawkit.modes import takes_modes
from scutch.lawkit.states import flat_state

SIZE = 3
X = np.arange(1, 1 + SIZE, dtype="float32")

CONTAINERS = {
    "list": list,
    "tuple": tuple,
    "dict": lambda parts: dict(zip("pqr", parts, strict=False)),
}


HELD = ("object", "array", "number")


@requirement(
    "transformations/equals-jax/grad-of-objects", must_reach=(*CONTAINERS, *HELD, "several kinds")
)
@given(
    form=st.sampled_from(list(CONTAINERS)),
    parts=st.lists(st.sampled_from(HELD), min_size=1, max_size=3),
    every=st.booleans(),
    with_value=st.booleans(),
    second=st.booleans(),
)
def test_the_gradient_of_a_container_is_a_container_of_gradients(
    transforms, nnx, form, parts, every, with_value, second
):
    """The gradient with respect to a container of objects, arrays and numbers of Python has, in the
    place of each object, the state of the gradients of its parameters, or of all its variables by
    `DiffState`, and in the place of each array or number its gradient.
    """
    reached(*["several kinds"] * (len({*parts}) > 1))
    arrays = [
        n / 2 if part == "number" else np.arange(n, n + 2, dtype="float32")
        for n, part in enumerate(parts, 1)
    ]
    factor = np.float32(3)

    def loss(values, factor):
        return factor * sum(jnp.sum((n + 1) * value**2) for n, value in enumerate(values))

    def of_container(*given):
        container, factor = given[::-1] if second else given
        found = container.values() if form == "dict" else container
        return loss([x.a.get_value() if hasattr(x, "a") else x for x in found], factor)

    def held(part, array):
        if not alike(part, "object"):
            return jnp.asarray(array) if alike(part, "array") else array
        module = classes(nnx)["Node"]()
        module.a, module.b = nnx.Param(array), nnx.BatchStat(array)
        return module

    container = CONTAINERS[form](list(map(held, parts, arrays)))
    lift = "value_and_grad" if with_value else "grad"
    number = int(second)
    argnums = transforms.DiffState(number, ...) if every else number
    ours = getattr(transforms, lift)(of_container, argnums=argnums)(
        *((factor, container) if second else (container, factor))
    )
    theirs = getattr(jax, lift)(loss)(arrays, factor)
    if with_value:
        assert alike(ours[0], theirs[0])
        ours, theirs = ours[1], theirs[1]
    assert type(ours) is type(container)
    found = [*ours.values()] if form == "dict" else [*ours]
    for part, gradient, slope in zip(parts, found, theirs, strict=True):
        if part != "object":
            assert alike(gradient, slope)
            continue
        statistics = {("b",): ("BatchStat", jnp.zeros_like(slope))} if every else {}
        leaves = flat_state(nnx, gradient).items()
        flat = {path: (type(leaf).__name__, leaf.get_value()) for path, leaf in leaves}
        assert alike(flat, {("a",): ("Param", slope), **statistics})


PARTS = ("array", "variable")


@requirement(
    "transformations/equals-jax/scan-of-objects",
    must_reach=("several arrays", "unchanged array", "changed array", *PARTS),
)
@costly
@given(
    parts=st.lists(st.sampled_from(["array", *PARTS]), min_size=2, max_size=4),
    changed=st.integers(0, 15),
    apart=st.booleans(),
)
def test_a_carried_object_may_hold_bare_arrays(transforms, nnx, parts, changed, apart):
    """Lifted `scan` of an object that is carried, in which arrays are attributes themselves beside
    variables, gives the results and updates of a Python loop; each step changes some of them.
    """
    arrays = [n for n, part in enumerate(parts) if part == "array"]
    said = {
        "several arrays": len(arrays) > 1 and not apart,
        "unchanged array": any(not changed >> n & 1 for n in arrays),
        "changed array": any(changed >> n & 1 for n in arrays),
    } | dict.fromkeys(parts, True)
    reached(*[name for name, is_so in said.items() if is_so])

    def model():
        root, inner = classes(nnx)["Node"](), classes(nnx)["Branch"]()
        root.inner = inner
        for n, part in enumerate(parts):
            array = jnp.arange(n, n + 2, dtype="float32")
            home = inner if apart and n % 2 else root
            setattr(home, f"part_{n}", array if part == "array" else nnx.Param(array))
        return root

    def step(root, x):
        homes = [root.inner if apart and n % 2 else root for n in range(len(parts))]
        found = [getattr(home, f"part_{n}") for n, home in enumerate(homes)]
        arrays = [
            value.get_value() if part == "variable" else value
            for part, value in zip(parts, found, strict=True)
        ]
        total = x + sum(jnp.sum((n + 1) * array) for n, array in enumerate(arrays))
        for n, (home, array) in enumerate(zip(homes, arrays, strict=True)):
            if changed >> n & 1 and parts[n] == "variable":
                getattr(home, f"part_{n}").set_value(array - total)
            elif changed >> n & 1:
                setattr(home, f"part_{n}", array - total)
        return root, total

    looped, scanned = model(), model()
    totals = [step(looped, x)[1] for x in X]
    carry = transforms.Carry
    lifted = transforms.scan(step, in_axes=(carry, 0), out_axes=(carry, 0))
    returned, found = lifted(scanned, X)
    assert returned is scanned
    assert alike(found, np.stack(totals))
    difference = differences(nnx, looped, scanned)
    assert not difference, f"loop and scan: {difference}"


def _container(nnx, form, parts, number):
    """A container of objects, arrays and numbers, which `number` makes."""
    found = []
    for n, part in enumerate(parts, 1):
        array = jnp.arange(n, n + 2, dtype="float32")
        if alike(part, "object"):
            found.append(classes(nnx)["Node"]())
            found[-1].a = nnx.Param(array)
        else:
            found.append(array if alike(part, "array") else number(n / 2))
    return CONTAINERS[form](found)


@requirement(
    "transformations/equals-jax/scan-of-objects",
    must_reach=(*CONTAINERS, *HELD, "changed", "reverse", "written"),
)
@costly
@given(
    form=st.sampled_from(list(CONTAINERS)),
    parts=st.lists(st.sampled_from(HELD), max_size=2).map(lambda parts: [*parts, "object"]),
    changed=st.integers(0, 7),
    reverse=st.booleans(),
    written=st.booleans(),
)
@example(form="list", parts=["array", "object"], changed=3, reverse=False, written=True)
def test_a_container_of_objects_and_arrays_may_be_carried(
    transforms, nnx, form, parts, changed, reverse, written
):
    """Lifted `scan` that carries a container of objects, arrays and numbers equals a Python loop.

    Each step changes some objects and returns them in a new container, with other arrays beside
    them. The container passed to `scan` stays unchanged. If a step also writes to its own
    container, the passed one may instead hold the values that the loop writes.
    """
    written = written and form != "tuple"
    named = {"changed": changed, "reverse": reverse, "written": written}
    reached(*[name for name, is_so in named.items() if is_so])

    made = functools.partial(_container, nnx, form, parts)

    def step(container, x):
        found = [*container.values()] if form == "dict" else [*container]
        values = [each.a.get_value() if hasattr(each, "a") else each for each in found]
        total = x + sum(jnp.sum((n + 1) * value) for n, value in enumerate(values))
        for n, value in enumerate(values):
            if changed >> n & 1 and parts[n] == "object":
                found[n].a.set_value(value - total)
            elif changed >> n & 1:
                found[n] = value - total
            if written and parts[n] != "object":
                container["pqr"[n] if form == "dict" else n] = value + total
        return CONTAINERS[form](found), total

    def listed(container):
        assert isinstance(container, type(made(float)))
        return list(jax.tree.leaves(container, is_leaf=lambda part: hasattr(part, "a")))

    carried = first = made(jnp.float32)
    totals = {}
    for i in range(SIZE)[:: -1 if reverse else 1]:
        carried, totals[i] = step(carried, X[i])
    carry, given = transforms.Carry, made(float)
    before = listed(given)
    lifted = transforms.scan(step, in_axes=(carry, 0), out_axes=(carry, 0), reverse=reverse)
    returned, found = lifted(given, X)
    assert alike(found, np.stack([totals[i] for i in range(SIZE)]))
    ends = map(listed, (given, first, carried, returned))
    for part, old, kept, left, expected, new in zip(parts, before, *ends, strict=True):
        if alike(part, "object") or not written:
            assert kept is old
        else:
            assert kept is old or alike(jnp.asarray(kept), left)
        if alike(part, "object"):
            assert new is old
            assert alike(new.a.get_value(), expected.a.get_value())
        else:
            assert alike(jnp.asarray(new), jnp.asarray(expected))


INSTEAD = ("new", "exchanged", "twice", "another argument")
MODES: tuple[dict[str, bool], ...] = ({}, {"graph": False}, {"graph_updates": False})


@requirement("transformations/equals-jax/scan-of-objects", must_reach=(*INSTEAD, *CONTAINERS))
@costly
@given(
    instead=st.sampled_from(INSTEAD),
    form=st.sampled_from(list(CONTAINERS)),
    with_array=st.booleans(),
    changes=st.booleans(),
    modes=st.sampled_from(MODES),
)
def test_another_object_than_the_carried_one_is_refused(
    transforms, nnx, instead, form, with_array, changes, modes
):
    """A step of `scan` that returns a container of objects of the same structure, with a new object
    in it, or with one of the others in the place of another, is refused, in every mode.
    """
    assume(takes_modes(transforms.scan, *modes))

    def made():
        module = classes(nnx)["Node"]()
        module.a = nnx.Param(jnp.ones(2))
        return module

    def step(container, other, x):
        found = [*container.values()] if form == "dict" else [*container]
        if changes:
            found[0].a.set_value(found[0].a.get_value() + x)
        one, two, *arrays = found
        one, two = {
            "new": (made(), two),
            "exchanged": (two, one),
            "twice": (one, one),
            "another argument": (one, other),
        }[instead]
        return CONTAINERS[form]([one, two, *arrays]), x

    given = CONTAINERS[form]([made(), made(), *[jnp.ones(2)] * with_array])
    carry = transforms.Carry
    lifted = transforms.scan(step, in_axes=(carry, None, 0), out_axes=(carry, 0), **modes)
    refused(lambda: lifted(given, made(), X))
