"""Names of exported variables and modules: EXP-5."""

import contextlib
import logging

import jax
from hypothesis import given

from scutch.inputs import exported
from scutch.inputs.backends import on_any
from scutch.lawkit.domain import assume
from scutch.lawkit.equality import alike, plain_text
from scutch.lawkit.marks import at_least, costly, reached, requirement
from scutch.strategies.exported import KEYS, backends, parameter_trees
from scutch.strategies.names import numbered_names

KEYED = ("dict", "leaf", "list", "tuple", "record", "layer", "boxed", "none")
LOSSY = ("dict", "leaf", "lossy", "list", "layer")
plain_keys = tuple(key for key in KEYS if "~" not in key)
tilde_keys = ("~", "mlp/~/w", "~~", "w~")


def _module(backend, params, **options):
    (function,) = exported.functions({"f": ["add"]}, params).values()
    return backend.module(params, function, **options)


def _paths(params):
    return [exported.joined(path) for path, _ in jax.tree_util.tree_leaves_with_path(params)]


@contextlib.contextmanager
def _warnings():
    """The messages that are logged as warnings in the block."""
    messages, handler = [], logging.Handler(logging.WARNING)
    handler.emit = lambda record: messages.append(record.getMessage())
    loggers = [logging.getLogger(), logging.getLogger("absl")]
    for logger in loggers:
        logger.addHandler(handler)
    try:
        yield messages
    finally:
        for logger in loggers:
            logger.removeHandler(handler)


@requirement("export/names/name-is-the-path", must_reach=("deep",))
@costly
@given(backend=backends(), params=parameter_trees(keys=plain_keys, nodes=KEYED, depth=3))
def test_a_variable_is_named_by_the_path_of_its_parameter(export, backend, params):
    """The name of a variable is the path of its parameter: keys of dictionaries, attributes and
    indices, joined by dots.
    """
    paths = _paths(params)
    if any("." in plain_text(path) for path in paths):
        reached("deep")
    assert alike(_module(on_any(export, backend), params).names, paths)


@requirement("export/names/tilde-becomes-underscore", must_reach=("tilde",))
@costly
@at_least(16)
@given(backend=backends(), params=parameter_trees(keys=tilde_keys, nodes=KEYED, depth=3))
def test_a_tilde_in_a_path_becomes_an_underscore(export, backend, params):
    """A `~` in the path of a parameter, as in names of dm-haiku, is `_` in the variable's name,
    since TensorFlow refuses it.
    """
    paths = _paths(params)
    if any("~" in plain_text(path) for path in paths):
        reached("tilde")
    names = [path.replace("~", "_") for path in paths]
    assert alike(_module(on_any(export, backend), params).names, names)


@requirement("export/names/pathless-parameters-are-numbered", must_reach=("lossy",))
@costly
@given(backend=backends(), params=parameter_trees(nodes=LOSSY, depth=2))
def test_variables_are_numbered_where_names_cannot_be_laid_out(export, backend, params):
    """Where a tree of names cannot have the structure of the parameters, the variables are called
    `jax_param_0`, `jax_param_1` and so on, in the order of the leaves, and a warning is logged.
    """
    assume(_lossy_nodes(params))
    reached("lossy")
    with _warnings() as messages:
        module = _module(on_any(export, backend), params)
    count = len(jax.tree.leaves(params))
    assert alike(module.names, [f"jax_param_{number}" for number in range(count)])
    assert any("jax_param" in message for message in messages)


def _lossy_nodes(tree):
    """The outermost lossy nodes of a tree that have an array as their child."""
    found = jax.tree.leaves(tree, is_leaf=lambda node: isinstance(node, exported.Lossy))
    lossy = [node for node in found if isinstance(node, exported.Lossy)]
    return [node for node in lossy if hasattr(node.value, "shape")]


@requirement("export/names/module-keeps-its-name")
@costly
@given(backend=backends(), name=numbered_names("served", "my_model", "m"))
def test_a_module_has_the_name_that_it_was_given(export, backend, name):
    """A module's `name` is the one that it was given, which is a Python identifier, as TensorFlow
    needs it.
    """
    module = _module(on_any(export, backend), {"w": exported.batch(1, 2)}, name=name)
    assert alike(module.owner.name, name)
