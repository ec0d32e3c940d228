"""The command `scutch model`: the text that it prints, and its exit code.

show("my_model.py:setup", meshes=["data=4,tensor=2"], as_json=False)
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path

import jax

from scutch.implementation import SetupError
from scutch.models import compare as comparing
from scutch.models import findings as found_in
from scutch.models import lock as locking
from scutch.models import show as shown
from scutch.models.check import check as checked
from scutch.models.layout import DEVICES, abstract, layouts
from scutch.models.model import device_count, model_at, parse_mesh
from scutch.models.pairing import PathMap
from scutch.models.picture import pictures
from scutch.models.sides import Request
from scutch.report.text import publish


def show(
    where: str,
    *,
    meshes: Sequence[str] = (),
    as_json: bool = False,
    arrays: Sequence[str] = (),
    html: str | None = None,
) -> str:
    """The layout of a model, as text or JSON, and as a page.

    Args:
      where: `FILE.py:NAME` or `MODULE:NAME` of a `scutch.Model`.
      meshes: Mesh shapes such as `data=4,tensor=2`; the model's own where there are none.
      as_json: Whether JSON is wanted.
      arrays: Paths of arrays that JAX draws, with fake devices.
      html: Also write a page to this file.

    Returns:
      The text, without a line feed at its end.

    Raises:
      SetupError: It names no `Model`, a mesh has another form, an array cannot be drawn, or the
        page cannot be written.
    """
    model, shapes = model_at(where), [parse_mesh(mesh) for mesh in meshes]
    if arrays:
        prepare_fake_devices(max([DEVICES, *map(device_count, shapes or model.meshes)]))
    variables = abstract(model)
    found = layouts(model, shapes, found=variables)
    drawn = pictures(model, arrays, shapes, variables) if arrays else []
    told = []
    if html is not None:
        from scutch.models.page import page

        try:
            publish(page(where, found, drawn), Path(html))
        except OSError as error:
            raise SetupError(f"--html {html}", f"{error.strerror}; expected a file") from error
        told = [f"wrote {html}"]
    if as_json:
        return json.dumps(shown.document(found), indent=1)
    text = [shown.text(found), *(f"{one.title}\n{one.drawing}" for each in drawn for one in each)]
    return "\n\n".join([*text, *told])


def check(
    where: str, *, meshes: Sequence[str] = (), steps: int, seed: int, as_json: bool = False
) -> tuple[str, int]:
    """The findings in a model, as text or JSON, and the exit code.

    Args:
      where: As for `show`.
      meshes: As for `show`.
      steps: How many steps of training are run on each mesh.
      seed: Of all that is drawn.
      as_json: Whether JSON is wanted.

    Returns:
      The text, and 1 if something is to be mended.

    Raises:
      SetupError: It names no `Model`, or a mesh has another form.
    """
    verdict = checked(
        model_at(where), [parse_mesh(mesh) for mesh in meshes], steps=steps, seed=seed
    )
    text = json.dumps(found_in.document(verdict), indent=1) if as_json else found_in.text(verdict)
    return text, int(not verdict.passes)


def lock(
    where: str,
    *,
    meshes: Sequence[str] = (),
    devices: int | None = None,
    tpu: str | None = None,
    file: str | None = None,
    against: str | None = None,
    reason: str | None = None,
) -> tuple[str, int]:
    """Write the lock of a model, or compare the model with one.

    Args:
      where: As for `show`.
      meshes: As for `show`.
      devices: Scale each mesh shape to this number of fake devices of the host.
      tpu: Scale each mesh shape to a TPU topology such as `v5e:16x16`, and compile for it; that of
        the file to compare with where left out.
      file: Where the lock is written; beside the working folder's model where left out.
      against: Compare with this file, and write nothing.
      reason: Why the differences from an existing file are accepted; kept in the lock.

    Returns:
      The text, and 1 if there are differences without a reason.

    Raises:
      SetupError: It names no `Model`, a mesh has another form, or a file is no lock.
    """
    shapes = [parse_mesh(mesh) for mesh in meshes]
    old = None if against is None else locking.read(against)
    model = model_at(where)
    if old is not None and not shapes and devices is None and tpu is None:
        shapes, tpu = [parse_mesh(mesh) for mesh in old["meshes"]], old.get("tpu")
    new = locking.lock(model, shapes, devices=devices, tpu=tpu)
    path = Path(file or f"{where.rpartition(':')[2]}.lock.json")
    if old is None and path.exists():
        old = locking.read(path)
    told = [] if old is None else locking.differences(old, new)
    if told and (against is not None or reason is None):
        end = "write it with --reason TEXT, if the change is meant" if against is None else ""
        return "\n".join([*told, *filter(None, [end])]), 1
    if against is not None:
        return f"as in {against}", 0
    new["accepted"] = [*(old or {}).get("accepted", []), *([reason] if told and reason else [])]
    path.write_text(locking.text(new), "utf-8")
    return "\n".join([*told, f"wrote {path}"]), 0


def compare(
    first: str,
    second: str,
    *,
    meshes: Sequence[str] = (),
    maps: Sequence[str] = (),
    skip: Sequence[str] = (),
    seed: int = 0,
    python: str | None = None,
    as_json: bool = False,
) -> tuple[str, int]:
    """Compare two models, and return the differences as text or JSON, with the exit code.

    Args:
      first: As for `show`.
      second: Another; it is measured in a process of its own.
      meshes: Mesh shapes; by default the shapes of the first model.
      maps: `OLD=NEW`, for arrays that cannot be paired by path, name or shape.
      skip: Parts that are not compared.
      seed: Of weights and inputs.
      python: A Python with another Flax, for the second model.
      as_json: Whether JSON is wanted.

    Returns:
      The text, and 1 if something differs.

    Raises:
      SetupError: A text names no `Model`, a mesh or a map has another form, or a model cannot be
        made or compiled.
    """
    request = Request(
        tuple(parse_mesh(mesh) for mesh in meshes),
        tuple(skip),
        seed,
        maps=tuple(PathMap.of(each) for each in maps),
    )
    found = comparing.compare(first, second, request, python=python)
    text = json.dumps(comparing.document(found), indent=1) if as_json else comparing.text(found)
    return text, int(not found.equal)


def prepare_fake_devices(count: int) -> None:
    """Have fake devices of the host; it works until JAX first looks for devices.

    Args:
      count: How many.
    """
    flag = "--xla_force_host_platform_device_count"
    flags = [each for each in os.environ.get("XLA_FLAGS", "").split() if not each.startswith(flag)]
    os.environ["XLA_FLAGS"] = " ".join([*flags, f"{flag}={count}"])
    jax.config.update("jax_platforms", "cpu")  # type: ignore[no-untyped-call]


def wanted_devices(meshes: Sequence[str], devices: int | None, against: str | None) -> int:
    """How many fake devices a lock needs: eight, or as many as the largest mesh shape.

    Args:
      meshes: Of the command line.
      devices: Of the command line.
      against: A lock file, whose mesh shapes count too.

    Returns:
      A number of devices.
    """
    texts = [*meshes, *(() if against is None else locking.read(against)["meshes"])]
    return max([DEVICES, devices or 0, *(device_count(parse_mesh(text)) for text in texts)])
