"""The errors about values that cannot cross the bridge (contract BRG).

>>> print(CrossingError(place="the collection 'params'", given=1.0, expected="a mapping"))
Got 1.0 as the collection 'params'; expected a mapping.
"""

from .base import UsageError


class CrossingError(UsageError):
    """A value has no counterpart on the other side of the bridge (BRG-4, BRG-6).

    Wrong::

        bridge.nnx_attrs_to_linen_vars({"w": jnp.ones(2)})

    Right::

        bridge.nnx_attrs_to_linen_vars({"w": nnx.Param(jnp.ones(2))})
    """


class SharedPathError(CrossingError):
    """A path is a variable in one collection, and anything in another (BRG-6c).

    Wrong::

        bridge.linen_vars_to_nnx_attrs({"params": {"w": 1.0}, "cache": {"w": 2.0}})

    Right::

        bridge.linen_vars_to_nnx_attrs({"params": {"w": 1.0}, "cache": {"v": 2.0}})
    """

    text = "{path} is in both {first!r} and {second!r}. In NNX one attribute is one variable."


class MissingVariableError(CrossingError):
    """A wrapped NNX module is called without one of its variables (BRG-7l).

    Wrong::

        bridge.to_linen(nnx.Linear, 2, 3).apply({}, jnp.ones((1, 2)))

    Right::

        layer = bridge.to_linen(nnx.Linear, 2, 3)
        layer.apply(layer.init(jax.random.key(0), jnp.ones((1, 2))), jnp.ones((1, 2)))
    """

    text = """The variable at {path!r} of {nnx_class!r} is in no collection passed to apply; they
    have the paths {present!r}."""
