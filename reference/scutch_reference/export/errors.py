"""The errors of export: what was tried, with which value, and what was expected (EXP).

In the examples `export` is `scutch_reference.export`, `params` is `{"w": jnp.ones((2, 3))}`,
`double` is `lambda params, x: 2 * x @ params["w"]`, and `P` is `PartitionSpec`. They are written
for the path without TensorFlow; the errors are the same on both.
"""

from collections.abc import Collection
from dataclasses import dataclass, fields
from typing import Any, ClassVar, dataclass_transform


@dataclass_transform(eq_default=False)
class ExportError(ValueError):
    """The base of the errors of export; catch it to catch them all."""

    text: ClassVar[str]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        dataclass(eq=False, repr=False)(cls)

    def __post_init__(self) -> None:
        super().__init__(" ".join(self.text.split()).format(**vars(self)))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy by the parts, which the constructor takes, not by the message."""
        return type(self), tuple(getattr(self, part.name) for part in fields(self))  # type: ignore[arg-type]


class MethodKeysError(ExportError):
    """With a mapping of functions, an argument has other keys, or is no mapping (EXP-2).

    Wrong::

        export.JaxModule(params, {"double": double}, input_polymorphic_shape={"triple": "b, 2"})

    Right::

        export.JaxModule(params, {"double": double}, input_polymorphic_shape={"double": "b, 2"})
    """

    argument: str
    keys: Collection[Any]
    given: Any
    text = """`{argument}` must be a mapping with the keys of `apply_fn`, which are {keys!r}, but it
    is {given!r}."""


class ExportOptionError(ExportError):
    """An argument of `JaxModule` or an option of the conversion cannot be followed (EXP-2, EXP-3).

    Wrong::

        export.JaxModule(params, double, jax2tf_kwargs={"polymorphic_shapes": [None, "b, 2"]})

    Right::

        export.JaxModule(params, double, input_polymorphic_shape="b, 2")
    """

    option: str
    given: Any
    remedy: str
    text = "`{option}` is {given!r}. {remedy}"


class ParameterError(ExportError):
    """A leaf of the parameters is nothing that can be exported.

    Wrong::

        export.JaxModule({"w": 2.0}, double)

    Right::

        export.JaxModule({"w": jnp.asarray(2.0)}, double)
    """

    path: str
    given: Any
    expected: str
    text = "The parameter at {path!r} is {given!r}; expected {expected}."


class ParameterStructureError(ExportError):
    """A tree has another structure than the parameters that it goes with (EXP-3, EXP-4, EXP-6).

    Wrong::

        export.JaxModule(params, double, trainable={"v": True})

    Right::

        export.JaxModule(params, double, trainable={"w": True})
    """

    argument: str
    expected: Any
    given: Any
    text = """`{argument}` must have the structure of the parameters that the module was made with,
    which is {expected}, but it has {given}."""


class ParameterUpdateError(ExportError):
    """A new parameter has another shape or dtype than the one that it is to replace (EXP-4).

    Wrong::

        export.JaxModule(params, double).update_variables({"w": jnp.ones((3, 3))})

    Right::

        export.JaxModule(params, double).update_variables({"w": jnp.zeros((2, 3))})
    """

    path: str
    part: str
    expected: Any
    given: Any
    text = """The new parameter at {path!r} has the {part} {given}, but the variable has the {part}
    {expected}. Nothing was changed."""


class ExportMeshError(ExportError):
    """Partition specs and the export mesh do not go together (EXP-6).

    Wrong::

        export.JaxModule(params, double, pspecs={"w": P("data")})

    Right::

        with export.maybe_enable_dtensor_export_on(mesh):
            export.JaxModule(params, double, pspecs={"w": P("data")})
    """

    problem: str
    text = "{problem}"
