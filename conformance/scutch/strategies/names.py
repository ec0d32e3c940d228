"""Names of axes, direct and logical, and the rules that map logical names to mesh axes.

A direct name is a mesh axis, a tuple of mesh axes, or `None` for an unsharded axis. A logical name,
such as `embed`, tells the purpose of an axis; a rule is a pair of a logical name and a direct one.

    logical_names(max_rank=2).example()  # such as ('embed', None)
    rules().example()  # such as (('embed', 'data'), ('embed', ('model', 'data')))
"""

from typing import Any

from hypothesis import strategies as st

AXES = ("data", "model", "layers")
"""Mesh axes."""

LOGICAL = ("batch", "embed", "hidden", "heads")
"""Logical names."""

TUPLES = (("data", "model"), ("layers",))
"""Tuples of mesh axes, as the name of one axis of an array."""


def axis_names() -> st.SearchStrategy[Any]:
    """Direct names of one axis of an array: a mesh axis, `None`, or a tuple of mesh axes."""
    return st.sampled_from((*AXES, None, *TUPLES))


def name_tuples(rank: int) -> st.SearchStrategy[tuple[Any, ...]]:
    """Tuples of direct names, one for each axis of an array; names may repeat.

    Args:
      rank: The number of axes, `0 <= rank`.
    """
    return st.tuples(*[axis_names()] * rank)


def logical_names(*, max_rank: int = 4, often: bool = False) -> st.SearchStrategy[tuple[Any, ...]]:
    """Tuples of logical names, none twice; `None` and `"UNCONSTRAINED"` may stand among them.

    Args:
      max_rank: The largest number of names, up to 4.
      often: Whether `"UNCONSTRAINED"` may come up more than once.
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


def numbered_names(*stems: str) -> st.SearchStrategy[str]:
    """Names of parts of a model: one of several words, alone or with a number."""
    numbers = st.sampled_from(["", *map(str, range(10))])
    return st.builds("{}{}".format, st.sampled_from(stems), numbers)


def rules(
    axes: tuple[str, ...] = AXES, *, max_size: int = 6, unconstrained: bool = False
) -> st.SearchStrategy[tuple[tuple[str, Any], ...]]:
    """Tuples of rules from logical names to a mesh axis, several, or `None`.

    A name may have several rules, and several names may contend for one mesh axis.

    Args:
      axes: The mesh axes that rules map to.
      max_size: The largest number of rules.
      unconstrained: Whether rules may map to `"UNCONSTRAINED"`, the name of JAX's constant.

    Returns:
      A strategy of tuples of pairs.
    """
    targets: list[Any] = [*axes, None, *_pairs(axes)]
    targets += ["UNCONSTRAINED"] * 2 if unconstrained else []
    rule = st.tuples(st.sampled_from(LOGICAL), st.sampled_from(targets))
    return st.lists(rule, max_size=max_size).map(tuple)


def _pairs(axes: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Every tuple of two different axes, and of one."""
    return [(a, b) for a in axes for b in axes if a != b] + [(a,) for a in axes]
