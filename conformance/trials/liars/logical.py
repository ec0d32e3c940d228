"""Lies of logically partitioned boxes alone: LOG-9a to LOG-9e."""

from jax.sharding import PartitionSpec
from scutch_reference.comparison import equal
from scutch_reference.logical import get_logical_axis_rules, logical_to_mesh_axes
from trials.liars.tale import of_logical_boxes


@of_logical_boxes
class MappedSpec:
    """Breaks LOG-9a: under rules, the partition spec is mapped."""

    def get_partition_spec(self):
        rules = get_logical_axis_rules()
        return logical_to_mesh_axes(self.names, rules) if rules else PartitionSpec(*self.names)


@of_logical_boxes
class ReplicatedWithoutRules:
    """Breaks LOG-9b: a box without rules is replicated."""

    def mesh_spec(self):
        return super().mesh_spec() or PartitionSpec()


@of_logical_boxes
class ContextRulesWin:
    """Breaks LOG-9c: rules in context are preferred to the box's own rules."""

    def mesh_spec(self):
        rules = get_logical_axis_rules()
        return logical_to_mesh_axes(self.names, rules) if rules else super().mesh_spec()


@of_logical_boxes
class MeshNeedsRules:
    """Breaks LOG-9d: the mesh of a box without rules of its own is passed over."""

    def unbox(self, apply_constraint=True):
        box = self if self.rules is not None else self.replace(mesh=None)
        return super(MeshNeedsRules, box).unbox(apply_constraint)


@of_logical_boxes
class EqualUnderAnyRules:
    """Breaks LOG-9e: boxes that differ in their rules alone are equal."""

    def __eq__(self, other):
        same = type(self) is type(other) and (self.names, self.mesh) == (other.names, other.mesh)
        return same and equal(self.value, other.value)

    def __hash__(self):
        return hash(self.names)
