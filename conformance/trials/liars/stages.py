"""Lies of the staged forms of a jitted function, and of `eval_shape`: JIT-9."""

import functools

import jax
import jax.numpy as jnp
from scutch_reference import nnx
from trials.liars.lifted import Told, lifted, variables

STEPS = ("trace", "lower", "compile")


class Stage:
    """A stage, or a jitted function, of which `tell(stage, name, answer)` gives the answers."""

    def __init__(self, honest, tell):
        self.honest, self.tell = honest, tell

    def __getattr__(self, name):
        answer = self.tell(self.honest, name, getattr(self.honest, name))
        if name in STEPS:
            return lambda *a, **k: Stage(answer(*a, **k), self.tell)
        return answer

    def __call__(self, *arguments):
        return self.tell(self.honest, "__call__", self.honest)(*arguments)


class Staged(Told):
    """A jitted function whose stages lie."""

    def __getattr__(self, name):
        return getattr(Stage(self.jitted, self.call), name)

    def __call__(self, *arguments, **keywords):
        return self.jitted(*arguments, **keywords)


def staged(tell):
    """A `jit` whose stages answer as `tell(stage, name, answer)` says."""

    def jit(fun=None, **options):
        if fun is None:
            return lambda function: jit(function, **options)
        return Staged(nnx.jit(fun, **options), tell)

    return jit


def instead(kind, name, answer):
    """A `jit` of which one kind of stage answers one question with `answer`."""

    def tell(stage, asked, honest):
        return answer if (type(stage).__name__, asked) == (kind, name) else honest

    return staged(tell)


def _on_clones(stage, name, answer):
    return (lambda *a: answer(*nnx.clone(a))) if name == "__call__" else answer


@lifted
class CompiledForgetsUpdates:
    """Breaks JIT-9a: a compiled function returns the right result, and updates no object."""

    jit = staged(_on_clones)


@lifted
class CompiledUpdatesOnce:
    """Breaks JIT-9a: a compiled function computes with the arguments that `lower` got."""

    def jit(fun=None, **options):
        if fun is None:
            return functools.partial(CompiledUpdatesOnce.jit, **options)

        def tell(stage, name, answer):
            if name != "lower" or type(stage).__name__ != "JitWrapped":
                return answer
            return lambda *a: _Frozen(answer(*a), nnx.jit(fun, **options), nnx.clone(a))

        return Staged(nnx.jit(fun, **options), tell)


class _Frozen:
    """A lowered form that is compiled for the very values."""

    def __init__(self, lowered, jitted, arguments):
        self.lowered, self.jitted, self.arguments = lowered, jitted, arguments

    def __getattr__(self, name):
        return getattr(self.lowered, name)

    def compile(self):
        """The call, with the arguments of then."""
        return lambda *_: self.jitted(*self.arguments)


def _warmed_up(stage, name, answer):
    def lower(*arguments):
        stage(*arguments)
        return answer(*arguments)

    return lower if name == "lower" and type(stage).__name__ == "JitWrapped" else answer


@lifted
class LoweringWarmsUp:
    """Breaks JIT-9b: `lower` calls the function first."""

    jit = staged(_warmed_up)


def _noted(stage, name, answer):
    def trace(*arguments):
        for variable in variables(arguments, {}):
            variable.set_metadata(traced=True)
        return answer(*arguments)

    return trace if name == "trace" else answer


@lifted
class TracingLeavesMarks:
    """Breaks JIT-9b: `trace` notes in the metadata that it was there."""

    jit = staged(_noted)


@lifted
class LoweredForgetsDonation:
    """Breaks JIT-9c: the lowered form has no donated arguments."""

    jit = instead("Lowered", "donate_argnums", ())


@lifted
class TracedHasNoOutput:
    """Breaks JIT-9c: the traced form knows nothing of the output."""

    jit = instead("Traced", "out_info", None)


@lifted
class CompiledHasNoArguments:
    """Breaks JIT-9c: the compiled form has no arguments."""

    jit = instead("Compiled", "args_info", ())


@lifted
class CompiledCostsNothing:
    """Breaks JIT-9d: the compiled form has no costs."""

    jit = instead("Compiled", "cost_analysis", lambda: None)


@lifted
class LoweredHasNoProgram:
    """Breaks JIT-9d: the lowered form has no program."""

    jit = instead("Lowered", "compiler_ir", lambda dialect=None: None)


@lifted
class CompiledHasNoShardings:
    """Breaks JIT-9e: the compiled form has no output shardings."""

    jit = instead("Compiled", "output_shardings", ())


@lifted
class EvalShapeComputes:
    """Breaks JIT-9f: `eval_shape` returns data."""

    jit = staged(
        lambda stage, name, answer: (
            (lambda *a: stage(*nnx.clone(a))) if name == "eval_shape" else answer
        )
    )


@lifted
class EvalShapeUpdates:
    """Breaks JIT-9f: `eval_shape` changes its arguments as a call does."""

    def _called(stage, name, answer):
        def foreseen(*arguments):
            shapes = answer(*arguments)
            stage(*arguments)
            return shapes

        return foreseen if name == "eval_shape" else answer

    jit = staged(_called)


def _is_shape(value):
    return isinstance(value, jax.ShapeDtypeStruct)


def _as_data(foreseen):
    """The result of `eval_shape`, with arrays of zeros in the place of shapes."""
    for variable in variables(foreseen, {}):
        value = variable.get_raw_value()
        variable.set_raw_value(jnp.zeros(value.shape, value.dtype))
    zeros = lambda leaf: jnp.zeros(leaf.shape, leaf.dtype) if _is_shape(leaf) else leaf  # noqa: E731
    return jax.tree.map(zeros, foreseen, is_leaf=lambda x: isinstance(x, nnx.Pytree))


@lifted
class ComputesShapesInModes:
    """Breaks JIT-9g: with `graph=False` or `graph_updates=False`, `eval_shape` returns data."""

    def eval_shape(f, *arguments, **mode):
        foreseen = nnx.eval_shape(f, *arguments, **mode)
        return _as_data(foreseen) if mode else foreseen


def _named_apart(stage, name, answer):
    def foreseen(*arguments, **named):
        return answer(*arguments, **nnx.clone(named))

    return foreseen if name == "eval_shape" else answer


@lifted
class ForeseesNamedApart:
    """Breaks JIT-9g: for `eval_shape`, an object that is passed by name is no other argument."""

    jit = staged(_named_apart)
