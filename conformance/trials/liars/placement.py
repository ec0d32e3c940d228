"""Lies about where a variable lies when it is made: OBJ-9."""

import jax
from jax.sharding import NamedSharding, PartitionSpec
from scutch_reference import nnx
from scutch_reference.jax_versions import trace_level
from scutch_reference.placement import context_mesh
from trials.liars.objects import variables_in
from trials.liars.tale import of_objects


def is_placed(metadata):
    """Whether a variable with these metadata is laid out when it is made."""
    return metadata.get("eager_sharding", nnx.using_eager_sharding())


@of_objects
class NamesAreForLater:
    """Breaks OBJ-9a: a variable made with names is not laid out."""

    class Param(nnx.Param):
        def __init__(self, value, **metadata):
            if isinstance(metadata.get("out_sharding"), tuple | PartitionSpec):
                metadata["eager_sharding"] = False
            super().__init__(value, **metadata)


first = []
"""The trace in which a variable was made last, and the mesh of the first variable in it."""


@of_objects
class OneMeshInATrace:
    """Breaks OBJ-9a: in one trace, variables with names lie on the mesh of the first alone."""

    class Param(nnx.Param):
        def __init__(self, value, **metadata):
            trace, mesh = trace_level(), metadata.get("mesh")
            is_traced = isinstance(jax.numpy.zeros(()), jax.core.Tracer)
            if is_traced and mesh and isinstance(metadata.get("out_sharding"), tuple):
                if first[:1] != [trace]:
                    first[:] = [trace, mesh]
                if first[1] != mesh:
                    metadata["eager_sharding"] = False
            super().__init__(value, **metadata)


@of_objects
class RulesAreForLater:
    """Breaks OBJ-9b: a variable with rules of its own is not laid out."""

    class Param(nnx.Param):
        def __init__(self, value, **metadata):
            if "sharding_rules" in metadata:
                metadata["eager_sharding"] = False
            super().__init__(value, **metadata)


@of_objects
class AlwaysPlaces:
    """Breaks OBJ-9c: the variable's own `eager_sharding` is not heard."""

    class Param(nnx.Param):
        def __init__(self, value, **metadata):
            metadata.pop("eager_sharding", None)
            super().__init__(value, **metadata)


@of_objects
class SwitchUnknown:
    """Breaks OBJ-9d: nobody can tell that eager sharding is on."""

    def using_eager_sharding():
        return False


@of_objects
class ShardingWins:
    """Breaks OBJ-9e: beside a sharding, another mesh is left out without a word."""

    class Param(nnx.Param):
        def __init__(self, value, **metadata):
            if not isinstance(metadata.get("out_sharding"), tuple | PartitionSpec):
                metadata.pop("mesh", None)
            super().__init__(value, **metadata)


@of_objects
class SilentOnMeshes:
    """Breaks OBJ-9f: the error for two meshes shows neither."""

    class Param(nnx.Param):
        def __init__(self, value, **metadata):
            try:
                super().__init__(value, **metadata)
            except ValueError as error:
                raise ValueError("two meshes") from error


@of_objects
class Replicates:
    """Breaks OBJ-9h: a `NamedSharding` is taken for its mesh alone."""

    class Param(nnx.Param):
        def __init__(self, value, **metadata):
            given = metadata.get("out_sharding")
            if isinstance(given, NamedSharding) and is_placed(metadata):
                metadata["out_sharding"] = NamedSharding(given.mesh, PartitionSpec())
            super().__init__(value, **metadata)


@of_objects
class FormatsAreForLater:
    """Breaks OBJ-9g: a variable made with a `Format` is not laid out."""

    class Param(nnx.Param):
        def __init__(self, value, **metadata):
            given = metadata.get("out_sharding", ())
            is_format = not isinstance(given, tuple | PartitionSpec | NamedSharding)
            if is_format and "mesh" not in metadata:
                metadata["eager_sharding"] = False
            super().__init__(value, **metadata)


@of_objects
class AbstractModelsAreReplicated:
    """Breaks OBJ-9i: in an abstract model, variables with rules of their own are replicated."""

    def get_abstract_model(init, mesh):
        def bare():
            model = init()
            for variable in variables_in(model):
                if variable.get_metadata("sharding_rules", None):
                    variable.set_metadata(out_sharding=None)
            return model

        return nnx.get_abstract_model(bare, mesh)


@of_objects
class ShapesLieNowhere:
    """Breaks OBJ-9j: a variable from `eval_shape` has no sharding from its names."""

    def eval_shape(fun, *args, **kwargs):
        return nnx.JitWrapped(fun).eval_shape(*args, **kwargs)


@of_objects
class TwoTypesAreForLater:
    """Breaks OBJ-9k: a variable on a mesh with axes of two types is not laid out."""

    class Param(nnx.Param):
        def __init__(self, value, **metadata):
            mesh = metadata.get("mesh") or context_mesh()
            if len(set(getattr(mesh, "axis_types", None) or ())) > 1:
                metadata["eager_sharding"] = False
            super().__init__(value, **metadata)
