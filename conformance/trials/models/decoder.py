"""A decoder with logical rules, as a user would write it, and the options that plant a bug."""

import dataclasses

import flax.linen as nn
import jax
import jax.numpy as jnp
import scutch

RULES = (
    ("batch", "fsdp"),
    ("vocab", "tensor"),
    ("embed", "fsdp"),
    ("mlp", "tensor"),
    ("layers", None),
    ("length", None),
    ("stream", None),
)
MESH = {"fsdp": 4, "tensor": 2}
VOCABULARY, WIDTH, HIDDEN, BATCH, LENGTH = 64, 16, 32, 8, 4


@dataclasses.dataclass(frozen=True)
class Options:
    """The options that a bug changes."""

    layers: int = 2
    scanned: bool = True
    hidden: int = HIDDEN
    wide: tuple = ("embed", "mlp")
    narrow: tuple = ("mlp", "embed")
    table: tuple | None = ("vocab", "embed")
    stream: tuple = ("batch", "length", "stream")
    constrained: bool = True
    odd_layer: tuple | None = None
    odd_constraint: bool = True
    dropout: float = 0.0
    one_key: bool = False
    split_keys: bool = True
    partition_name: bool = True
    printing: bool = False


def kernel(names):
    init = nn.initializers.lecun_normal()
    return init if names is None else nn.with_logical_partitioning(init, names)


class Block(nn.Module):
    """A gated layer with a residual stream."""

    options: Options
    number: int = 0

    @nn.compact
    def __call__(self, x, _=None):
        options, odd = self.options, self.number == 1
        wide = options.odd_layer if odd and options.odd_layer else options.wide
        scale = nn.with_logical_partitioning(nn.initializers.ones, ("stream",))
        h = nn.RMSNorm(name="norm", scale_init=scale)(x)
        h = nn.Dense(options.hidden, use_bias=False, kernel_init=kernel(wide), name="wide")(h)
        if options.dropout:
            key = self.make_rng("dropout") if options.one_key else None
            h = nn.Dropout(options.dropout, deterministic=False)(h, rng=key)
            h = nn.Dropout(options.dropout, deterministic=False)(jax.nn.silu(h), rng=key)
        h = nn.Dense(WIDTH, use_bias=False, kernel_init=kernel(options.narrow), name="narrow")(h)
        x = x + h
        if options.constrained and (options.odd_constraint or not odd):
            x = nn.with_logical_constraint(x, options.stream)
        if options.printing:
            jax.debug.print("{}", x.sum())
        return x, None


class Decoder(nn.Module):
    """Tokens to logits."""

    options: Options

    @nn.compact
    def __call__(self, tokens):
        options = self.options
        table = nn.Embed(VOCABULARY, WIDTH, embedding_init=kernel(options.table), name="embed")
        x = nn.with_logical_constraint(table(tokens), options.stream)
        if options.scanned:
            metadata = {nn.PARTITION_NAME: "layers"} if options.partition_name else {}
            x, _ = nn.scan(
                Block,
                length=options.layers,
                variable_axes={"params": 0},
                metadata_params=metadata,
                split_rngs={"params": True, "dropout": options.split_keys},
            )(options, name="layers")(x, None)
        else:
            for number in range(options.layers):
                x, _ = Block(options, number, name=f"layer_{number}")(x)
        return table.attend(x)


def loss(logits, tokens):
    wanted = jnp.roll(tokens, -1, axis=1)
    return -jnp.mean(jnp.take_along_axis(nn.log_softmax(logits), wanted[..., None], axis=-1))


def decoder(rules=None, mesh=MESH, batch=BATCH, more=None, **options):
    """The description of a decoder: `more` are arguments of `scutch.Model`."""
    if rules is None:
        rules = RULES if options.get("scanned", True) else without("layers")
    return scutch.Model(
        Decoder(Options(**options)),
        jax.ShapeDtypeStruct((batch, LENGTH), "int32"),
        rules=rules,
        meshes=(mesh,),
        **{"loss": loss, **(more or {})},
    )


def without(name, rules=RULES):
    return tuple(rule for rule in rules if rule[0] != name)


def instead(name, axis, rules=RULES):
    return tuple((each, axis if each == name else old) for each, old in rules)
