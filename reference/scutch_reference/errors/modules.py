"""The errors about Linen modules and layers, and their scopes (contract LIN).

>>> error = InvalidRngError(path=("head",), stream="dropout", streams=["params"])
>>> isinstance(error, ScopeError), error.path
(True, ('head',))
"""

from .base import ScutchReferenceError, UsageError


class ModuleError(UsageError):
    """A Linen module or a layer is given a value that it cannot use (LIN-1).

    Wrong::

        nn.Embed(4, 2).init(jax.random.key(0), jnp.ones(3))

    Right::

        nn.Embed(4, 2).init(jax.random.key(0), jnp.ones(3, int))
    """


class UnboundModuleError(ModuleError):
    """A module that is not bound is asked for a variable, a key or a run (LIN-1).

    Wrong::

        nn.Dense(4).variables

    Right::

        variables = nn.Dense(4).init(jax.random.key(0), jnp.ones((1, 2)))
        nn.Dense(4).bind(variables).variables
    """

    text = """{module.__class__.__qualname__} is not bound, so it has no variables; it has them once
    the module is bound: by init, apply or bind."""


class ImmutableModuleError(ModuleError):
    """An attribute of a bound module is set outside `setup`, or a field in it (LIN-1m).

    Wrong::

        layer = nn.Dense(4).bind({})
        layer.features = 5

    Right::

        layer = nn.Dense(4).clone(features=5).bind({})
    """

    text = """Tried to set {name!r} of a bound {module.__class__.__qualname__} at the stage
    {stage!r}. Modules are immutable: `setup` may set attributes that are no fields, and state is
    kept in variables: self.variable(...)."""


class MisplacedModuleError(ModuleError):
    """A module is made as a part of another where that one makes no parts (LIN-1i).

    Wrong::

        nn.Dense(4, parent=nn.Dense(4).bind({}))

    Right::

        nn.Dense(4, parent=None)
    """

    text = """Tried to add a {child.__class__.__qualname__} to {parent.__class__.__qualname__}. A
    module is made in setup or in a method marked compact of its parent, or passed as a field."""


class BoundModuleHashError(ModuleError, TypeError):
    """A bound module is hashed, as one is that is a static argument (LIN-1y).

    Wrong::

        hash(nn.Dense(4).bind({}))

    Right::

        hash(nn.Dense(4))
    """

    text = """Tried to hash a bound {module.__class__.__qualname__}, such as one that is a static
    argument: its outputs follow from its variables, too. Pass it unbound, and the variables as an
    argument."""


class ScopeError(ScutchReferenceError):
    """The base of the errors about a name, a variable or a key of one Linen module (LIN-1, LIN-8).

    Only its subclasses are raised. `path` is the path of the module.
    """


class ScopeParamNotFoundError(ScopeError, KeyError):
    """`apply` is given variables in which a parameter is missing (LIN-1g).

    Wrong::

        nn.Dense(4).apply({"params": {}}, jnp.ones((1, 2)))

    Right::

        variables = nn.Dense(4).init(jax.random.key(0), jnp.ones((1, 2)))
        nn.Dense(4).apply(variables, jnp.ones((1, 2)))
    """

    text = """The module at {path!r} asks for the parameter {name!r}, but the collection 'params'
    has {present!r} there. Pass the variables that `init` returned."""


class ScopeParamShapeError(ScopeError):
    """A parameter that is passed has another shape than its initializer gives (LIN-1).

    Wrong::

        variables = nn.Dense(4).init(jax.random.key(0), jnp.ones((1, 2)))
        nn.Dense(4).apply(variables, jnp.ones((1, 3)))

    Right::

        variables = nn.Dense(4).init(jax.random.key(0), jnp.ones((1, 2)))
        nn.Dense(4).apply(variables, jnp.ones((9, 2)))
    """

    text = """Parameter {name!r} of the module at {path!r} has shape {found!r}, but its initializer
    gives {expected!r}."""


class NameInUseError(ScopeError):
    """Two parameters, variables or sub-modules of one module have the same name (LIN-1h).

    Wrong::

        class Twice(nn.Module):
            @nn.compact
            def __call__(self, x):
                return nn.Dense(2, name="layer")(nn.Dense(2, name="layer")(x))

        Twice().init(jax.random.key(0), jnp.ones((1, 2)))

    Right::

        class Twice(nn.Module):
            @nn.compact
            def __call__(self, x):
                return nn.Dense(2, name="last")(nn.Dense(2, name="first")(x))

        Twice().init(jax.random.key(0), jnp.ones((1, 2)))
    """

    text = """Tried to give the name {name!r} to a {new} of the module at {path!r}, but a {old}
    there has it."""


class ModifyScopeVariableError(ScopeError):
    """A module writes a variable of a collection that the caller did not declare mutable (LIN-8b).

    Wrong::

        norm = nn.BatchNorm(use_running_average=False)
        norm.apply(norm.init(jax.random.key(0), jnp.ones((3, 2))), jnp.ones((3, 2)))

    Right::

        norm, x = nn.BatchNorm(use_running_average=False), jnp.ones((3, 2))
        norm.apply(norm.init(jax.random.key(0), x), x, mutable=["batch_stats"])
    """

    text = """Tried to write the variable {name!r} of the module at {path!r}, but its collection
    {collection!r} is not mutable: apply(..., mutable=[{collection!r}])."""


class InvalidRngError(ScopeError):
    """A module draws a key from a stream for which no key was passed (LIN-8e).

    Wrong::

        nn.Dropout(0.5, deterministic=False).apply({}, jnp.ones(4))

    Right::

        rngs = {"dropout": jax.random.key(0)}
        nn.Dropout(0.5, deterministic=False).apply({}, jnp.ones(4), rngs=rngs)
    """

    text = """The module at {path!r} draws a key from the stream {stream!r}, but keys were passed
    for {streams!r} only: rngs={{{stream!r}: jax.random.key(0)}}; under `scan` or `vmap`,
    split_rngs={{{stream!r}: True}}."""
