"""The laws: one or more properties for each requirement, in a folder for each of its parts.

Laws touch the implementation only through the fixtures `meta`, `logical`, ... that `judging.suite`
lists. Every law in a module that uses the fixture `subject` is tried on both box classes.
"""


def assert_falsehood() -> None:
    """Make an assertion that is false, by which the judge proves that assertions are made.

    Raises:
      AssertionError: Always, unless Python drops assertions.
    """
    falsehood = False
    assert falsehood, "assertions are made"
