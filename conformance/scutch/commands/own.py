"""Commands about the user's own code: a first adapter, box classes, a model.

scutch box boxes.py:Box
scutch model training.py:setup show
"""

import argparse
import sys

from scutch.commands.command import Add, UsageError
from scutch.loading import find
from scutch.report.text import count


def add(command: Add) -> None:
    """Add the commands about the user's own code.

    Args:
      command: Adds one; see `command.adder`.
    """
    added = command(
        "new-adapter",
        "write a first adapter for a package, from the names that are found in it",
        _new_adapter,
        "It is printed.",
    )
    added.add_argument("package", metavar="PACKAGE", help="its import name")

    added = command(
        "box",
        "judge box classes, as scutch.judge_box does",
        _box,
        "A class is judged by the requirements of every box class, in this process. "
        "`scutch.judge_box` in a test takes more options.",
    )
    added.add_argument(
        "classes", metavar="FILE.py:CLASS|MODULE:CLASS", nargs="+", help="the classes to judge"
    )
    added.add_argument(
        "--make",
        metavar="FILE.py:NAME|MODULE:NAME",
        help="makes a box from value and names (default: the class)",
    )
    added.add_argument(
        "--names",
        default="names",
        metavar="ATTRIBUTE",
        help="where a box has its names (default: %(default)s)",
    )
    added.add_argument(
        "--known",
        action="append",
        default=[],
        metavar="ID=REASON",
        help="a requirement that it is known to break; repeatable",
    )
    added.add_argument(
        "--replay",
        default="",
        metavar="CALL",
        help="try one law on one input, as a failure shows it",
    )
    added.add_argument(
        "--implementation",
        default="flax",
        metavar="NAME",
        help="whose AxisMetadata it extends (default: %(default)s)",
    )
    added.add_argument(
        "--requirement",
        action="append",
        default=[],
        metavar="PATTERN",
        help="judge only these; repeatable",
    )
    added.add_argument(
        "--exclude",
        action="append",
        default=[],
        metavar="PATTERN",
        help="do not judge these; repeatable",
    )
    added.add_argument("--profile", default="quick", help="how hard to try (default: %(default)s)")
    added.add_argument("--seed", type=int, default=0, help="of the search (default: %(default)s)")

    added = command(
        "model",
        "show where the arrays of your own model lie, check its training, lock both, compare two",
        _model,
        "`show` computes nothing: shapes suffice. `check` takes some steps on eight fake devices. "
        "`lock` writes a file of layout and cost, and tells what differs from one. `compare` tells "
        "how another model differs in parameters, placement, values from equal weights, and costs.",
    )
    added.add_argument("model", metavar="FILE.py:NAME|MODULE:NAME", help="a scutch.Model")
    added.add_argument("action", choices=("show", "check", "lock", "compare"), help="what to do")
    added.add_argument(
        "other", nargs="?", metavar="FILE.py:NAME|MODULE:NAME", help="compare: the second model"
    )
    added.add_argument(
        "--mesh",
        action="append",
        default=[],
        metavar="AXIS=SIZE,...",
        help="a mesh shape; repeatable (default: those of the model)",
    )
    added.add_argument("--json", action="store_true", help="print JSON in the place of text")
    added.add_argument("--html", metavar="FILE", help="show: also write a page")
    added.add_argument(
        "--array",
        action="append",
        default=[],
        metavar="ARRAY",
        help="show: add JAX's picture of this array; repeatable",
    )
    added.add_argument(
        "--steps",
        type=int,
        default=3,
        help="check: on each mesh, 0 for none (default: %(default)s)",
    )
    added.add_argument("--seed", type=int, default=0, help="check, compare: of all that is drawn")
    added.add_argument(
        "--devices", type=int, metavar="N", help="lock: for N fake devices along the first axis"
    )
    added.add_argument(
        "--tpu", metavar="KIND:SHAPE", help="lock: for absent TPUs, such as v5e:16x16"
    )
    added.add_argument(
        "--file", metavar="FILE", help="lock: where it is written (default: NAME.lock.json)"
    )
    added.add_argument(
        "--against", metavar="FILE", help="lock: tell what differs from FILE, and fail on it"
    )
    added.add_argument("--reason", help="lock: accept what differs from the file that is there")
    added.add_argument(
        "--map",
        action="append",
        default=[],
        metavar="OLD=NEW",
        help="compare: a path, or its beginning, in both; repeatable",
    )
    added.add_argument(
        "--skip",
        action="append",
        default=[],
        metavar="PART",
        help="compare: no parameters, placement, values or costs",
    )
    added.add_argument(
        "--python", metavar="PATH", help="compare: a Python with another Flax, for the second"
    )


def _new_adapter(arguments: argparse.Namespace) -> int:
    from scutch.adapters.draft import draft

    sys.path.insert(0, "")  # a package beside the reader, as `python -m` finds it
    try:
        text = draft(arguments.package)
    except ImportError as error:
        raise UsageError(f"importing {arguments.package} failed: {error}") from error
    if not text:
        raise UsageError(
            f"new-adapter: {arguments.package} has no name of the standard, such as "
            "`logical_to_mesh_axes`, in itself or in a module where Flax has it; the README shows "
            "an adapter for names of your own"
        )
    print(text, end="")
    return 0


def _box(arguments: argparse.Namespace) -> int:
    from scutch.judgments import Nonconforming
    from scutch.owners import BOX_LAWS, judge_box

    known = dict(each.partition("=")[::2] for each in arguments.known)
    if without := [each for each, why in known.items() if not why.strip()]:
        raise UsageError(f"--known {without[0]}: expected ID=REASON, with the reason for it")
    code = 0
    try:
        make = find(arguments.make) if arguments.make else None
        for where in arguments.classes:
            again = ["scutch", "box", where]
            for option, default in (("make", None), ("names", "names"), ("implementation", "flax")):
                given = getattr(arguments, option)
                again += [f"--{option}", given] if given != default else []
            try:
                found = judge_box(
                    find(where),
                    make=make,
                    names=arguments.names,
                    known=known,
                    implementation=arguments.implementation,
                    requirements=arguments.requirement or BOX_LAWS,
                    exclude=arguments.exclude,
                    profile=arguments.profile,
                    seed=arguments.seed,
                    replay=arguments.replay,
                )
            except Nonconforming as broken:
                print(broken.told(where, [*again, "--replay"]))
                code = 1
            else:
                lacks = f"; it has not: {', '.join(found.lacks)}" if found.lacks else ""
                print(f"{where} conforms in {count(len(found.rulings), 'requirement')}{lacks}")
                if found.untried:
                    print(f"not judged: {', '.join(found.untried)}")
    except SystemExit as error:
        raise UsageError(f"importing what is judged raised SystemExit: {error}") from error
    return code


def _model(arguments: argparse.Namespace) -> int:
    from scutch.judging.profiles import prepare_devices
    from scutch.models import command

    if (arguments.action == "compare") != (arguments.other is not None):
        raise UsageError(
            f"model {arguments.model} {arguments.action} {arguments.other or ''}: expected a "
            "second model after `compare`, and none after another action"
        )
    code = 0
    match arguments.action:
        case "compare":
            command.prepare_fake_devices(command.wanted_devices(arguments.mesh, None, None))
            text, code = command.compare(
                arguments.model,
                arguments.other,
                meshes=arguments.mesh,
                maps=arguments.map,
                skip=arguments.skip,
                seed=arguments.seed,
                python=arguments.python,
                as_json=arguments.json,
            )
        case "show":
            text = command.show(
                arguments.model,
                meshes=arguments.mesh,
                as_json=arguments.json,
                arrays=arguments.array,
                html=arguments.html,
            )
        case "lock":
            if arguments.devices and arguments.tpu:
                raise UsageError("--devices and --tpu: expected one of them")
            devices = command.wanted_devices(arguments.mesh, arguments.devices, arguments.against)
            command.prepare_fake_devices(devices)
            text, code = command.lock(
                arguments.model,
                meshes=arguments.mesh,
                devices=arguments.devices,
                tpu=arguments.tpu,
                file=arguments.file,
                against=arguments.against,
                reason=arguments.reason,
            )
        case _:
            prepare_devices()
            text, code = command.check(
                arguments.model,
                meshes=arguments.mesh,
                steps=arguments.steps,
                seed=arguments.seed,
                as_json=arguments.json,
            )
    print(text)
    return code
