"""A piece of a public project, and how one is made from names and values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType, SimpleNamespace

from jax.sharding import PartitionSpec
from scutch.adapters.reference import implementation as reference
from scutch.implementation import Implementation
from scutch.loading import check
from scutch.namespaces import Namespace

UNCONSTRAINED = PartitionSpec.UNCONSTRAINED


@dataclass(frozen=True)
class Piece:
    """A piece of a public project, and what a judge owes it.

    Args:
      implementation: Its adapter.
      judged: Patterns of requirements. All that it claims among them must hold.
      convicted: The exceptions: the requirements that it breaks, each with why it rightly is one.
      holds: How many requirements hold at least, so that a judge who tries nothing is found out.
      inputs: For each law; more where a fault needs a rare option.
    """

    implementation: Implementation
    judged: tuple[str, ...]
    convicted: Mapping[str, str] = field(default_factory=dict)
    holds: int = 1
    inputs: int = 20


def piece(
    name,
    judged,
    holds,
    convicted=MappingProxyType({}),
    *,
    lacks=(),
    beside=None,
    inputs=20,
    **spaces,
):
    """A piece, from the names of each capability and the values that they have.

    Args:
      name: The project's, and its counterpart's.
      judged: Patterns of requirements.
      holds: How many requirements hold at least.
      convicted: The requirements that it breaks, with the reasons.
      lacks: Options of the functions that it has not, such as `vmap.axis_size`.
      beside: Namespaces of others, by capability, which the piece needs and which are claimed too.
      inputs: For each law.
      spaces: By capability, a mapping of the standard's names to what the project has.
    """
    claims = {
        capability: Namespace(
            f"{name}: {capability}",
            SimpleNamespace(**names),
            names=tuple(names),
            lacks=[option for option in lacks if option.partition(".")[0] in names],
        )
        for capability, names in spaces.items()
    }
    found = check(Implementation(name, "1", **{**(beside or {}), **claims}), f"{name}.py")
    return Piece(found, judged, convicted, holds, inputs)


def borrowed(names, **own):
    """Names of the reference, and a project's own in the place of some."""
    return {**{name: getattr(reference.nnx, name) for name in names.split()}, **own}


OBJECTS = (
    "Dict List Pytree Module Variable Param BatchStat Cache Intermediate data static state split "
    "merge PathContains"
)
