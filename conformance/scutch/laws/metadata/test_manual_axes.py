"""Constraints by names whose mesh axes are manual, inside `shard_map`: LOG-8 (`002_`).

JAX refuses a spec that names a manual axis. The same annotated module is called inside `shard_map`
and outside, so names that lead to such an axis ask for nothing there.
"""

from hypothesis import given
from hypothesis import strategies as st

from scutch.lawkit.domain import assume
from scutch.lawkit.equality import assert_close
from scutch.lawkit.marks import reached, requirement
from scutch.lawkit.placement import entries
from scutch.laws.metadata.manual_axes import inside_shard_map, named_axes
from scutch.strategies import logical_placements

CONSTRAINING = ("constraint", "logical box", "box")


@requirement(
    "metadata/logical-constraints/manual-axes-are-passed-over",
    must_reach=(*CONSTRAINING, "all axes", "one axis"),
)
@given(
    placed=logical_placements(),
    how=st.sampled_from(CONSTRAINING),
    number=st.one_of(st.none(), st.integers(0, 2)),
)
def test_inside_shard_map_a_manual_axis_is_passed_over(meta, logical, placed, how, number):
    """Inside `shard_map` over all axes of the mesh, or one, `with_logical_constraint` and `unbox`
    return an equal value where names lead to an axis that is manual there.
    """
    spec = logical.logical_to_mesh_axes(placed.names, placed.rules)
    axes = named_axes(spec)
    assume(axes)
    manual = set(placed.mesh.axis_names) if number is None else {axes[number % len(axes)]}
    reached("all axes" if number is None else "one axis")

    def function(x):
        if how == "constraint":
            return logical.with_logical_constraint(x, placed.names, rules=placed.rules)
        if how == "box":
            return meta.Partitioned(x, tuple(entries(spec))).unbox()
        return logical.LogicallyPartitioned(x, placed.names, rules=placed.rules).unbox()

    found = inside_shard_map(function, placed.array, placed.mesh, manual)
    assert_close(found, placed.array)
