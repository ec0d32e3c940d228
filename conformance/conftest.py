"""Judging from a checkout: `pytest conformance` finds the laws and the plugin that runs them."""

import pytest


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Load the plugin early enough for its options."""
    pluginmanager.import_plugin("scutch.plugin")
