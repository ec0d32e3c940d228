"""The option `--implementation` of the benchmarks at the desk."""

import os


def pytest_addoption(parser):
    """Add the option."""
    parser.addoption(
        "--implementation",
        default="",
        metavar="NAME|MODULE:ATTR|FILE",
        help="an adapter, as `scutch run` takes it, to be timed beside the others",
    )


def pytest_configure(config):
    """Tell `benchmarks.libraries`, which is imported with the first benchmark."""
    if config.option.implementation:
        os.environ["SCUTCH_IMPLEMENTATION"] = config.option.implementation
