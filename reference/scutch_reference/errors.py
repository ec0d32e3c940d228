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

    def __init__(self, **parts: object) -> None:
        vars(self).update(parts)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"{type(self).__qualname__} has no part {name!r}, only {[*vars(self)]!r}"
        )

    def __str__(self) -> str:
        return " ".join(self.text.split()).format(**vars(self))


class UsageError(ScutchReferenceError):
    """The base of the errors about a value that is none of those expected at its place.

    Only its subclasses are raised. `given` is the value, `place` says which argument or part it is,
    and `expected` describes the values that are expected there.
    """

    text = "Got {given!r} as {place}; expected {expected}."


class SentenceError(UsageError):
    """The base of the errors whose message may also be written where they are raised.

    Args:
      message: The whole message.
      parts: Further attributes of the error.
    """

    text = "{message}"

    def __init__(self, message: str | None = None, **parts: object) -> None:
        super().__init__(**parts if message is None else {"message": message, **parts})


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


class NamesError(ScutchReferenceError):
    """The base of the errors about the names of the axes of one array (LOG-2, LOG-3, LOG-8).

    Only its subclasses are raised. `names` are the names.
    """


class NoNamesError(NamesError):
    """A value is no sequence of axis names; the usual mistake is a string.

    Wrong::

        ref.Partitioned(jnp.ones(4), "data")

    Right::

        ref.Partitioned(jnp.ones(4), ("data",))
    """

    text = """Axis names are a sequence with one entry for each axis, got {names!r}. None is an
    unsharded axis."""


class RepeatedNameError(NamesError):
    """A logical name, or a mesh axis, stands for two axes of one array (LOG-2, LOG-3).

    Wrong::

        ref.logical_to_mesh_axes(("batch", "batch"), (("batch", "data"),))

    Right::

        ref.logical_to_mesh_axes(("batch", None), (("batch", "data"),))
    """

    text = """The axis names {repeated!r} occur more than once in {names!r}. A name may stand for
    one axis only; None is an unsharded axis."""


class NameCountError(NamesError):
    """An array has more or fewer axes than it has names (LOG-8).

    Wrong::

        ref.with_logical_constraint(jnp.ones(4), ("batch", None), (("batch", "data"),), mesh)

    Right::

        ref.with_logical_constraint(jnp.ones(4), ("batch",), (("batch", "data"),), mesh)
    """

    text = """Got {count} axis names {names!r} for an array with {rank} axes. None is the
    name of an unsharded axis."""


class StructureMismatchError(ScutchReferenceError):
    """`replace_boxed` is given updates that are structured unlike the unboxed tree (BOX-15).

    Wrong::

        ref.replace_boxed({"w": ref.Partitioned(jnp.ones(4), ("data",))}, {"v": jnp.zeros(4)})

    Right::

        ref.replace_boxed({"w": ref.Partitioned(jnp.ones(4), ("data",))}, {"w": jnp.zeros(4)})
    """

    text = """replace_boxed needs updates with the structure of the unboxed tree. At {place} the
    tree has {ours}, the updates have {theirs}."""


class AxisRulesError(ScutchReferenceError):
    """The base of the errors about axis rules (LOG-3, LOG-10); only its subclasses are raised."""


class AxisRuleFormError(AxisRulesError):
    """Axis rules are no list of pairs of a logical name and mesh axes (LOG-3).

    Wrong::

        ref.logical_to_mesh_axes(("batch",), {"batch": "data"})

    Right::

        ref.logical_to_mesh_axes(("batch",), (("batch", "data"),))
    """

    text = """{part} must {expected}, got {rule!r}. Axis rules are pairs of a logical name and the
    mesh axes for it, which are a name, a tuple of names, or None:
    (('batch', 'data'), ('hidden', ('model', 'expert')))."""


class RulesConflictError(AxisRulesError):
    """The own rules of a variable contradict the rules in context for the same name (LOG-10e).

    Wrong::

        init = nnx.with_partitioning(jnp.ones, ("batch",), sharding_rules=(("batch", "model"),))
        with ref.logical_axis_rules((("batch", "data"),)):
            nnx.Param(init(8))

    Right::

        init = nnx.with_partitioning(jnp.ones, ("batch",), sharding_rules=(("batch", "model"),))
        with ref.logical_axis_rules((("heads", "data"),)):
            nnx.Param(init(8))
    """

    text = """Own rules {own!r} contradict the rules in context for {name!r}, {context!r}. Give both
    the same rules for a name, or only one of them."""


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

    text = """Got {given!r} as {place}. A filter is a type, a tag, a predicate of (path, value), a
    boolean, `...`, None, or a sequence of filters; `...` and True come last."""


class UnknownPathError(SentenceError, KeyError):
    """A state has a path that the object does not have, or lacks one that it needs (OBJ-2).

    Wrong::

        nnx.update(nnx.Dict(w=nnx.Param(jnp.ones(2))), {"v": jnp.zeros(2)})

    Right::

        nnx.update(nnx.Dict(w=nnx.Param(jnp.ones(2))), {"w": jnp.zeros(2)})
    """

    text = "{message}: {paths!r}."


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


class DataError(SentenceError):
    """Attributes, metadata or arrays of an object cannot be as they are asked to be (OBJ-5).

    Wrong::

        nnx.clone(nnx.Dict(w=nnx.Param(1.0)), variables=False, arrays=True)

    Right::

        nnx.clone(nnx.Dict(w=nnx.Param(1.0)), arrays=True)
    """


class ValueExpectedError(DataError):
    """A value is none of those that an object, a variable or a metric expects (OBJ-5).

    Wrong::

        nnx.Dict(w=nnx.Param(1.0)).set_attributes(features=3)

    Right::

        nnx.Dict(w=nnx.Param(1.0)).set_attributes(w=nnx.Param(2.0))
    """

    text = UsageError.text


class StreamError(UsageError, KeyError, AttributeError):
    """A key is drawn from a seed stream that does not exist or has no key (OBJ-6).

    Wrong::

        nnx.Rngs(params=0).dropout()

    Right::

        nnx.Rngs(params=0, dropout=1).dropout()
    """


class LiftingError(SentenceError):
    """A lifted transformation is given options or arguments that it cannot follow.

    Wrong::

        nnx.vmap(lambda x, y: x, in_axes=(0, 0, 0))(jnp.ones(2), jnp.ones(2))

    Right::

        nnx.vmap(lambda x, y: x, in_axes=(0, 0))(jnp.ones(2), jnp.ones(2))
    """


class LiftedValueError(LiftingError):
    """An option or an argument of a lifted transformation does not fit the others.

    Wrong::

        nnx.grad(lambda w, note: w.get_value(), argnums=3)(nnx.Param(1.0), "once")

    Right::

        nnx.grad(lambda w, note: w.get_value(), argnums=0)(nnx.Param(1.0), "once")
    """

    text = UsageError.text


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


class ModuleError(UsageError):
    """A Linen module or a layer is given a value that it cannot use (LIN-1).

    Wrong::

        nn.Embed(4, 2).init(jax.random.key(0), jnp.ones(3))

    Right::

        nn.Embed(4, 2).init(jax.random.key(0), jnp.ones(3, int))
    """


class UnboundModuleError(ModuleError):
    """A module that is not bound is asked for a variable, a key or a run (LIN-1).

    Wrong::

        nn.Dense(4).variables

    Right::

        variables = nn.Dense(4).init(jax.random.key(0), jnp.ones((1, 2)))
        nn.Dense(4).bind(variables).variables
    """

    text = """{module.__class__.__qualname__} is not bound, so it has no variables; it has them once
    the module is bound: by init, apply or bind."""


class ImmutableModuleError(ModuleError):
    """An attribute of a bound module is set outside `setup`, or a field in it (LIN-1m).

    Wrong::

        layer = nn.Dense(4).bind({})
        layer.features = 5

    Right::

        layer = nn.Dense(4).clone(features=5).bind({})
    """

    text = """Tried to set {name!r} of a bound {module.__class__.__qualname__} at the stage
    {stage!r}. Modules are immutable: `setup` may set attributes that are no fields, and state is
    kept in variables: self.variable(...)."""


class MisplacedModuleError(ModuleError):
    """A module is made as a part of another where that one makes no parts (LIN-1i).

    Wrong::

        nn.Dense(4, parent=nn.Dense(4).bind({}))

    Right::

        nn.Dense(4, parent=None)
    """

    text = """Tried to add a {child.__class__.__qualname__} to {parent.__class__.__qualname__}. A
    module is made in setup or in a method marked compact of its parent, or passed as a field."""


class BoundModuleHashError(ModuleError, TypeError):
    """A bound module is hashed, as one is that is a static argument (LIN-1y).

    Wrong::

        hash(nn.Dense(4).bind({}))

    Right::

        hash(nn.Dense(4))
    """

    text = """Tried to hash a bound {module.__class__.__qualname__}, such as one that is a static
    argument: its outputs follow from its variables, too. Pass it unbound, and the variables as an
    argument."""


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
