"""The errors of the reference, which name the attempt, the value at fault and the remedy.

The `text` of an error class is the template of its message. The names in its braces are the *parts*
of the message: whoever raises the error passes each by its name, and a user can read them off the
error as attributes, and find the template by searching for the message. Each docstring says when
the error is raised and shows the code that raises it (`Wrong`) beside the code that does not
(`Right`); the tests run both.

>>> try:
...     raise AxisIndexError(names=("data", None), index=-4, lowest=-3)
... except IndexError as error:
...     print(error)
...     error.lowest
Axis index -4 is out of range for names ('data', None): the lowest possible index is -3.
-3

In the examples `jax`, `jnp` (jax.numpy), `P` (PartitionSpec), `mesh` (eight devices in an axis
`data` of two and an axis `model` of four), `ref` (scutch_reference), `nn` (its `linen`), `nnx` and
`bridge` are there already.
"""

from typing import Any, ClassVar


class ScutchReferenceError(ValueError):
    """The base of the errors that the reference raises; catch it to catch them all.

    Args:
      parts: A value for each name in the braces of `text`; it becomes an attribute of the error.
    """

    text: ClassVar[str]

    def __init__(self, **parts: Any) -> None:
        vars(self).update(parts)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"{type(self).__qualname__} has no part {name!r}, only {[*vars(self)]!r}"
        )

    def __str__(self) -> str:
        return " ".join(self.text.split()).format(**vars(self))


class UsageError(ScutchReferenceError):
    """The base of the errors about wrong usage whose message is written where they are raised.

    The reference raises only its subclasses, each of which is for one part of the reference.

    Args:
      message: The whole message.
      parts: Further attributes of the error.
    """

    text = "{message}"

    def __init__(self, message: str, **parts: Any) -> None:
        super().__init__(message=message, **parts)


class PartitioningUnspecifiedError(ScutchReferenceError):
    """A box is to gain or lose an axis, and the parameters do not name the axis (BOX-8, LIN-3).

    Wrong::

        ref.Partitioned(jnp.ones(4), ("data",)).add_axis(0, {})

    Right::

        ref.Partitioned(jnp.ones(4), ("data",)).add_axis(0, {"partition_name": "layers"})
    """

    text = """Tried to add or remove an axis of {box.__class__.__qualname__}(names={box.names!r}),
    but 'partition_name' is not in the parameters {params!r}. Pass it, as in
    scan(..., metadata_params={{'partition_name': 'layers'}}); None is a name: unsharded."""


class AxisNameError(ScutchReferenceError):
    """A box is to lose an axis that has another name than the parameters say (BOX-9).

    Wrong::

        ref.Partitioned(jnp.ones(4), ("data",)).remove_axis(0, {"partition_name": "layers"})

    Right::

        stacked = ref.Partitioned(jnp.ones((3, 4)), ("layers", "data"))
        stacked.remove_axis(0, {"partition_name": "layers"})
    """

    text = """Tried to remove axis {index} of names {names!r} as {name!r}, but the axis there is
    named {found!r}. Remove axes in the reverse of the order they were added."""


class AxisIndexError(ScutchReferenceError, IndexError):
    """A negative axis index points in front of the first axis (BOX-11).

    Wrong::

        ref.Partitioned(jnp.ones(4), ("data",)).add_axis(-3, {"partition_name": "layers"})

    Right::

        ref.Partitioned(jnp.ones(4), ("data",)).add_axis(-2, {"partition_name": "layers"})
    """

    text = """Axis index {index} is out of range for names {names!r}: the lowest possible index is
    {lowest}."""


class NamesError(UsageError):
    """Axis names are no sequence, or repeat a name, or do not fit the rank (LOG-2, LOG-3, LOG-8).

    Wrong::

        ref.Partitioned(jnp.ones(4), "data")

    Right::

        ref.Partitioned(jnp.ones(4), ("data",))
    """

    text = """Axis names are a sequence with one entry for each axis, {message}. A name may stand
    for one axis only; None is an unsharded axis."""


class StructureMismatchError(ScutchReferenceError):
    """`replace_boxed` is given updates that are structured unlike the unboxed tree (BOX-15).

    Wrong::

        ref.replace_boxed({"w": ref.Partitioned(jnp.ones(4), ("data",))}, {"v": jnp.zeros(4)})

    Right::

        ref.replace_boxed({"w": ref.Partitioned(jnp.ones(4), ("data",))}, {"w": jnp.zeros(4)})
    """

    text = """replace_boxed needs updates with the structure of the unboxed tree. At {place} the
    tree has {ours}, the updates have {theirs}."""


class AxisRulesError(UsageError):
    """Axis rules are no list of pairs of a logical name and mesh axes (LOG-3).

    Wrong::

        ref.logical_to_mesh_axes(("batch",), {"batch": "data"})

    Right::

        ref.logical_to_mesh_axes(("batch",), (("batch", "data"),))
    """

    text = """{message}, got {rule!r}. Axis rules are pairs of a logical name and the mesh axes for
    it, which are a name, a tuple of names, or None:
    (('batch', 'data'), ('hidden', ('model', 'expert')))."""


class UnmatchedAxisError(ScutchReferenceError):
    """No rule decides for a logical name, and the caller asked for an error then (LOG-8h).

    Wrong::

        raising = ref.RulesFallback.RAISE_ERROR
        rules = (("batch", "data"),)
        ref.with_logical_constraint(jnp.ones(4), ("heads",), rules, mesh, raising)

    Right::

        raising = ref.RulesFallback.RAISE_ERROR
        rules = (("batch", "data"), ("heads", None))
        ref.with_logical_constraint(jnp.ones(4), ("heads",), rules, mesh, raising)
    """

    text = """Axis names {unmatched!r} of {names!r} did not match a rule that is still free, and the
    fallback is RAISE_ERROR. The rules are {rules!r}."""


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

    text = """{message} A filter is a type, a tag, a predicate of (path, value), a boolean, `...`,
    None, or a sequence of filters; `...` and True come last."""


class UnknownPathError(UsageError, KeyError):
    """A state has a path that the object does not have, or lacks one that it needs (OBJ-2).

    Wrong::

        nnx.update(nnx.Dict(w=nnx.Param(jnp.ones(2))), {"v": jnp.zeros(2)})

    Right::

        nnx.update(nnx.Dict(w=nnx.Param(jnp.ones(2))), {"w": jnp.zeros(2)})
    """

    text = "{message}: {paths!r}."


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


class DataError(UsageError):
    """Attributes or metadata of an object are set or read by an unsupported call (OBJ-5).

    Wrong::

        nnx.Variable(1.0).set_metadata(1, 2, 3)

    Right::

        nnx.Variable(1.0).set_metadata("note", 2)
    """


class StreamError(UsageError, KeyError, AttributeError):
    """A key is drawn from a seed stream that does not exist or has no key (OBJ-6).

    Wrong::

        nnx.Rngs(params=0).dropout()

    Right::

        nnx.Rngs(params=0, dropout=1).dropout()
    """


class LiftingError(UsageError):
    """A lifted transformation is given options or arguments that it cannot follow.

    Wrong::

        nnx.grad(lambda w, note: w.get_value(), argnums=3)(nnx.Param(1.0), "once")

    Right::

        nnx.grad(lambda w, note: w.get_value(), argnums=0)(nnx.Param(1.0), "once")
    """


class ModuleError(UsageError):
    """A Linen module or a layer is used in a way, or at a time, that it cannot follow (LIN-1).

    Wrong::

        nn.Dense(4).variables

    Right::

        variables = nn.Dense(4).init(jax.random.key(0), jnp.ones((1, 2)))
        nn.Dense(4).bind(variables).variables
    """


class ScopeError(ScutchReferenceError):
    """The base of the errors about a name, a variable or a key of one Linen module (LIN-1, LIN-8).

    Only its subclasses are raised. `path` is the path of the module.
    """


class ScopeParamNotFoundError(ScopeError, KeyError):
    """`apply` is given variables in which a parameter is missing (LIN-1g).

    Wrong::

        nn.Dense(4).apply({"params": {}}, jnp.ones((1, 2)))

    Right::

        variables = nn.Dense(4).init(jax.random.key(0), jnp.ones((1, 2)))
        nn.Dense(4).apply(variables, jnp.ones((1, 2)))
    """

    text = """The module at {path!r} asks for the parameter {name!r}, but the collection 'params'
    has {present!r} there. Pass the variables that `init` returned."""


class ScopeParamShapeError(ScopeError):
    """A parameter that is passed has another shape than its initializer gives (LIN-1).

    Wrong::

        variables = nn.Dense(4).init(jax.random.key(0), jnp.ones((1, 2)))
        nn.Dense(4).apply(variables, jnp.ones((1, 3)))

    Right::

        variables = nn.Dense(4).init(jax.random.key(0), jnp.ones((1, 2)))
        nn.Dense(4).apply(variables, jnp.ones((9, 2)))
    """

    text = """Parameter {name!r} of the module at {path!r} has shape {found!r}, but its initializer
    gives {expected!r}."""


class NameInUseError(ScopeError):
    """Two parameters, variables or sub-modules of one module have the same name (LIN-1h).

    Wrong::

        class Twice(nn.Module):
            @nn.compact
            def __call__(self, x):
                return nn.Dense(2, name="layer")(nn.Dense(2, name="layer")(x))

        Twice().init(jax.random.key(0), jnp.ones((1, 2)))

    Right::

        class Twice(nn.Module):
            @nn.compact
            def __call__(self, x):
                return nn.Dense(2, name="last")(nn.Dense(2, name="first")(x))

        Twice().init(jax.random.key(0), jnp.ones((1, 2)))
    """

    text = """Tried to give the name {name!r} to a {new} of the module at {path!r}, but a {old}
    there has it."""


class ModifyScopeVariableError(ScopeError):
    """A module writes a variable of a collection that the caller did not declare mutable (LIN-8b).

    Wrong::

        norm = nn.BatchNorm(use_running_average=False)
        norm.apply(norm.init(jax.random.key(0), jnp.ones((3, 2))), jnp.ones((3, 2)))

    Right::

        norm, x = nn.BatchNorm(use_running_average=False), jnp.ones((3, 2))
        norm.apply(norm.init(jax.random.key(0), x), x, mutable=["batch_stats"])
    """

    text = """Tried to write the variable {name!r} of the module at {path!r}, but its collection
    {collection!r} is not mutable: apply(..., mutable=[{collection!r}])."""


class InvalidRngError(ScopeError):
    """A module draws a key from a stream for which no key was passed (LIN-8e).

    Wrong::

        nn.Dropout(0.5, deterministic=False).apply({}, jnp.ones(4))

    Right::

        rngs = {"dropout": jax.random.key(0)}
        nn.Dropout(0.5, deterministic=False).apply({}, jnp.ones(4), rngs=rngs)
    """

    text = """The module at {path!r} draws a key from the stream {stream!r}, but keys were passed
    for {streams!r} only: rngs={{{stream!r}: jax.random.key(0)}}; under `scan` or `vmap`,
    split_rngs={{{stream!r}: True}}."""


class RegistryError(UsageError):
    """A collection of Linen and a variable type cannot be paired, or are not (BRG-1).

    Wrong::

        bridge.register_variable_name("params", type("Mine", (nnx.Variable,), {}))

    Right::

        bridge.register_variable_name("mine", type("Mine", (nnx.Variable,), {}), overwrite=True)
    """


class CrossingError(UsageError):
    """A value has no counterpart on the other side of the bridge (BRG-4, BRG-6, BRG-7l).

    Wrong::

        bridge.nnx_attrs_to_linen_vars({"w": jnp.ones(2)})

    Right::

        bridge.nnx_attrs_to_linen_vars({"w": nnx.Param(jnp.ones(2))})
    """
