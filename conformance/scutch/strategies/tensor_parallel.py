"""Strategies for models whose kernels are cut over a mesh; see `scutch.inputs.tensor_parallel`."""

from hypothesis import strategies as st

from scutch.inputs.descriptions import Mesh
from scutch.inputs.tensor_parallel import FILTERS, HELD, Blocks

_MESHES = (
    Mesh((2,), ("model",)),
    Mesh((1,), ("model",)),
    Mesh((4,), ("model",)),
    Mesh((8,), ("model",)),
    Mesh((2, 2), ("data", "model")),
    Mesh((4, 2), ("data", "model")),
    Mesh((2, 4), ("data", "model")),
    Mesh((8, 1), ("data", "model")),
)
_KINDS = (("Param", "BatchStat"), ("Scale", "Cache"), ("BatchStat", "Param"))


def blocks(
    *, by: tuple[str, ...] = (*FILTERS, "state"), jitted: bool | None = None
) -> st.SearchStrategy[Blocks]:
    """Models of one or two pairs of kernels.

    Args:
      by: How specs are given.
      jitted: As in `Blocks`; where left out, it is or it is not.
    """
    return st.builds(
        Blocks,
        st.lists(st.sampled_from((1, 2)), min_size=1, max_size=2).map(tuple),
        st.sampled_from(_MESHES),
        st.sampled_from(by),
        st.sampled_from(HELD),
        st.sampled_from(_KINDS),
        st.sampled_from((True, True, False)) if jitted is None else st.just(jitted),
    )
