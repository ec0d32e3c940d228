"""Branches, loops, and derivatives along directions, over objects: refusals, and what is kept."""

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from scutch_reference import nnx
from scutch_reference.errors import CarryError, LiftingError, SignatureError


class Counter(nnx.Module):
    """A number of calls, and weights."""

    def __init__(self):
        self.n = nnx.Variable(jnp.array(0))
        self.w = nnx.Param(jnp.ones(2))


def count(counter, x):
    """Twice `x`; the call is counted."""
    counter.n.value += 1
    return 2 * x


def test_a_branch_returns_the_very_object_and_may_change_its_structure():
    """A branch returns the very object and may change its structure."""

    def marked(counter):
        counter.mark = "called"
        counter.new = nnx.Param(jnp.ones(()))
        return counter

    counter = Counter()
    assert nnx.cond(True, marked, marked, counter) is counter
    assert (counter.mark, counter.new.value) == ("called", 1)


def test_branches_that_change_structure_in_unlike_ways_are_refused():
    """Branches that change structure in unlike ways are refused."""
    counter = Counter()
    with pytest.raises(LiftingError, match="unlike ways"):
        nnx.cond(True, lambda c: setattr(c, "mark", 1), lambda c: None, counter)
    assert not hasattr(counter, "mark")


def test_a_branch_is_a_function():
    """A branch is a function."""
    with pytest.raises(SignatureError, match="callable"):
        nnx.switch(0, [count, None], Counter(), 1.0)


def test_every_index_takes_the_nearest_branch_in_jit():
    """Every index takes the nearest branch in `jit`."""
    counter = Counter()
    step = nnx.jit(lambda c, i: nnx.switch(i, [lambda c, x: x, count], c, 1.0))
    assert [float(step(counter, index)) for index in (-3, 0, 1, 9)] == [1, 1, 2, 2]
    assert counter.n.value == 2


def test_a_loop_changes_its_objects_and_containers_in_place():
    """A loop changes its objects and containers in place."""
    counter = Counter()
    carried = {"model": counter, "x": 0}

    def turn(carried):
        count(carried["model"], 1)
        carried["x"] += 1
        return carried

    last = nnx.while_loop(lambda carried: carried["x"] < 3, turn, carried)
    assert last is carried
    assert last["model"] is counter
    assert (counter.n.value, carried["x"]) == (3, 3)


@pytest.mark.parametrize(
    "turn",
    [
        lambda value: setattr(value[0], "w", nnx.Param(jnp.zeros(2))) or value,
        lambda value: setattr(value[0], "mark", 1) or value,
        lambda value: delattr(value[0], "n") or value,
    ],
)
def test_a_turn_that_changes_structure_is_refused(turn):
    """A turn that changes structure is refused."""
    counter = Counter()
    before = nnx.graphdef(counter)
    with pytest.raises(LiftingError):
        nnx.fori_loop(0, 2, lambda i, value: turn(value), (counter, 0))
    assert nnx.graphdef(counter) == before


def test_a_turn_returns_the_objects_that_it_got():
    """A turn returns the objects that it got."""
    with pytest.raises(CarryError, match="the very object"):
        nnx.fori_loop(0, 2, lambda i, counter: nnx.clone(counter), Counter())


def test_a_condition_only_reads():
    """A condition only reads."""
    counter = Counter()
    with pytest.raises(LiftingError, match="only reads"):
        nnx.while_loop(lambda c: count(c, 1) < 1, lambda c: c, counter)
    assert counter.n.value == 0


def test_vjp_returns_a_function_that_leaves_jit():
    """`vjp` returns a function that leaves `jit`."""
    counter = Counter()

    @nnx.jit
    def pulled(counter, x):
        return nnx.vjp(lambda c, x: (count(c, x) * c.w.value).sum(), counter, x)

    output, back = pulled(counter, 3.0)
    of_counter, of_x = back(1.0)
    assert (output, of_x, counter.n.value) == (12, 4, 1)
    assert of_counter.w.value.tolist() == [6, 6]


def test_a_tangent_has_the_structure_of_its_argument():
    """A tangent has the structure of its argument."""
    counter = nnx.Dict(w=nnx.Param(1.0))
    with pytest.raises(LiftingError, match="structure of the arguments"):
        nnx.jvp(lambda c: c.w.value, (counter,), (nnx.Dict(v=nnx.Param(1.0)),))


def test_a_gradient_of_the_users_own_is_set_before_the_call():
    """A gradient of the users own is set before the call."""
    with pytest.raises(LiftingError, match="defvjp"):
        nnx.custom_vjp(lambda x: x)(1.0)


def test_a_backward_function_returns_a_cotangent_for_each_argument():
    """A backward function returns a cotangent for each argument."""
    product = nnx.custom_vjp(lambda counter, x: counter.w.value.sum() * x, graph=False)
    product.defvjp(lambda counter, x: (product(counter, x), None), lambda kept, g: (g,))
    with pytest.raises(LiftingError, match="each of 2 arguments"):
        jax.grad(lambda x: product(Counter(), x))(1.0)


def test_cotangents_of_some_variables_leave_the_others_at_zero():
    """Cotangents of some variables leave the others at zero."""
    chosen = nnx.DiffState(0, nnx.Param)
    scaled = nnx.custom_vjp(lambda c, x: c.w.value.sum() * x, nondiff_argnums=(chosen,))

    def backward(kept, cotangents):
        (of_counter, _), of_output = cotangents
        found = jax.tree.map(lambda x: x, nnx.filter_state(of_counter, nnx.Param))
        found.w.value = 7 * of_output * jnp.ones(2)
        return found, of_output

    scaled.defvjp(lambda c, x: (scaled(c, x), None), backward)
    assert nnx.grad(scaled)(Counter(), 1.0).w.value.tolist() == [7, 7]


def test_updates_reach_the_backward_function_in_every_mode():
    """Updates reach the backward function in every mode."""
    seen = []

    def backward(kept, of_output, updates_g):
        seen.append(updates_g[0].n.value)
        return nnx.clone(kept), of_output

    counted = nnx.custom_vjp(lambda c, x: count(c, x), graph_updates=False)
    counted.defvjp(lambda c, x: (counted(c, x), c), backward)
    counter = nnx.Dict(n=nnx.Variable(jnp.array(0.0)))
    nnx.grad(lambda x, counter: counted(counter, x))(1.0, counter)
    assert seen == [0]


def bumped(model):
    """Add 1 to a variable."""
    model.n.set_value(model.n.get_value() + 1)


@pytest.mark.parametrize("turns", [0, 2])
def test_loops_run_without_jit(turns):
    """A loop that takes no turn traces none there, and each turn runs by itself."""
    model = nnx.Dict(n=nnx.Variable(jnp.array(0)))

    def turn(number, model):
        nnx.cond(number == 0, bumped, lambda model: None, model)
        return model

    def goes_on(state):
        return state[0] < turns

    with jax.disable_jit():
        assert nnx.fori_loop(0, turns, turn, model) is model
        assert model.n.get_value() == min(turns, 1)
        nnx.while_loop(goes_on, lambda state: (state[0] + 1, turn(*state)), (0, model))
    assert model.n.get_value() == 2 * min(turns, 1)


def test_steps_that_change_unlike_variables_run_without_jit():
    """Only one of the steps changes the slice that it gets."""
    model = nnx.Dict(n=nnx.Variable(jnp.arange(3)))

    @nnx.scan(in_axes=(0, 0), out_axes=0)
    def step(model, number):
        nnx.cond(number == 1, bumped, lambda model: None, model)
        return number

    with jax.disable_jit():
        step(model, jnp.arange(3))
    assert model.n.get_value().tolist() == [0, 2, 2]


def test_shardings_of_jit_say_nothing_without_jit():
    """`jax.jit` cuts nothing there, so that any shape fits."""
    sharding = NamedSharding(Mesh(jax.devices()[:2], ("data",)), PartitionSpec("data"))
    model = nnx.Dict(n=nnx.Variable(jnp.array(0)))
    with jax.disable_jit():
        nnx.jit(bumped, in_shardings=sharding)(model)
    assert model.n.get_value() == 1


def test_branches_return_new_objects_of_like_structure():
    """One of them holds the array of a variable that the branch has changed, the other does not."""
    model = nnx.Dict(n=nnx.Variable(jnp.array(0)))

    def changing(model, x):
        model.n.set_value(x)
        return nnx.Dict(n=nnx.Variable(model.n.get_value()))

    def making(model, x):
        return nnx.Dict(n=nnx.Variable(x + 1))

    assert nnx.cond(True, changing, making, model, jnp.array(5)).n.get_value() == 5
    assert nnx.cond(False, changing, making, model, jnp.array(5)).n.get_value() == 6
