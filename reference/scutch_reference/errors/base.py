"""The bases of the errors of the reference.

The `text` of a class is the template of its message, and the names in it are attributes of the
error. A class of this package is shown under the name of the package.

>>> class AgeError(UsageError):
...     pass
>>> print(AgeError(place="an age", given=-1, expected="a number that is not negative"))
Got -1 as an age; expected a number that is not negative.
"""

from typing import Any, ClassVar


class ScutchReferenceError(ValueError):
    """The base of the errors that the reference raises; catch it to catch them all.

    Args:
      parts: A value for each name in the braces of `text`; it becomes an attribute of the error.
    """

    __module__ = __name__.removesuffix(".base")
    text: ClassVar[str]

    def __init_subclass__(cls) -> None:
        """Show a class of this package under the name that users import it from."""
        super().__init_subclass__()
        if cls.__module__.startswith(f"{ScutchReferenceError.__module__}."):
            cls.__module__ = ScutchReferenceError.__module__

    def __init__(self, **parts: object) -> None:
        vars(self).update(parts)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"{type(self).__qualname__} has no part {name!r}, only {[*vars(self)]!r}"
        )

    def __str__(self) -> str:
        return " ".join(self.text.split()).format(**vars(self))


class UsageError(ScutchReferenceError):
    """The base of the errors about a value that is none of those expected at its place.

    Only its subclasses are raised. `given` is the value, `place` says which argument or part it is,
    and `expected` describes the values that are expected there.
    """

    text = "Got {given!r} as {place}; expected {expected}."
