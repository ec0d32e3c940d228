"""The stages of a compiled function: traced, lowered, compiled (JIT-9).

Each wraps the stage of JAX, with the objects around it: the compiled stage changes its arguments as
a call of the function does. What is not said here is what the stage of JAX says: `in_tree`,
`in_avals` and `args_info` speak of the flat lists of arrays that JAX sees, which are the donated
leaves of objects, their other leaves, then the plain arguments.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from ..errors import LiftingError

if TYPE_CHECKING:
    from .jit import JitWrapped
    from .lifting import Frame


@dataclass(frozen=True)
class Stage:
    """What the stages have in common."""

    stage: Any
    jit_wrapped: JitWrapped
    frame: Frame

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "stage":  # A half-made copy asks for its own.
            raise AttributeError(name)
        return getattr(self.stage, name)


class Compiled(Stage):
    """A compiled function, for arguments of one structure and shape."""

    compiled = property(attrgetter("stage"))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Do what a call of the function does, updates included.

        Raises:
          LiftingError: The arguments have another structure than those it was compiled for.
        """
        call = frame, *_ = self.jit_wrapped.prepared(args, kwargs)
        if frame is not self.frame:
            raise LiftingError(
                "The compiled function was called with objects of another structure, or other "
                f"static arguments: compiled for {self.frame.definition!r}, called with "
                f"{frame.definition!r}. Lower and compile for the new ones."
            )
        return self.jit_wrapped.execute(*call, self.stage)

    def __getattr__(self, name: str) -> Any:
        side, _, kind = name.partition("_")
        if kind in ("layouts", "formats"):  # JAX 0.4 calls them layouts, later ones formats.
            formats = f"{side}_formats"
            name = formats if hasattr(self.stage, formats) else f"{side}_layouts"
        return super().__getattr__(name)


class Lowered(Stage):
    """A function lowered to the input of the compiler."""

    lowered = property(attrgetter("stage"))

    def compile(self, *args: Any, **options: Any) -> Compiled:
        """Compile it; see `jax.stages.Lowered.compile`."""
        return Compiled(self.stage.compile(*args, **options), self.jit_wrapped, self.frame)


class Traced(Stage):
    """A function traced to a program of JAX."""

    traced = property(attrgetter("stage"))

    def lower(self, **options: Any) -> Lowered:
        """Lower it; see `jax.stages.Traced.lower`."""
        return Lowered(self.stage.lower(**options), self.jit_wrapped, self.frame)
