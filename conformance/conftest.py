"""Judging from a checkout: `pytest conformance` finds the laws and the plugin that runs them."""

import pytest
from scutch.shadowing import stranger


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Load the plugin early enough for its options."""
    if found := stranger():
        raise pytest.UsageError(found)
    pluginmanager.import_plugin("scutch.plugin")
