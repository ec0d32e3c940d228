"""The errors of export, which name the attempt, the value at fault and the remedy (EXP).

As in `scutch_reference.errors`, a docstring shows the code that raises the error (`Wrong`) beside
the code that does not (`Right`). The examples export without TensorFlow; with it the errors are the
same.
"""

from ..errors import ScutchReferenceError, UsageError


class ExportError(ScutchReferenceError):
    """The base of the errors of export; catch it to catch them all."""


class MethodKeysError(ExportError):
    """With a mapping of functions, an argument has other keys, or is no mapping (EXP-2).

    Wrong::

        from scutch_reference.export import ExportModelType, JaxModule

        kind = ExportModelType.ORBAX_MODEL
        JaxModule({}, {"f": jnp.add}, input_polymorphic_shape={"g": "b"}, export_version=kind)

    Right::

        from scutch_reference.export import ExportModelType, JaxModule

        kind = ExportModelType.ORBAX_MODEL
        JaxModule({}, {"f": jnp.add}, input_polymorphic_shape={"f": "b"}, export_version=kind)
    """

    text = """`{argument}` must be a mapping with the keys of `apply_fn`, which are {keys!r}, but it
    is {given!r}."""


class ExportOptionError(ExportError):
    """An argument of `JaxModule` or an option of the conversion cannot be followed (EXP-2, EXP-3).

    Wrong::

        from scutch_reference.export import ExportModelType, JaxModule

        options = {"polymorphic_shapes": [None, "b"]}
        kind = ExportModelType.ORBAX_MODEL
        JaxModule({}, jnp.add, jax2tf_kwargs=options, export_version=kind)

    Right::

        from scutch_reference.export import ExportModelType, JaxModule

        kind = ExportModelType.ORBAX_MODEL
        JaxModule({}, jnp.add, input_polymorphic_shape="b", export_version=kind)
    """

    text = "`{option}` is {given!r}. {remedy}"


class ParameterError(ExportError):
    """A leaf of the parameters is nothing that can be exported.

    Wrong::

        from scutch_reference.export import ExportModelType, JaxModule

        JaxModule({"w": 2.0}, jnp.add, export_version=ExportModelType.ORBAX_MODEL)

    Right::

        from scutch_reference.export import ExportModelType, JaxModule

        JaxModule({"w": jnp.asarray(2.0)}, jnp.add, export_version=ExportModelType.ORBAX_MODEL)
    """

    text = "The parameter at {path!r} is {given!r}; expected {expected}."


class ParameterStructureError(ExportError):
    """A tree has another structure than the parameters that it goes with (EXP-3, EXP-4, EXP-6).

    Wrong::

        from scutch_reference.export import ExportModelType, JaxModule

        params, kind = {"w": jnp.ones(2)}, ExportModelType.ORBAX_MODEL
        JaxModule(params, jnp.add, trainable={"v": True}, export_version=kind)

    Right::

        from scutch_reference.export import ExportModelType, JaxModule

        params, kind = {"w": jnp.ones(2)}, ExportModelType.ORBAX_MODEL
        JaxModule(params, jnp.add, trainable={"w": True}, export_version=kind)
    """

    text = """`{argument}` must have the structure of the parameters that the module was made with,
    which is {expected}, but it has {given}."""


class ParameterUpdateError(ExportError):
    """A new parameter has another shape or dtype than the one that it is to replace (EXP-4).

    Wrong::

        from scutch_reference.export import ExportModelType, JaxModule

        module = JaxModule({"w": jnp.ones(2)}, jnp.add, export_version=ExportModelType.ORBAX_MODEL)
        module.update_variables({"w": jnp.ones(3)})

    Right::

        from scutch_reference.export import ExportModelType, JaxModule

        module = JaxModule({"w": jnp.ones(2)}, jnp.add, export_version=ExportModelType.ORBAX_MODEL)
        module.update_variables({"w": jnp.zeros(2)})
    """

    text = """The new parameter at {path!r} has the {part} {given}, but the variable has the {part}
    {expected}. Nothing was changed."""


class ExportMeshError(ExportError, UsageError):
    """Partition specs and the export mesh do not go together (EXP-6).

    Wrong::

        from scutch_reference import export

        params, kind = {"w": jnp.ones(2)}, export.ExportModelType.ORBAX_MODEL
        export.JaxModule(params, jnp.add, pspecs={"w": P("data")}, export_version=kind)

    Right::

        from scutch_reference import export

        params, kind = {"w": jnp.ones(2)}, export.ExportModelType.ORBAX_MODEL
        with export.maybe_enable_dtensor_export_on(mesh):
            export.JaxModule(params, jnp.add, pspecs={"w": P("data")}, export_version=kind)
    """
