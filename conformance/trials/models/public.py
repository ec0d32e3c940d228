"""Five small models in the shape of public ones, and the options that plant a bug in each.

A residual network and a language model in Linen, after Flax's examples `imagenet` and `lm1b`. A
vision transformer and Gemma in NNX, after its examples `vit` and `gemma`. A decoder with logical
rules in the way of MaxText: a scan whose layers are stacked along axis 1 of the parameters.
"""

import dataclasses
import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
import scutch
from flax import nnx
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

STRUCT = jax.ShapeDtypeStruct
NORMAL = nn.initializers.lecun_normal()


def cross_entropy(logits, tokens):
    return optax.softmax_cross_entropy_with_integer_labels(logits, tokens).mean()


# A residual network, data parallel: every device has all parameters ------------------------------


class ResidualBlock(nn.Module):
    """Two convolutions with batch statistics."""

    width: int
    axis_name: str | None = None

    @nn.compact
    def __call__(self, x):
        norm = functools.partial(
            nn.BatchNorm, use_running_average=False, momentum=0.9, axis_name=self.axis_name
        )
        y = nn.relu(norm()(nn.Conv(self.width, (3, 3), use_bias=False)(x)))
        y = norm(scale_init=nn.initializers.zeros)(nn.Conv(self.width, (3, 3), use_bias=False)(y))
        if x.shape != y.shape:
            x = nn.Conv(self.width, (1, 1), use_bias=False, name="projection")(x)
        return nn.relu(x + y)


class ResNet(nn.Module):
    """Images to logits."""

    axis_name: str | None = None

    @nn.compact
    def __call__(self, images):
        x = nn.Conv(4, (3, 3), use_bias=False, name="stem")(images)
        x = ResidualBlock(8, self.axis_name)(x)
        return nn.Dense(16, name="head")(x.mean(axis=(1, 2)))


def image_loss(logits, images):
    return jnp.square(logits - images.mean(axis=(1, 2, 3))[:, None]).mean()


def first_state(mesh, key):
    variables = ResNet().init(key, jnp.zeros((8, 4, 4, 3)))
    state = {**variables, "momentum": jax.tree.map(jnp.zeros_like, variables["params"])}
    return jax.device_put(state, NamedSharding(mesh, P()))


def parallel_step(state, images, *, synced=True, averaged=True, told=False, half=False):
    """One step in `shard_map`; users easily forget the two steps of `synced` and `averaged`."""
    module = ResNet("data" if synced else None)

    def local(state, images):
        def loss_of(params):
            variables = {"params": params, "batch_stats": state["batch_stats"]}
            logits, changed = module.apply(variables, images, mutable=["batch_stats"])
            return image_loss(logits, images), changed["batch_stats"]

        (loss, statistics), gradient = jax.value_and_grad(loss_of, has_aux=True)(state["params"])
        if averaged:
            gradient = jax.lax.pmean(gradient, "data")
        loss = jax.lax.pmean(loss, "data")
        momentum = jax.tree.map(lambda m, g: 0.9 * m + g, state["momentum"], gradient)
        params = jax.tree.map(lambda p, m: p - 0.01 * m, state["params"], momentum)
        if half:
            momentum = jax.tree.map(lambda m: m.astype("bfloat16"), momentum)
        return {"params": params, "batch_stats": statistics, "momentum": momentum}, loss

    mesh = jax.sharding.get_abstract_mesh()
    mapped = jax.shard_map(
        local, mesh=mesh, in_specs=(P(), P("data")), out_specs=P(), check_vma=False
    )
    state, loss = mapped(state, images)
    if told:
        jax.debug.print("loss {}", loss)
    return state, loss


def residual(more=None, **options):
    """The residual network."""
    step = functools.partial(parallel_step, **options)
    return scutch.Model(
        ResNet(),
        STRUCT((8, 4, 4, 3), "float32"),
        loss=image_loss,
        start=first_state,
        meshes=({"data": 4},),
        step=lambda state, images: step(state, images),
        **(more or {}),
    )


# A language model whose annotations name mesh axes ------------------------------------------------


@dataclasses.dataclass(frozen=True)
class LanguageOptions:
    """The options that a bug changes."""

    table: tuple | None = ("model", None)
    query: tuple = (None, "model", None)
    out: tuple = ("model", None, None)
    up: tuple = (None, "model")
    odd: tuple | None = None
    hidden: int = 32
    heads: int = 4
    rate: float = 0.1
    one_key: bool = False


class LanguageBlock(nn.Module):
    """Attention and a feed-forward layer."""

    options: LanguageOptions
    number: int

    @nn.compact
    def __call__(self, x, mask):
        options = self.options
        key = self.make_rng("dropout") if options.one_key else None
        up = options.odd if options.odd and self.number == 1 else options.up
        heads, h = options.heads, nn.LayerNorm()(x)
        query = nn.with_partitioning(NORMAL, options.query)
        q, k, v = (
            jnp.einsum("btd,dnh->btnh", h, self.param(name, query, (16, heads, 4)))
            for name in ("query", "key", "value")
        )
        out = self.param("out", nn.with_partitioning(NORMAL, options.out), (heads, 4, 16))
        h = jnp.einsum("btnh,nhd->btd", nn.dot_product_attention(q, k, v, mask=mask), out)
        x = x + nn.Dropout(options.rate, deterministic=False)(h, rng=key)
        up = nn.with_partitioning(NORMAL, up)
        h = nn.Dense(options.hidden, use_bias=False, kernel_init=up, name="up")(nn.LayerNorm()(x))
        down = nn.with_partitioning(NORMAL, ("model", None))
        h = nn.Dense(16, use_bias=False, kernel_init=down, name="down")(nn.gelu(h))
        return x + nn.Dropout(options.rate, deterministic=False)(h, rng=key)


class LanguageModel(nn.Module):
    """Tokens to logits, with one table for both."""

    options: LanguageOptions = LanguageOptions()

    @nn.compact
    def __call__(self, tokens):
        init = nn.initializers.normal(0.1)
        if self.options.table is not None:
            init = nn.with_partitioning(init, self.options.table)
        table = nn.Embed(64, 16, embedding_init=init, name="embed")
        x, mask = table(tokens), nn.make_causal_mask(tokens)
        for number in range(2):
            x = LanguageBlock(self.options, number, name=f"block_{number}")(x, mask)
        return table.attend(nn.LayerNorm(name="norm")(x))


def language(more=None, **options):
    """The language model."""
    return scutch.Model(
        LanguageModel(LanguageOptions(**options)),
        STRUCT((8, 4), "int32"),
        loss=cross_entropy,
        **{
            "meshes": ({"data": 2, "model": 4},),
            "optimizer": optax.adamw(1e-3),
            "large": 2048,
            **(more or {}),
        },
    )


# A vision transformer of objects -----------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class VisionOptions:
    """The options that a bug changes."""

    up: tuple = ("embed", "mlp")
    down: tuple = ("mlp", "embed")
    odd: tuple | None = None
    hidden: int = 32
    rate: float = 0.1
    callback: bool = False
    repeated_key: bool = False


class VisionBlock(nnx.Module):
    """Attention and a feed-forward layer."""

    def __init__(self, options, number, rules, rngs):
        odd = options.odd is not None and number == 1
        annotated = functools.partial(nnx.with_partitioning, sharding_rules=rules)
        self.options = options
        self.first, self.second = nnx.LayerNorm(8, rngs=rngs), nnx.LayerNorm(8, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(
            2,
            8,
            decode=False,
            rngs=rngs,
            kernel_init=annotated(NORMAL, ("embed", "heads", "kv")),
            out_kernel_init=annotated(NORMAL, ("heads", "kv", "embed")),
            use_bias=False,
        )
        up = annotated(NORMAL, options.odd if odd else options.up)
        self.up = nnx.Linear(8, options.hidden, use_bias=False, kernel_init=up, rngs=rngs)
        down = annotated(NORMAL, options.down)
        self.down = nnx.Linear(options.hidden, 8, use_bias=False, kernel_init=down, rngs=rngs)
        self.dropout = nnx.Dropout(options.rate, rngs=rngs)

    def __call__(self, x):
        key = self.dropout.rngs() if self.options.repeated_key else None
        x = x + self.dropout(self.attention(self.first(x)), rngs=key)
        h = nnx.gelu(self.up(self.second(x)))
        if self.options.callback:
            jax.debug.callback(lambda value: None, h.max())
        return x + self.dropout(self.down(h), rngs=key)


class VisionTransformer(nnx.Module):
    """Images to logits."""

    def __init__(self, options, rules, rngs):
        patch = nnx.with_partitioning(NORMAL, (None, None, None, "embed"), sharding_rules=rules)
        self.patches = nnx.Conv(3, 8, (2, 2), (2, 2), kernel_init=patch, use_bias=False, rngs=rngs)
        blocks = [VisionBlock(options, number, rules, rngs) for number in range(2)]
        self.blocks = nnx.List(blocks)
        head = nnx.with_partitioning(NORMAL, ("embed", None), sharding_rules=rules)
        self.head = nnx.Linear(8, 4, kernel_init=head, use_bias=False, rngs=rngs)

    def __call__(self, images):
        x = self.patches(images)
        x = x.reshape(x.shape[0], -1, x.shape[-1])
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(axis=1))


VISION_RULES = (
    ("batch", "data"),
    ("embed", None),
    ("mlp", "model"),
    ("heads", "model"),
    ("kv", None),
)


def vision(more=None, rules=VISION_RULES, **options):
    """The vision transformer."""
    return scutch.Model(
        lambda rngs: VisionTransformer(VisionOptions(**options), rules, rngs),
        STRUCT((8, 4, 4, 3), "float32"),
        rules=rules,
        **{"meshes": ({"data": 4, "model": 2},), **(more or {})},
    )


# Gemma: parameters and activations that name mesh axes --------------------------------------------


@dataclasses.dataclass(frozen=True)
class GemmaOptions:
    """The options that a bug changes: a sharding configuration, and sizes."""

    table: tuple | None = ("tensor", "fsdp")
    query: tuple = ("tensor", "fsdp", None)
    out: tuple = ("tensor", None, "fsdp")
    gate: tuple = ("fsdp", "tensor")
    down: tuple = ("tensor", "fsdp")
    odd: tuple | None = None
    stream: tuple | None = ("fsdp", None, None)
    unconstrained_layer: int | None = None
    layers: int = 2
    heads: int = 2


class GemmaBlock(nnx.Module):
    """Attention without a softmax of its own, and a gated layer."""

    def __init__(self, options, number, rngs):
        def param(names, *shape):
            value = nnx.initializers.normal(0.1)(rngs.params(), shape)
            return nnx.Param(value, out_sharding=names)

        odd = options.odd is not None and number == 1
        self.stream = None if options.unconstrained_layer == number else options.stream
        self.norms = nnx.List([nnx.RMSNorm(16, rngs=rngs) for _ in range(2)])
        self.query = param(options.query, options.heads, 16, 4)
        self.key = param(options.query, options.heads, 16, 4)
        self.value = param(options.query, options.heads, 16, 4)
        self.out = param(options.out, options.heads, 4, 16)
        self.gate = param(options.odd if odd else options.gate, 16, 32)
        self.up = param(options.gate, 16, 32)
        self.down = param(options.down, 32, 16)

    def __call__(self, x):
        h = self.norms[0](x)
        q, k, v = (
            jnp.einsum("btd,ndh->btnh", h, w[...]) for w in (self.query, self.key, self.value)
        )
        h = jax.nn.dot_product_attention(q, k, v, is_causal=True)
        x = x + jnp.einsum("btnh,nhd->btd", h, self.out[...])
        h = self.norms[1](x)
        x = x + (nnx.gelu(h @ self.gate[...]) * (h @ self.up[...])) @ self.down[...]
        return x if self.stream is None else jax.lax.with_sharding_constraint(x, P(*self.stream))


class Gemma(nnx.Module):
    """Tokens to logits."""

    def __init__(self, options, rngs):
        init = nnx.initializers.normal(0.1)
        names = {} if options.table is None else {"out_sharding": options.table}
        self.table = nnx.Param(init(rngs.params(), (64, 16)), **names)
        self.blocks = nnx.List(
            [GemmaBlock(options, number, rngs) for number in range(options.layers)]
        )
        self.norm = nnx.RMSNorm(16, rngs=rngs)

    def __call__(self, tokens):
        x = self.table[...][tokens] * 4
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.table[...].T


def gemma(more=None, **options):
    """Gemma."""
    return scutch.Model(
        lambda rngs: Gemma(GemmaOptions(**options), rngs),
        STRUCT((8, 4), "int32"),
        loss=cross_entropy,
        **{
            "meshes": ({"fsdp": 4, "tensor": 2},),
            "optimizer": optax.adamw(1e-3),
            "large": 2048,
            **(more or {}),
        },
    )


# A decoder with logical rules, scanned along axis 1 -----------------------------------------------


@dataclasses.dataclass(frozen=True)
class DecoderOptions:
    """The options that a bug changes."""

    up: tuple = ("embed", "mlp")
    down: tuple = ("mlp", "embed")
    query: tuple = ("embed", "heads", "kv")
    table: tuple | None = ("vocab", "embed")
    stream: tuple | None = ("activation_batch", "activation_length", "activation_embed")
    inner: tuple = ("activation_batch", "activation_length", "activation_mlp")
    partition_name: str | None = "layers"
    hidden: int = 32
    vocabulary: int = 64
    scanned: bool = True
    odd_scale: float = 1.0


class DecoderLayer(nn.Module):
    """Attention and a gated layer, rematerialized."""

    options: DecoderOptions
    number: int = 0

    @nn.compact
    def __call__(self, x, _=None):
        options = self.options

        def kernel(names):
            return nn.with_logical_partitioning(NORMAL, names)

        def norm(name):
            ones = nn.with_logical_partitioning(nn.initializers.ones, ("norm",))
            return nn.RMSNorm(name=name, scale_init=ones)

        h = norm("before")(x)
        heads = (
            jnp.einsum("btd,dnh->btnh", h, self.param(name, kernel(options.query), (16, 2, 8)))
            for name in ("query", "key", "value")
        )
        out = self.param("out", kernel(("heads", "kv", "embed")), (2, 8, 16))
        x = x + jnp.einsum("btnh,nhd->btd", nn.dot_product_attention(*heads), out)
        h, wide = norm("after")(x), functools.partial(nn.Dense, options.hidden, use_bias=False)
        gate = wide(kernel_init=kernel(options.up), name="gate")(h)
        up = wide(kernel_init=kernel(options.up), name="up")(h)
        h = nn.with_logical_constraint(nn.silu(gate) * up, options.inner)
        down = functools.partial(nn.Dense, 16, use_bias=False, name="down")
        h = down(kernel_init=kernel(options.down))(h)
        x = x + h * (options.odd_scale if self.number == 1 else 1.0)
        if options.stream is not None:
            x = nn.with_logical_constraint(x, options.stream)
        return x, None


class LogicalDecoder(nn.Module):
    """Tokens to logits."""

    options: DecoderOptions = DecoderOptions()

    @nn.compact
    def __call__(self, tokens):
        options = self.options
        init = nn.initializers.normal(0.1)
        if options.table is not None:
            init = nn.with_logical_partitioning(init, options.table)
        table = nn.Embed(options.vocabulary, 16, embedding_init=init, name="table")
        x = table(tokens)
        layer = nn.remat(DecoderLayer, prevent_cse=not options.scanned)
        if options.scanned:
            name = options.partition_name
            x, _ = nn.scan(
                layer,
                length=3,
                variable_axes={"params": 1},
                split_rngs={"params": True},
                metadata_params={} if name is None else {nn.PARTITION_NAME: name},
            )(options, name="layers")(x, None)
        else:
            for number in range(3):
                x, _ = layer(options, number, name=f"layers_{number}")(x)
        return table.attend(x)


DECODER_RULES = (
    ("activation_batch", ("data", "fsdp")),
    ("activation_length", None),
    ("activation_embed", "tensor"),
    ("activation_mlp", "tensor"),
    ("vocab", "tensor"),
    ("embed", "fsdp"),
    ("heads", "tensor"),
    ("kv", None),
    ("mlp", "tensor"),
    ("norm", "tensor"),
    ("layers", None),
)


def logical(more=None, rules=DECODER_RULES, **options):
    """The decoder with logical rules."""
    return scutch.Model(
        LogicalDecoder(DecoderOptions(**options)),
        STRUCT((8, 4), "int32"),
        loss=cross_entropy,
        rules=rules,
        input_names=(("activation_batch", "activation_length"),),
        **{
            "meshes": ({"data": 1, "fsdp": 4, "tensor": 2},),
            "optimizer": optax.adamw(1e-3),
            "large": 2048,
            "unrolled": LogicalDecoder(DecoderOptions(scanned=False)),
            **(more or {}),
        },
    )


MODELS = {
    "a residual network in Linen": residual,
    "a language model in Linen": language,
    "a vision transformer in NNX": vision,
    "Gemma in NNX": gemma,
    "a decoder with logical rules": logical,
}
