"""The errors about boxes, the names of their axes, and rules for names (contract BOX, LOG).

>>> error = AxisIndexError(names=("data",), index=-3, lowest=-2)
>>> error.names, error.lowest
(('data',), -2)
"""

from .base import ScutchReferenceError


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


class VirtualBoxError(ScutchReferenceError, TypeError):
    """A class is to be a box without deriving from the class of boxes (BOX-1).

    Wrong::

        ref.AxisMetadata.register(int)

    Right::

        type("Box", (ref.AxisMetadata,), {})
    """

    text = "{subclass.__qualname__} must derive from {cls.__qualname__} to be a box."


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
