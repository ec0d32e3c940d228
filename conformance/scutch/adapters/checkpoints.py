"""Ways in which users of Flax store a state and read it again: those that are installed.

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
"""By name: a function of a state, and of the same without values but with its shardings, to the
state that is read again."""
