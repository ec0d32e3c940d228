"""Stages: the traced, lowered and compiled forms of a function of objects.

Each wraps the stage of `jax.stages` of the same name, with the objects around it, and has all of
its attributes. A compiled function changes its objects as a call of the function does; the other
stages change nothing. To JAX, the arguments of a stage are the donated leaves of objects, if there
are any, the other leaves, then the plain arguments.

>>> from scutch_reference import nnx
>>> model = nnx.Dict(w=nnx.Param(1.0))
>>> compiled = nnx.jit(lambda model: model.w.value + 1).lower(model).compile()
>>> float(compiled(model))
2.0
"""

from dataclasses import dataclass
from typing import Any, Generic

from ..errors import CompiledStructureError
from ..jax_versions import format_attribute
from .frames import Transformed
from .lifting import Lifted, P, R


@dataclass(frozen=True)
class Stage(Generic[P, R]):
    """A stage of JAX, with the objects around it (JIT-9).

    Args:
      stage: The stage of JAX; also under the name of this class, such as `compiled`.
      jit_wrapped: The function.
      transformed: The transformed function of the call that it was made for.
    """

    stage: Any
    jit_wrapped: Lifted[P, R]
    transformed: Transformed

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "stage":  # A half-made copy asks for its own.
            raise AttributeError(name)
        is_own = name == type(self).__name__.lower()  # `traced`, `lowered`, `compiled`.
        return self.stage if is_own else getattr(self.stage, name)


class Compiled(Stage[P, R]):
    """A compiled function, for arguments of one structure and shape (JIT-9)."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the compiled function; objects change as in a call of the function itself.

        Static arguments are compiled in, and are not passed again: as in JAX (JIT-10).

        Raises:
          CompiledStructureError: The arguments have another structure.
        """
        frame = self.transformed.frame
        call = self.jit_wrapped.prepared(*self.jit_wrapped.with_statics(frame, args, kwargs))
        if call[0] is not self.transformed:
            raise CompiledStructureError(
                compiled_for=frame.definition, called_with=call[0].frame.definition
            )
        return self.jit_wrapped.execute(call, self.stage)  # type: ignore[no-any-return]

    def __getattr__(self, name: str) -> Any:
        return super().__getattr__(name if name == "stage" else format_attribute(self.stage, name))


class Lowered(Stage[P, R]):
    """A function as the compiler gets it (JIT-9)."""

    def compile(self, *args: Any, **options: Any) -> Compiled[P, R]:
        """Compile it.

        Args:
          *args: Arguments of `jax.stages.Lowered.compile`.
          **options: Options of `jax.stages.Lowered.compile`.
        """
        return Compiled(self.stage.compile(*args, **options), self.jit_wrapped, self.transformed)


class Traced(Stage[P, R]):
    """A function traced to a program of JAX (JIT-9)."""

    def lower(self, **options: Any) -> Lowered[P, R]:
        """Lower it.

        Args:
          **options: Options of `jax.stages.Traced.lower`.
        """
        return Lowered(self.stage.lower(**options), self.jit_wrapped, self.transformed)
