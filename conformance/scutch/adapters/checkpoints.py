"""Functions that store and restore a state as users of Flax do, if the packages are installed.

for name, restored in ROUTES.items():
    restored(state, like)
"""

import importlib.util
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any


def _through_dictionaries(state: Any, like: Any) -> Any:
    from flax import serialization

    return serialization.from_state_dict(state, serialization.to_state_dict(state))


def _through_orbax(state: Any, like: Any) -> Any:
    import orbax.checkpoint

    with (
        tempfile.TemporaryDirectory() as folder,
        orbax.checkpoint.StandardCheckpointer() as checkpointer,
    ):
        checkpointer.save(Path(folder, "state"), state)
        checkpointer.wait_until_finished()
        return checkpointer.restore(Path(folder, "state"), like)


def _installed(module: str) -> bool:
    package = module.partition(".")[0]
    return all(importlib.util.find_spec(name) is not None for name in (package, module))


ROUTES: Mapping[str, Callable[[Any, Any], Any]] = MappingProxyType(
    {"to_state_dict": _through_dictionaries}
    | ({"Orbax": _through_orbax} if _installed("orbax.checkpoint") else {})
)
"""For each name, a function that stores a state and returns the restored one. Its arguments are the
state, and the abstract state with shardings."""
