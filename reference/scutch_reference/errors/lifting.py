"""The errors about lifted transformations of objects, and their specs (contract JIT, SHM).

>>> error = MeshAxisError(place="argument 0", spec=("batch",), axis="batch", axes=("data",))
>>> isinstance(error, SpecError), error.axis
(True, 'batch')
"""

from .base import ScutchReferenceError, UsageError


class AliasingError(ScutchReferenceError):
    """One object is reached at two places that ask for different shardings or axes (JIT-2).

    `first` and `second` are pairs: the place of an argument, and the sharding or axis given for it.

    Wrong::

        whole, cut = (jax.sharding.NamedSharding(mesh, spec) for spec in (P(), P("data")))
        w = nnx.Param(jnp.ones(2))
        nnx.jit(lambda a, b: None, in_shardings=(whole, cut))(w, w)

    Right::

        whole, cut = (jax.sharding.NamedSharding(mesh, spec) for spec in (P(), P("data")))
        w = nnx.Param(jnp.ones(2))
        nnx.jit(lambda a, b: None, in_shardings=(whole, cut))(w, nnx.clone(w))
    """

    text = """Inconsistent {what} for an aliased {node.__class__.__qualname__}: it is {first[1]!r}
    at {first[0]}, and {second[1]!r} at {second[0]}. One object can have one only; make the two
    agree, or pass a copy."""


class SpecError(ScutchReferenceError):
    """The base of the errors about a spec that a mesh, an array or a value does not fit (SHM-4).

    Only its subclasses are raised. `place` names the argument, and the leaf in it, of the spec.
    """


class MeshAxisError(SpecError):
    """A spec names an axis that the mesh does not have (SHM-4).

    Wrong::

        nnx.shard_map(lambda x: x, mesh=mesh, in_specs=P("batch"), out_specs=P())(jnp.ones(8))

    Right::

        nnx.shard_map(lambda x: x, mesh=mesh, in_specs=P("data"), out_specs=P("data"))(jnp.ones(8))
    """

    text = """{place}: the spec {spec!r} names the mesh axis {axis!r}, but the axes of the mesh are
    {axes!r}."""


class IndivisibleSizeError(SpecError):
    """A spec cuts an axis into more parts than its size can be divided by (SHM-4).

    Wrong::

        nnx.shard_map(lambda x: x, mesh=mesh, in_specs=P("data"), out_specs=P("data"))(jnp.ones(7))

    Right::

        nnx.shard_map(lambda x: x, mesh=mesh, in_specs=P("data"), out_specs=P("data"))(jnp.ones(8))
    """

    text = """{place}: the spec {spec!r} cuts axis {axis} of an array of shape {shape!r} into
    {parts} parts, but the size of that axis is no multiple of {parts}, or it does not exist."""


class ReplicationError(SpecError):
    """Devices may leave different values in a variable that is to be the same on all (SHM-4).

    Wrong::

        last = nnx.BatchStat(jnp.zeros(()))
        specs = (P(), P("data"))
        put = lambda last, x: last.set_value(x.sum())
        nnx.shard_map(put, mesh=mesh, in_specs=specs, out_specs=P())(last, jnp.ones(8))

    Right::

        last = nnx.BatchStat(jnp.zeros(()))
        specs = (P(), P("data"))
        put = lambda last, x: last.set_value(jax.lax.psum(x.sum(), "data"))
        nnx.shard_map(put, mesh=mesh, in_specs=specs, out_specs=P())(last, jnp.ones(8))
    """

    text = """{place}: the value may differ along the mesh axes {axes!r}, but not by its spec
    {spec!r}. Reduce it (jax.lax.psum, pmean), name the axes in the spec, or do not check:
    check_rep=False."""


class LiftingError(UsageError):
    """A lifted transformation is given an option or an argument that does not fit the others.

    Wrong::

        nnx.vmap(lambda x, y: x, in_axes=(0, 0, 0))(jnp.ones(2), jnp.ones(2))

    Right::

        nnx.vmap(lambda x, y: x, in_axes=(0, 0))(jnp.ones(2), jnp.ones(2))
    """


class SignatureError(LiftingError, TypeError):
    """A transformation is given no function, or an option that its counterpart in JAX has not.

    Wrong::

        nnx.scan(lambda total, x: (total, x), steps=3)

    Right::

        nnx.scan(lambda total, x: (total, x), length=3)
    """


class CarryError(LiftingError):
    """A step of a loop does not return the object that it carries to the next step (OBJ-7).

    `place` names the carried object, or the carried array in it.

    Wrong::

        step = lambda total, x: (nnx.clone(total), x)
        nnx.scan(step)(nnx.Dict(n=nnx.Variable(jnp.zeros(()))), jnp.arange(3.0))

    Right::

        step = lambda total, x: (total, x)
        nnx.scan(step)(nnx.Dict(n=nnx.Variable(jnp.zeros(()))), jnp.arange(3.0))
    """

    text = "A loop carries {place}: a step must return {expected}, in its place."


class CompiledStructureError(LiftingError):
    """A compiled function is called with objects of another structure than before (JIT-9).

    Wrong::

        compiled = nnx.jit(lambda model: None).lower(nnx.Dict(w=nnx.Param(1.0))).compile()
        compiled(nnx.Dict(w=nnx.Param(1.0), b=nnx.Param(2.0)))

    Right::

        compiled = nnx.jit(lambda model: None).lower(nnx.Dict(w=nnx.Param(1.0))).compile()
        compiled(nnx.Dict(w=nnx.Param(3.0)))
    """

    text = """The compiled function was called with objects of another structure: compiled for
    {compiled_for!r}, called with {called_with!r}. Lower and compile for the new ones."""
