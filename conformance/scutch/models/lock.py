"""A lock file, which records placements of arrays and costs of a step for each mesh shape.

    locked = lock(model)
    differences(read("model.lock.json"), locked)

The file is JSON. One release of JAX writes the same text each time, because costs are counts.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax

from scutch.implementation import SetupError
from scutch.models.cost import cost_on
from scutch.models.layout import OPTIMIZER, PARAMETERS, Layout, abstract, layouts
from scutch.models.model import MeshShape, Model, scaled
from scutch.models.show import shape_text, size_text
from scutch.models.topology import tpu_devices
from scutch.models.training import Training

FORM = 1
_REPLICATED = "()"


def lock(
    model: Model,
    meshes: Sequence[MeshShape] = (),
    *,
    devices: int | None = None,
    tpu: str | None = None,
) -> dict[str, Any]:
    """The lock of a model.

    Args:
      model: The description.
      meshes: Mesh shapes; the model's own where there are none.
      devices: Scale the first axis of each mesh shape to this number of devices.
      tpu: A topology such as `v5e:16x16`: scale to its devices, and compile for them.

    Returns:
      A document for JSON.

    Raises:
      SetupError: The devices do not fit the mesh shapes, or there is no such topology.
    """
    absent = () if tpu is None else tpu_devices(tpu)
    devices = len(absent) or devices
    training, found = Training.of(model), abstract(model)
    shapes = [layout.mesh for layout in layouts(model, meshes, found=found)]
    if devices is not None:
        shapes = [scaled(shape, devices) for shape in shapes]
    locked = {}
    for layout in layouts(model, shapes, found=found):
        locked[layout.name] = {
            "parameters": _specs(layout, PARAMETERS),
            "optimizer": _moments(layout),
            "step": cost_on(
                training,
                layout.mesh,
                absent,
                where="lock",
                remedy="expected sizes that the mesh divides; `scutch model … check` names them",
            ),
        }
    told = {"form": FORM, "jax": jax.__version__, "accepted": [], "meshes": locked}
    return told if tpu is None else {**told, "tpu": tpu}


def _specs(layout: Layout, section: str) -> dict[str, str]:
    return {row.path: f"{shape_text(row)} {row.spec}" for row in layout.section(section)}


def _moments(layout: Layout) -> dict[str, str]:
    """The specs of the optimizer's state, or `as PARAMETER` where a parameter has the same spec."""
    parameters = _specs(layout, PARAMETERS)
    found = _specs(layout, OPTIMIZER)
    for path, spec in found.items():
        for parameter in parameters:
            if path.endswith(f"/{parameter}") and parameters[parameter] == spec:
                found[path] = f"as {parameter}"
    return found


def text(locked: Mapping[str, Any]) -> str:
    """The text of a lock file."""
    return json.dumps(locked, indent=1, ensure_ascii=False) + "\n"


def read(path: str | Path) -> dict[str, Any]:
    """A lock from its file.

    Raises:
      SetupError: The file cannot be read, or is no lock.
    """
    try:
        found = json.loads(Path(path).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise SetupError(
            f"lock {path}", f"{error}; expected a file of `scutch model … lock`"
        ) from error
    if not isinstance(found, dict) or found.get("form") != FORM:
        raise SetupError(f"lock {path}", f"expected a lock file of form {FORM}")
    return found


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """The differences between two locks, as sentences.

    Args:
      old: The accepted lock.
      new: The lock of the present model.

    Returns:
      The sentences; none for equal locks. The lists of accepted changes are ignored. Costs are
      compared only if both locks are from one JAX, for one kind of device.
    """
    told = []
    compilers = _compiler(old), _compiler(new)
    same = compilers[0] == compilers[1]
    for mesh in dict.fromkeys((*old["meshes"], *new["meshes"])):
        before, after = old["meshes"].get(mesh), new["meshes"].get(mesh)
        if before is None or after is None:
            told.append(f"{mesh}: the mesh is {'new' if before is None else 'gone'}")
            continue
        moved = list(_moved(before, after))
        costs = list(dearer(before["step"], after["step"])) if same else []
        if len(moved) == 1 and costs:
            told.append(f"{mesh}: {moved[0]}: {'; '.join(costs)}")
            continue
        told += [f"{mesh}: {each}" for each in (*moved, *costs)]
    if not same and not told:
        told.append(f"costs are of {compilers[1]} and were of {compilers[0]}: write the lock anew")
    return told


def _compiler(locked: Mapping[str, Any]) -> str:
    """The release of JAX that compiled a lock, and the topology if its devices were absent."""
    return f"JAX {locked['jax']}" + (f" for {locked['tpu']}" if "tpu" in locked else "")


def _moved(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """Sentences about arrays whose spec or type changed, or that only one lock has."""
    for section in ("parameters", "optimizer"):
        one, other = before[section], after[section]
        for path in dict.fromkeys((*one, *other)):
            if path not in one:
                yield f"{path} is new: {other[path]}"
            elif path not in other:
                yield f"{path} is gone; it was {one[path]}"
            elif one[path] != other[path]:
                yield f"{path} {_change(one[path], other[path])}"


def _change(before: str, after: str) -> str:
    (array, _, spec), (new_array, _, new_spec) = before.partition(" ("), after.partition(" (")
    if array != new_array and not spec:
        return f"lies now as {after} (was {before})"
    if array != new_array:
        return f"is now {after} (was {before})"
    if f"({new_spec}" == _REPLICATED:
        return f"is now replicated (was ({spec})"
    return f"lies now as ({new_spec} (was ({spec})"


def dearer(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """The differences between the costs of two steps, in words.

    Args:
      before: The costs of the first step, as `cost_of` returns them.
      after: The costs of the other step.

    Yields:
      A sentence for each difference.
    """
    one, other = before["collectives"], after["collectives"]
    for kind in sorted({*one, *other}):
        none = {"count": 0, "bytes": 0}
        count = other.get(kind, none)["count"] - one.get(kind, none)["count"]
        size = other.get(kind, none)["bytes"] - one.get(kind, none)["bytes"]
        if count or size:
            where = _where(before["places"], after["places"], kind)
            yield f"a step has {_signed(count)} {kind}s{where}, {_signed_size(size)}"
    if "peak_bytes" in before and before["peak_bytes"] != after["peak_bytes"]:
        size = after["peak_bytes"] - before["peak_bytes"]
        yield f"a step needs {_signed_size(size)} of memory on each device"
    for name, words in (
        ("flops", "FLOPs"),
        ("compilations", "compilations"),
        ("python_calls", "Python calls"),
    ):
        if before.get(name) != after.get(name):
            yield f"a step makes {after.get(name)} {words} (was {before.get(name)})"


def _where(before: Mapping[str, Any], after: Mapping[str, Any], kind: str) -> str:
    """The places in the model where a step has more or fewer collectives of a kind."""
    counts = {
        place: after.get(place, {}).get(kind, 0) - before.get(place, {}).get(kind, 0)
        for place in dict.fromkeys((*after, *before))
    }
    told = [f"{place or 'the step'} {count:+d}" for place, count in counts.items() if count]
    return f" ({', '.join(told)})" if told else ""


def _signed(count: int) -> str:
    return f"{abs(count)} {'more' if count > 0 else 'fewer'}" if count else "as many"


def _signed_size(size: int) -> str:
    return f"{size_text(abs(size))} {'more' if size >= 0 else 'less'}"
