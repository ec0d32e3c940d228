"""Laws for Flax-style sharding metadata, and the judge that tries implementations by them."""

import importlib
from typing import TYPE_CHECKING, Any

from scutch import shadowing
from scutch.implementation import (
    Implementation as Implementation,
    SetupError as SetupError,
    flax_shaped as flax_shaped,
)
from scutch.namespaces import Namespace as Namespace

if TYPE_CHECKING:
    from scutch.counting import at_most as at_most
    from scutch.models import Model as Model
    from scutch.models.testing import (
        ModelFindings as ModelFindings,
        ModelTests as ModelTests,
        judge_model as judge_model,
    )
    from scutch.owners import BoxTests as BoxTests, judge_box as judge_box
    from scutch.judgments import Nonconforming as Nonconforming

__version__ = "0.1.0"

_LATE = {
    "BoxTests": "scutch.owners",
    "Model": "scutch.models",
    "ModelFindings": "scutch.models.testing",
    "ModelTests": "scutch.models.testing",
    "Nonconforming": "scutch.judgments",
    "at_most": "scutch.counting",
    "judge_box": "scutch.owners",
    "judge_model": "scutch.models.testing",
}
"""The module of each name that needs JAX."""


def __getattr__(name: str) -> Any:
    """Import a name that needs JAX when it is asked for; the command line asks for none.

    Raises:
      AttributeError: No public name of scutch is `name`.
      SetupError: A module on Python's path has the name of a package that is needed.
    """
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if found := shadowing.stranger():
        raise SetupError("import scutch", found)
    return getattr(importlib.import_module(_LATE[name]), name)
