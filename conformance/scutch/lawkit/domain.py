"""Two ways to leave a law, for an input outside its domain, or a feature that JAX lacks.

`hypothesis.assume` and `pytest.skip` would do, were it not for implementations that raise the same
exceptions: a broken one could reject every input and pass. These two are the judge's own, and every
other exception that leaves a law counts as breaking it.

    def test_removing_an_added_axis_restores_the_box(meta, box, index, name):
        assume(index <= len(box.names))
        ...

Neither is an `Exception`, so that no `except Exception` on the way catches it.
"""

import importlib.machinery
from typing import Any, NoReturn

import jax


class OutOfDomain(BaseException):
    """A law says nothing about the input that it was called with.

    Wrong, in a law, because the requirement would pass on inputs that it is not about:

        if index > len(box.names):
            return

    Right: `assume(index <= len(box.names))`.
    """


class TooFewDevices(OutOfDomain):
    """An input needs more devices than the machine has.

    A requirement that no other input could try is `unclaimed` on this machine, with this reason.

    Wrong, in a law, because the reason is lost:

        assume(len(jax.devices()) >= 8)

    Right:

        need_devices(8)

    Attributes:
      needed: How many devices the input needs.
      present: How many there are.
    """

    def __init__(self, needed: int, present: int) -> None:
        """Keep both numbers."""
        self.needed = needed
        self.present = present
        super().__init__(f"needs {needed} devices, and there are {present}")


class NotAvailable(BaseException):
    """The environment lacks a feature that a law needs, so the law judges nobody here.

    Wrong, in a law, because an implementation could raise the same exception to escape the law:

        pytest.skip("no explicit axes")

    Right:

        not_available("no explicit axes")

    Attributes:
      reason: The name of the missing feature, package or option.
    """

    def __init__(self, reason: str) -> None:
        """Keep the reason."""
        self.reason = reason
        super().__init__(reason)


class Untried(NotAvailable):
    """The judge could not do its part, so a law was not tried: its requirement is untested.

    Wrong, in the judge, because the implementation would be blamed:

        raise RuntimeError("no process could be started")

    Right:

        raise Untried("no process could be started")
    """


class JudgeAtFault(Untried):
    """The judge found itself wrong, so its answer about a law counts for nothing.

    The requirement is untested, with a reason that begins with `THE_JUDGE`.

    Wrong, in the judge, because the implementation would be blamed:

        raise AssertionError("two traces with equal forms give different results")

    Right:

        raise JudgeAtFault("two traces with equal forms give different results")
    """

    def __init__(self, reason: str) -> None:
        """Keep the reason, and say who is at fault."""
        super().__init__(f"{THE_JUDGE}: {reason}")


THE_JUDGE = "a fault of the judge, not of the implementation"


def assume(condition: object) -> None:
    """Leave the law where a condition on its input does not hold.

    Raises:
      OutOfDomain: The condition does not hold.
    """
    if not condition:
        raise OutOfDomain


def need_devices(count: int) -> None:
    """Leave the law where JAX has fewer devices than this.

    Raises:
      TooFewDevices: JAX has fewer devices.
    """
    present = jax.device_count()
    if present < count:
        raise TooFewDevices(count, present)


def not_available(reason: str) -> NoReturn:
    """Leave the law because the environment lacks something.

    Raises:
      NotAvailable: Always.
    """
    raise NotAvailable(reason)


def import_or_leave(module: str, reason: str) -> Any:
    """Import a module that a law needs.

    Args:
      module: The import name, such as `'tensorflow'`.
      reason: The sentence for the report if the module is not installed: its name, and how to
        install it.

    Raises:
      NotAvailable: The module is not installed.
      Untried: The module is installed, and importing it fails.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        if is_installed(module):
            raise Untried(f"{module} is installed, and importing it fails: {error}") from None
        raise NotAvailable(reason) from None


def is_installed(package: str) -> bool:
    """Whether Python's path has a package, also if it was taken out of `sys.modules`."""
    return importlib.machinery.PathFinder.find_spec(package) is not None
