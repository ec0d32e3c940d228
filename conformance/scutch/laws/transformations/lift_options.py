"""Policies by name, a mesh, and whether a lift has modes, for the laws of options of lifts."""

import inspect

import jax
import numpy as np
from jax.sharding import Mesh

POLICIES = ("everything_saveable", "nothing_saveable", "dots_saveable")
"""Names of policies in `jax.checkpoint_policies`."""


def as_jax_takes(options):
    """The options as JAX takes them: the policy that is named in them, and axes as a frozen set."""
    values = {
        "policy": getattr(jax.checkpoint_policies, options.get("policy", POLICIES[0])),
        "axis_names": frozenset(options.get("axis_names", ())),
    }
    return {name: values.get(name, value) for name, value in options.items()}


def one_device_mesh():
    """A mesh of two axes and one device."""
    return Mesh(np.array(jax.devices()[:1]).reshape(1, 1), ("data", "model"))


def may_take_modes(lift, mode):
    """Whether a lift has the options of a mode, which releases of Flax before 0.12.6 have not."""
    parameters = inspect.signature(lift).parameters
    return {*mode} <= {*parameters} or any(p.kind is p.VAR_KEYWORD for p in parameters.values())
