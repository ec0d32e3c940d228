"""Names of axes, direct and logical, and the rules between them."""

from typing import Any

from hypothesis import strategies as st

AXES = ("data", "model", "layers")
LOGICAL = ("batch", "embed", "hidden", "heads")
TUPLES = (("data", "model"), ("layers",))


def axis_names() -> st.SearchStrategy[Any]:
    """What one axis may be called: a mesh axis, `None`, or a tuple of mesh axes."""
    return st.sampled_from((*AXES, None, *TUPLES))


def name_tuples(rank: int) -> st.SearchStrategy[tuple[Any, ...]]:
    """A name for each of `rank` axes."""
    return st.tuples(*[axis_names()] * rank)


def logical_names(*, max_rank: int = 4, often: bool = False) -> st.SearchStrategy[tuple[Any, ...]]:
    """Logical names, none of them twice, with `None` and `UNCONSTRAINED` among them.

    Args:
      max_rank: The largest number of axes.
      often: Whether `UNCONSTRAINED` may come up more than once.
    """

    @st.composite
    def drawn(draw: st.DrawFn) -> tuple[Any, ...]:
        rank = draw(st.integers(0, max_rank))
        names: list[Any] = draw(st.permutations(LOGICAL))[:rank]
        for axis in range(rank):
            kinds = [*[names[axis]] * 3, None]
            if often or "UNCONSTRAINED" not in names:
                kinds.append("UNCONSTRAINED")
            names[axis] = draw(st.sampled_from(kinds))
        return tuple(names)

    return drawn()


def rules(
    axes: tuple[str, ...] = AXES, *, max_size: int = 6
) -> st.SearchStrategy[tuple[tuple[str, Any], ...]]:
    """Rules from logical names to mesh axes: one, several, or none; names come up repeatedly."""
    targets: list[Any] = [*axes, None, *_pairs(axes)]
    rule = st.tuples(st.sampled_from(LOGICAL), st.sampled_from(targets))
    return st.lists(rule, max_size=max_size).map(tuple)


def _pairs(axes: tuple[str, ...]) -> list[tuple[str, ...]]:
    return [(a, b) for a in axes for b in axes if a != b] + [(a,) for a in axes]
