"""The examples in docstrings run."""

import doctest
import importlib

import pytest


@pytest.mark.parametrize("module", ["meta", "logical", "nnx.shard_map"])
def test_docstring_examples_hold(module):
    """What a docstring shows is what happens."""
    results = doctest.testmod(importlib.import_module(f"scutch_reference.{module}"))
    assert results.attempted > 0
    assert results.failed == 0
