"""The errors about objects, variables, states, filters and seed streams (contract OBJ, JIT).

>>> error = MissingLeafError(path=("v",), present=[("w",)])
>>> isinstance(error, KeyError), error.present
(True, [('w',)])
"""

from .base import ScutchReferenceError, UsageError


class TraceLevelError(ScutchReferenceError):
    """An object is changed inside a transformation that did not get it as an argument (JIT-1).

    Wrong::

        count = nnx.Variable(jnp.zeros(()))
        nnx.jit(lambda x: count.set_value(count.get_value() + x))(1.0)

    Right::

        count = nnx.Variable(jnp.zeros(()))
        nnx.jit(lambda count, x: count.set_value(count.get_value() + x))(count, 1.0)
    """

    text = """Tried to {tried} {what}, a {node.__class__.__qualname__}, from a different trace level
    than the one it was created at. Pass it to the transformed function, or create it in there."""


TraceContextError = TraceLevelError  # as Flax calls it


class LeakedTracerError(ScutchReferenceError):
    """A variable holds a traced value of a transformation that has ended (JIT-8).

    Wrong::

        kept = []
        nnx.jit(lambda x: kept.append(nnx.Param(x)))(jnp.ones(2))
        nnx.jit(lambda model: model["w"].get_value())(nnx.Dict(w=kept[0]))

    Right::

        kept = nnx.jit(lambda x: nnx.Param(x))(jnp.ones(2))
        nnx.jit(lambda model: model["w"].get_value())(nnx.Dict(w=kept))
    """

    text = """The variable at {path} holds a tracer, {tracer.aval}, of a transformation that is
    over. It was assigned inside a transformed function that did not get the variable as an
    argument; pass it in, or return the value."""


class UnhashableStaticError(ScutchReferenceError, TypeError):
    """A static argument or static attribute of a compiled call cannot be hashed (JIT-4).

    Wrong::

        nnx.jit(lambda x, sizes: x * sizes[0], static_argnums=1)(1.0, [2, 3])

    Right::

        nnx.jit(lambda x, sizes: x * sizes[0], static_argnums=1)(1.0, (2, 3))
    """

    text = """Static data must be hashable, but {place} is {value!r}, a
    {value.__class__.__qualname__}. Use a hashable type (a tuple for a list, a frozen dataclass), or
    arrays as data: nnx.data(...)."""


class NoFilterMatchError(ScutchReferenceError):
    """A variable is taken by none of the filters that shall divide all of them (OBJ-1, JIT-6).

    Wrong::

        nnx.split(nnx.Dict(w=nnx.Param(1.0), mean=nnx.BatchStat(0.0)), nnx.Param)

    Right::

        nnx.split(nnx.Dict(w=nnx.Param(1.0), mean=nnx.BatchStat(0.0)), nnx.Param, ...)
    """

    text = """Non-exhaustive filters: none of {filters!r} takes the {value.__class__.__qualname__}
    at {place}. Add a filter for it, or `...` as the last filter for all the rest."""


class FilterError(UsageError, TypeError):
    """A value is no filter, or a filter that takes everything stands before others (OBJ-3).

    Wrong::

        nnx.split(nnx.Dict(w=nnx.Param(1.0)), ..., nnx.Param)

    Right::

        nnx.split(nnx.Dict(w=nnx.Param(1.0)), nnx.Param, ...)
    """

    text = """Got {given!r} as {place}. A filter is a type, a tag, a predicate of (path, value), a
    boolean, `...`, None, or a sequence of filters; `...` and True come last."""


class UnknownPathError(ScutchReferenceError, KeyError):
    """A state has a path that the object does not have, or lacks one that it needs (OBJ-2).

    Wrong::

        nnx.update(nnx.Dict(w=nnx.Param(jnp.ones(2))), {"v": jnp.zeros(2)})

    Right::

        nnx.update(nnx.Dict(w=nnx.Param(jnp.ones(2))), {"w": jnp.zeros(2)})
    """

    text = "There is no {wanted} for the paths {paths!r} in {place}."


class MissingLeafError(UnknownPathError):
    """A state has no leaf at a path of the values that are put into it (OBJ-4).

    Wrong::

        nnx.replace_by_pure_dict(nnx.State({"w": 1.0}), {"v": 2.0})

    Right::

        nnx.replace_by_pure_dict(nnx.State({"w": 1.0}), {"w": 2.0})
    """

    text = "The state has no leaf at the path {path!r}; it has leaves at {present!r}."


class PathThroughLeafError(UnknownPathError):
    """A path of a state leads through a leaf of it, which has nothing below (OBJ-4).

    Wrong::

        nnx.from_flat_state([(("w",), 1.0), (("w", "scale"), 2.0)])

    Right::

        nnx.from_flat_state([(("w", "kernel"), 1.0), (("w", "scale"), 2.0)])
    """

    text = "The path {path!r} leads through the leaf {leaf!r}, which has nothing below it."


class StateKeysError(UnknownPathError):
    """A tree and the nested dictionaries of its leaves do not have the same keys.

    Wrong::

        from scutch_reference import serialization

        serialization.from_state_dict([1, 2], {"0": 3})

    Right::

        from scutch_reference import serialization

        serialization.from_state_dict([1, 2], {"0": 3, "1": 4})
    """

    text = (
        "At {name!r} the tree has the keys {keys!r}; the tree and the state do not share {wrong!r}."
    )


class DataError(UsageError):
    """A value is none of those that an object, a variable or a metric expects (OBJ-5).

    Wrong::

        nnx.Dict(w=nnx.Param(1.0)).set_attributes(features=3)

    Right::

        nnx.Dict(w=nnx.Param(1.0)).set_attributes(w=nnx.Param(2.0))
    """


class StreamError(UsageError, KeyError, AttributeError):
    """A key is drawn from a seed stream that does not exist or has no key (OBJ-6).

    Wrong::

        nnx.Rngs(params=0).dropout()

    Right::

        nnx.Rngs(params=0, dropout=1).dropout()
    """


class RegistryError(UsageError):
    """A name or a variable type is not in the registry, or cannot be (BRG-1).

    Wrong::

        nnx.variable_type_from_name("masks")

    Right::

        nnx.variable_type_from_name("masks", allow_register=True)
    """


class RegisteredError(RegistryError):
    """A collection of Linen or a variable type is paired with another already (BRG-1c).

    Wrong::

        bridge.register_variable_name("params", type("Mine", (nnx.Variable,), {}))

    Right::

        bridge.register_variable_name("mine", type("Mine", (nnx.Variable,), {}), overwrite=True)
    """

    text = "{name!r} cannot name {typ!r}: {known!r} has {held!r}. Pass overwrite=True to forget it."
