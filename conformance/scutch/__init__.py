"""Laws for Flax-style sharding metadata, and the judge that tries implementations by them."""

from typing import TYPE_CHECKING, Any

from scutch.implementation import (
    Implementation as Implementation,
    Namespace as Namespace,
    SetupError as SetupError,
    flax_shaped as flax_shaped,
)

if TYPE_CHECKING:
    from scutch.models import Model as Model
    from scutch.models.testing import (
        ModelFindings as ModelFindings,
        ModelTests as ModelTests,
        judge_model as judge_model,
    )
    from scutch.owners import (
        Nonconforming as Nonconforming,
        judge_box as judge_box,
    )

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import what needs JAX when it is asked for; the command line does not."""
    if name in ("Nonconforming", "judge_box"):
        from scutch import owners

        return getattr(owners, name)
    if name == "Model":
        from scutch.models import Model

        return Model
    if name in ("ModelFindings", "ModelTests", "judge_model"):
        from scutch.models import testing

        return getattr(testing, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
