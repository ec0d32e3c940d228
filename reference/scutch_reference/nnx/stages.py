"""The stages of a compiled function: traced, lowered, compiled (JIT-9).

Each wraps the stage of JAX, with the objects around it: the compiled stage changes its arguments as
a call of the function does. `in_tree`, `in_avals` and `args_info` speak of the flat lists of arrays
that JAX sees: the donated leaves of objects, their other leaves, then the plain arguments.
"""

from __future__ import annotations

from dataclasses import dataclass
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

    @property
    def args_info(self) -> Any:
        """A tree of `jax.stages.ArgInfo`."""
        return self.stage.args_info

    @property
    def in_tree(self) -> Any:
        """The structure of the flat arguments."""
        return self.stage.in_tree

    @property
    def out_tree(self) -> Any:
        """The structure of the flat output."""
        return self.stage.out_tree

    @property
    def in_avals(self) -> Any:
        """The abstract values of the flat arguments."""
        return self.stage.in_avals

    @property
    def out_info(self) -> Any:
        """Shapes and dtypes of the flat output."""
        return self.stage.out_info

    @property
    def donate_argnums(self) -> Any:
        """The numbers of the flat arguments that are donated."""
        return self.stage.donate_argnums


@dataclass(frozen=True)
class Compiled(Stage):
    """A compiled function, for arguments of one structure and shape."""

    @property
    def compiled(self) -> Any:
        """The stage of JAX."""
        return self.stage

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Do what a call of the function does, updates included.

        Raises:
          LiftingError: The arguments have another structure than those it was compiled for.
        """
        call = self.jit_wrapped.prepared(args, kwargs)
        if call.frame is not self.frame:
            raise LiftingError(
                "The compiled function was called with objects of another structure, or other "
                f"static arguments: compiled for {self.frame.definition!r}, called with "
                f"{call.frame.definition!r}. Lower and compile for the new ones."
            )
        return self.jit_wrapped.execute(call, self.stage)

    def as_text(self) -> str | None:
        """The compiled program."""
        return self.stage.as_text()  # type: ignore[no-any-return]

    def cost_analysis(self) -> Any:
        """Estimates of cost."""
        return self.stage.cost_analysis()

    def memory_analysis(self) -> Any:
        """Estimates of memory."""
        return self.stage.memory_analysis()

    def runtime_executable(self) -> Any:
        """The executable of the runtime."""
        return self.stage.runtime_executable()

    @property
    def input_shardings(self) -> Any:
        """Shardings of the flat arguments."""
        return self.stage.input_shardings

    @property
    def output_shardings(self) -> Any:
        """Shardings of the flat output."""
        return self.stage.output_shardings

    @property
    def input_layouts(self) -> Any:
        """Memory layouts of the flat arguments."""
        return _formats(self.stage, "input")

    @property
    def output_layouts(self) -> Any:
        """Memory layouts of the flat output."""
        return _formats(self.stage, "output")

    input_formats = input_layouts
    output_formats = output_layouts


def _formats(stage: Any, side: str) -> Any:
    """JAX 0.4 calls them layouts, later ones formats."""
    name = f"{side}_formats"
    return getattr(stage, name if hasattr(stage, name) else f"{side}_layouts")


@dataclass(frozen=True)
class Lowered(Stage):
    """A function lowered to the input of the compiler."""

    @property
    def lowered(self) -> Any:
        """The stage of JAX."""
        return self.stage

    def compile(self, compiler_options: Any = None) -> Compiled:
        """Compile it."""
        return Compiled(self.stage.compile(compiler_options), self.jit_wrapped, self.frame)

    def as_text(self, dialect: str | None = None, *, debug_info: bool = False) -> str:
        """The lowered program."""
        return self.stage.as_text(dialect=dialect, debug_info=debug_info)  # type: ignore[no-any-return]

    def compiler_ir(self, dialect: str | None = None) -> Any:
        """The lowered program, as an object."""
        return self.stage.compiler_ir(dialect=dialect)

    def cost_analysis(self) -> Any:
        """Estimates of cost."""
        return self.stage.cost_analysis()


@dataclass(frozen=True)
class Traced(Stage):
    """A function traced to a program of JAX."""

    @property
    def traced(self) -> Any:
        """The stage of JAX."""
        return self.stage

    @property
    def jaxpr(self) -> Any:
        """The program."""
        return self.stage.jaxpr

    def lower(self, *, lowering_platforms: tuple[str, ...] | None = None) -> Lowered:
        """Lower it."""
        options = {} if lowering_platforms is None else {"lowering_platforms": lowering_platforms}
        return Lowered(self.stage.lower(**options), self.jit_wrapped, self.frame)
