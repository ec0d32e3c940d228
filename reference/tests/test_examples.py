"""Every module outside the room `nnx` opens with an example, and the examples in docstrings run."""

import doctest
import importlib
from pathlib import Path

import pytest
import scutch_reference

ROOT = Path(scutch_reference.__file__).parent
ROOMS = ("errors", "linen", "bridge")
FILES = [*ROOT.glob("*.py"), *(file for room in ROOMS for file in (ROOT / room).glob("*.py"))]
MODULES = sorted(".".join(file.relative_to(ROOT.parent).with_suffix("").parts) for file in FILES)


@pytest.mark.parametrize("name", [*MODULES, "scutch_reference.nnx.shard_map"])
def test_docstring_examples_hold(name):
    """The examples of a docstring give the output that it shows."""
    module = importlib.import_module(name.removesuffix(".__init__"))
    results = doctest.testmod(module)
    assert results.failed == 0
    front_door = name.endswith("linen.__init__")  # whose modules have the examples
    assert results.attempted > 0 or front_door
