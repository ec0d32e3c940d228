"""The laws about a user's own model, each with its claim and the harm of its breach.

    by_id("models/annotations/sizes-divide").harm

The laws judge one model, not an implementation, so the contract does not list them.
"""

from dataclasses import dataclass
from types import MappingProxyType

GRAVITY = ("wrong-value", "lost", "refused", "wrong-placement", "retrace", "accepted", "message")
"""The kinds of harm that a breach does to the user, gravest first."""


@dataclass(frozen=True)
class Law:
    """One law about a model.

    Args:
      id: `models/`, its part, and a short sentence.
      harm: One of `GRAVITY`.
      level: `must`, or `should` for a finding that fails no check.
      title: A subject and a verb, at most ten words.
      text: One claim, at most forty words.
    """

    id: str
    harm: str
    level: str
    title: str
    text: str

    @property
    def part(self) -> str:
        """The part that it belongs to, such as `annotations`."""
        return self.id.split("/")[1]


def _law(name: str, harm: str, title: str, text: str, level: str = "must") -> Law:
    return Law(f"models/{name}", harm, level, title, text)


LAWS: tuple[Law, ...] = (
    _law(
        "annotations/the-model-is-made-from-shapes",
        "refused",
        "The model is made from shapes",
        "Initialisation and the loss can be traced with abstract inputs, under rules and a mesh.",
    ),
    _law(
        "annotations/one-name-for-each-axis",
        "refused",
        "Each axis has one name",
        "An annotated array has as many names as axes, and no name twice.",
    ),
    _law(
        "annotations/each-name-has-a-rule",
        "wrong-placement",
        "Each name has a rule",
        "A name without a rule leaves its axis unsharded. Every name of a parameter, an input, an "
        "output or a constrained activation has a rule, or is listed in `free`.",
    ),
    _law(
        "annotations/names-do-not-compete",
        "wrong-placement",
        "No two names of an array compete for a mesh axis",
        "A mesh axis serves one axis of an array; the name that comes second is left unsharded, "
        "unless a later rule says what becomes of it.",
    ),
    _law(
        "annotations/the-mesh-has-the-axis",
        "refused",
        "The mesh has every axis that is named",
        "Every mesh axis that a rule or an annotation names is an axis of every intended mesh.",
    ),
    _law(
        "annotations/sizes-divide",
        "refused",
        "Sizes divide",
        "The length of a sharded axis is a multiple of the number of devices along it.",
    ),
    _law(
        "annotations/siblings-lie-alike",
        "wrong-placement",
        "The same parameter of each layer lies alike",
        "Parameters of repeated layers with one name and one shape have one annotation.",
    ),
    _law(
        "annotations/names-are-not-swapped",
        "wrong-placement",
        "The names of an array are in order",
        "Where two axes of an array have other lengths than their names have in all other arrays, "
        "no other order of the names fits.",
    ),
    _law(
        "annotations/large-parameters-are-sharded",
        "wrong-placement",
        "Large parameters are sharded",
        "Where a model is sharded on a mesh, no device holds a whole parameter of `large` bytes.",
    ),
    _law(
        "annotations/layers-constrain-alike",
        "wrong-placement",
        "Repeated layers constrain the same activations",
        "Layers that differ in their number only constrain as many activations, and the carry of a "
        "scan over layers is constrained if any activation is.",
    ),
    _law(
        "annotations/every-rule-decides",
        "message",
        "Every rule decides about some axis",
        "A rule that decides about no axis of a parameter, an input or an activation is dead, or "
        "stands behind a rule that takes its place.",
        "should",
    ),
    _law(
        "placement/a-step-runs",
        "refused",
        "A step of training runs",
        "On one device and on every mesh the first state is made and some steps run.",
    ),
    _law(
        "placement/the-state-starts-as-annotated",
        "wrong-placement",
        "The first state lies as annotated",
        "Parameters and other annotated variables of the first state lie as their names say.",
    ),
    _law(
        "placement/moments-lie-as-parameters",
        "wrong-placement",
        "The optimizer's state lies as the parameters do",
        "An array of the optimizer's state with a parameter's path and shape has its sharding.",
    ),
    _law(
        "placement/a-restored-state-lies-as-before",
        "wrong-placement",
        "A restored state lies as before",
        "A state that was stored and read again has the names and the placement that it had: "
        "through `to_state_dict` and Orbax.",
    ),
    _law(
        "placement/steps-keep-the-placement",
        "wrong-placement",
        "Steps keep the placement",
        "After some steps every array lies where it lay before the first.",
    ),
    _law(
        "values/meshes-agree-on-the-loss",
        "wrong-value",
        "The loss is the same on every mesh",
        "The loss of a step on a mesh equals the loss on one device, within rounding.",
    ),
    _law(
        "values/meshes-agree-on-updates",
        "wrong-value",
        "Updates are the same on every mesh",
        "Parameters and statistics after some steps on a mesh equal those on one device, within "
        "rounding.",
    ),
    _law(
        "values/scanned-equals-unrolled",
        "wrong-value",
        "A scan over layers equals the layers one by one",
        "Loss, outputs and gradients of the scanned model equal those of `unrolled`, from the same "
        "weights, within rounding.",
    ),
    _law(
        "values/a-key-is-used-once",
        "wrong-value",
        "A key is used once",
        "No two draws of random numbers in a step use the same key.",
    ),
    _law(
        "steadiness/steps-compile-once",
        "retrace",
        "Steps compile once",
        "Further steps compile nothing: shapes, dtypes, shardings and static values stay.",
    ),
    _law(
        "steadiness/donated-buffers-are-used",
        "lost",
        "Donated buffers are used",
        "Every donated array gives its memory to an output of the same shape and dtype.",
    ),
    _law(
        "steadiness/no-callback-leaves-the-device",
        "retrace",
        "A step stays on its devices",
        "No step calls back to the host.",
    ),
    _law(
        "crossing/the-bridge-keeps-places",
        "wrong-placement",
        "The bridge keeps arrays where they lie",
        "Wrapped in `ToNNX` or `ToLinen`, the model has the same parameters with the same specs.",
        "should",
    ),
    _law(
        "crossing/the-bridge-keeps-values",
        "wrong-value",
        "The bridge keeps values",
        "Wrapped in `ToNNX` or `ToLinen`, the model has the same outputs and gradients.",
        "should",
    ),
)

_BY_ID = MappingProxyType({law.id: law for law in LAWS})


def by_id(name: str) -> Law:
    """The law of an id, which may leave out `models/`.

    Raises:
      KeyError: There is no such law.
    """
    return _BY_ID[name if name.startswith("models/") else f"models/{name}"]
