"""Names beside the variables: the older annotation gives the specs and shardings of the newer."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh
from scutch_reference import linen

KEY = jax.random.key(0)
X = jnp.ones((2, 4))
RULES = (("embed", None), ("mlp", "model"), ("layers", None))


@pytest.fixture(params=["reference", "flax"])
def library(request):
    """Linen, and its module `partitioning`."""
    if request.param == "reference":
        return linen, linen.partitioning
    return pytest.importorskip("flax.linen"), pytest.importorskip("flax.linen.partitioning")


def layer(nn, partitioning):
    """A layer whose kernel and running mean have names."""

    class Layer(nn.Module):
        @nn.compact
        def __call__(self, x, _=None):
            init = nn.initializers.ones
            kernel = partitioning.param_with_axes("kernel", init, (4, 4), axes=("embed", "mlp"))
            mean = partitioning.variable_with_axes("stats", "mean", jnp.zeros, (4,), axes=("mlp",))
            if self.is_mutable_collection("stats"):
                mean.value = mean.value + 1
            return x @ kernel + mean.value, None

    return Layer


def specs(partitioning, names):
    """The specs of a collection of names, as tuples by variable."""
    return {name: tuple(spec) for name, spec in partitioning.get_axis_names(names).items()}


def test_names_lie_beside_the_variables(library):
    """In a collection of their own, without leaves."""
    nn, partitioning = library
    variables = layer(nn, partitioning)().init(KEY, X)
    assert specs(partitioning, variables["params_axes"]) == {"kernel": ("embed", "mlp")}
    assert specs(partitioning, variables["stats_axes"]) == {"mean": ("mlp",)}
    assert jax.tree.leaves(variables["params_axes"]) == []


def test_a_scan_names_its_axis_there(library):
    """In the collections asked for."""
    nn, partitioning = library
    stacked = partitioning.scan_with_axes(
        layer(nn, partitioning),
        variable_axes={"params": 0, "stats": 0},
        split_rngs={"params": True},
        length=3,
        axis_name="layers",
        axes_collections=("params", "stats"),
    )()
    variables = stacked.init(KEY, X)
    assert variables["params"]["kernel"].shape == (3, 4, 4)
    assert specs(partitioning, variables["params_axes"]) == {"kernel": ("layers", "embed", "mlp")}
    assert specs(partitioning, variables["stats_axes"]) == {"mean": ("layers", "mlp")}
    (output, _), changed = stacked.apply(variables, X, mutable=["stats"])
    assert changed["stats"]["mean"].shape == (3, 4)
    assert output.shape == (2, 4)


def test_lanes_name_their_axis_there(library):
    """Each collection by the name that it is given."""
    nn, partitioning = library
    lanes = partitioning.vmap_with_axes(
        layer(nn, partitioning),
        variable_axes={"params": 0, "stats": 0, "params_axes": 0, "stats_axes": 0},
        split_rngs={"params": True},
        in_axes=None,
        axis_size=3,
        partitioning_axis_names={"params": "heads"},
    )()
    variables = lanes.init(KEY, X)
    assert specs(partitioning, variables["params_axes"]) == {"kernel": ("heads", "embed", "mlp")}
    assert specs(partitioning, variables["stats_axes"]) == {"mean": ("mlp",)}


def test_the_mapped_names_are_the_mesh_axes_of_the_values(library):
    """By the rules in context, on the mesh in context."""
    nn, partitioning = library
    names = layer(nn, partitioning)().init(KEY, X)["params_axes"]
    with partitioning.axis_rules(RULES):
        assert tuple(partitioning.get_axis_rules()) == RULES
        mapped = partitioning.logical_to_mesh(partitioning.get_axis_names(names))
    assert tuple(mapped["kernel"]) == (None, "model")


@pytest.mark.skipif(not hasattr(jax, "set_mesh"), reason="needs jax.set_mesh")
def test_values_are_constrained_where_there_is_a_mesh():
    """Parameters when they are read, variables when they are written too."""
    mesh = Mesh(np.array(jax.devices()[:2]), ("model",))
    model = layer(linen, linen.partitioning)()
    with jax.set_mesh(mesh), linen.partitioning.axis_rules(RULES):
        variables = jax.jit(model.init)(KEY, X)
        _, changed = model.apply(variables, X, mutable=["stats"])
    assert tuple(changed["stats"]["mean"].sharding.spec) == ("model",)
