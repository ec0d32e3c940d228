"""A set-up that cannot be judged is refused with exit code 2 and a sentence with the remedy.

No traceback of the judge's, no internal error of pytest's, and no verdict on the implementation.
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from trials.commands import begin, ended, variables, warm_process

ADAPTER = (
    "from scutch_reference import logical, meta\nfrom scutch import Implementation, Namespace\n"
)
HONEST = f"{ADAPTER}implementation = Implementation('mine', '1', meta=meta)\n"
OTHER_INPUTS = """\
implementation = "mine"
[[known]]
requirement = "metadata/box-axes/removing-undoes-adding"
versions = ""
reason = "of an older suite"
witness = "test_removing_an_added_axis_restores_the_box(box=1)"
"""


@dataclass(frozen=True)
class Setup:
    """A set-up that is wrong.

    Args:
      options: Of `scutch run`.
      says: Text that the sentence must contain.
      files: Contents by name; `None` for a folder.
      environment: Variables that are set.
    """

    options: tuple[str, ...]
    says: str
    files: dict = field(default_factory=dict)
    environment: dict = field(default_factory=dict)


def adapter(text, says, *options):
    """A set-up whose adapter is wrong."""
    return Setup(("--implementation", "mine.py", *options), says, {"mine.py": ADAPTER + text})


SETUPS = {
    "time of zero": Setup(("--law-timeout", "0"), "expected a number of seconds above 0"),
    "time below zero": Setup(("--law-timeout=-1",), "expected a number of seconds above 0"),
    "time not a number": Setup(("--law-timeout", "nan"), "expected a number of seconds above 0"),
    "time without end": Setup(("--law-timeout", "inf"), "expected a number of seconds above 0"),
    "time of words": Setup(("--law-timeout", "soon"), "--law-timeout 'soon': expected a number"),
    "no inputs": Setup(("--examples", "0"), "--examples 0: expected at least 1"),
    "inputs below zero": Setup(("--examples=-3",), "expected at least 1"),
    "inputs of words": Setup(("--examples", "many"), "--examples 'many': expected a number"),
    "half an input": Setup(("--examples", "1.5"), "--examples '1.5': expected a number"),
    "seed of words": Setup(("--seed", "lucky"), "--seed 'lucky': expected a number"),
    "seed below zero": Setup(("--seed=-1",), "--seed -1: expected a number from 0"),
    "three processes": Setup(("--processes", "3"), "expected one of 1, 2, 4, 8"),
    "processes of words": Setup(("--processes", "all"), "expected a number"),
    "no such profile": Setup(("--profile", "fast"), "expected one of quick, ci"),
    "no such level": Setup(("--level", "may"), "expected one of must, should"),
    "no such requirement": Setup(("--requirement", "BOX-99"), "no requirement matches 'BOX-99'"),
    "no such option": Setup(("--nonsense",), "unrecognized arguments: --nonsense"),
    "report of another kind": Setup(("--report", "r.txt"), "a path that ends in .json"),
    "report on a folder": Setup(("--report", "r.json"), "it is a folder", {"r.json": None}),
    "report below a file": Setup(
        ("--report", "file/r.json"), "nothing can be written there", {"file": ""}
    ),
    "report where nothing is": Setup(
        ("--report", "/proc/none/r.json"), "nothing can be written there"
    ),
    "replay cut off": Setup(("--replay", "test_x("), "--replay: cannot read"),
    "replay of nothing": Setup(("--replay", " "), "--replay: cannot read"),
    "replay of code": Setup(("--replay", "test_x(a=__import__('os'))"), "cannot read"),
    "replay too deep": Setup(("--replay", f"test_x(a={'[' * 5000})"), "cannot read"),
    "replay of no key": Setup(("--replay", "test_x(a={[]: 1})"), "cannot read"),
    "replay of no law": Setup(("--replay", "test_nowhere()"), "there is no law 'test_nowhere'"),
    "replay of other inputs": Setup(
        ("--replay", "test_removing_an_added_axis_restores_the_box(other=1)"),
        "takes the inputs box, index, name",
    ),
    "no such known failures": Setup(("--known", "none.toml"), "known failures 'none.toml'"),
    "known failures of bytes": Setup(("--known", "k.toml"), "known failures", {"k.toml": b"\xff"}),
    "known failures, a folder": Setup(("--known", "k.toml"), "known fail", {"k.toml": None}),
    "known failures cut off": Setup(("--known", "k.toml"), "k.toml", {"k.toml": "[[known"}),
    "known failures of other inputs": Setup(
        ("--implementation", "mine.py", "--known", "k.toml"),
        "known failures k.toml:2: test_removing_an_added_axis_restores_the_box takes the inputs "
        "box, index, name, and the witness is",
        {"mine.py": HONEST, "k.toml": OTHER_INPUTS},
    ),
    "resume of bytes": Setup(("--resume", "r"), "it is no file of a run", {"r": b"\xff\n"}),
    "resume of words": Setup(("--resume", "r"), "it is no file of a run", {"r": "words\n"}),
    "resume of a list": Setup(("--resume", "r"), "it is no file of a run", {"r": "[1]\n"}),
    "resume without a seed": Setup(("--resume", "r"), "no file of a run", {"r": '{"a": 1}\n'}),
    "resume of another run": Setup(("--resume", "r"), "its run had", {"r": '{"seed": 7}\n'}),
    "resume of a folder": Setup(("--resume", "r"), "it is no file of a run", {"r": None}),
    "resume where nothing is": Setup(("--resume", "no/such/r"), "it cannot be written"),
    "no such implementation": Setup(("--implementation", "flux"), "unknown implementation 'flux'"),
    "no such adapter": Setup(("--implementation", "no.py"), "there is no file 'no.py'"),
    "no such module": Setup(("--implementation", "no_such:it"), "importing no_such raised"),
    "no such platform": Setup(("--platform", "abacus"), "--platform abacus: Unable to initialize"),
    "no such device": Setup(
        ("--platform", "cuda"), "--platform cuda: ", environment={"CUDA_VISIBLE_DEVICES": "-1"}
    ),
    "XLA's flags": Setup((), "Unknown flag", environment={"XLA_FLAGS": "--nonsense"}),
    "pytest's options": Setup((), "--odd", environment={"PYTEST_ADDOPTS": "--odd"}),
    "adapter without a name": adapter("", "has no attribute 'implementation'"),
    "adapter of a number": adapter("implementation = 3", "is a int; expected"),
    "adapter with an error": adapter("raise ValueError('no wheels')", "ValueError: no wheels"),
    "adapter that exits": adapter("raise SystemExit(0)", "importing it raised SystemExit: 0"),
    "adapter that skips": adapter("import pytest; pytest.skip('no')", "importing it raised"),
    "adapter that ends": adapter("import os; os._exit(0)", "the process exited with 0"),
    "adapter that aborts": adapter("import os; os.abort()", "ended by SIGABRT"),
    "adapter that sets an option": adapter(
        "import jax; jax.config.update('jax_debug_nans', True)\n"
        "implementation = Implementation('mine', '1', meta=meta)",
        "implementation 'mine.py' sets jax_debug_nans = True: laws are written for false",
    ),
    "adapter with no syntax": adapter("def", "SyntaxError"),
    "no version": adapter("implementation = Implementation('a', ' ', meta=meta)", "is empty"),
    "no name": adapter("implementation = Implementation('', '1', meta=meta)", "its name is empty"),
    "nothing claimed": adapter("implementation = Implementation('a', '1')", "claims no capability"),
    "claims that exit": adapter(
        "class C:\n    def __getattr__(self, name): raise SystemExit(name)\n"
        "implementation = Implementation('a', '1', meta=C())",
        "importing it raised SystemExit",
    ),
    "claims that lack": adapter(
        "implementation = Implementation('a', '1', meta=Namespace('a'))",
        "but lacks AxisMetadata",
    ),
}


@pytest.fixture(scope="module")
def warm():
    """A process that carries out commands of `scutch`."""
    with warm_process(
        {k: v for k, v in variables().items() if not k.startswith("JAX_")}
    ) as process:
        yield process


@pytest.fixture
def scutch(warm, tmp_path):
    """Carry out `scutch` in a folder; gives the exit code and the output."""

    def call(*argv, environment=None):
        (tmp_path / "work").mkdir(exist_ok=True)
        output = tmp_path / "output"
        begin(warm, ("scutch", *argv), tmp_path / "work", output, environment or {})
        return ended(warm, output)

    return call


def lay_out(folder, files):
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        if content is None:
            (folder / name).mkdir()
        else:
            (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())


def files_in(folder):
    """All files and folders, except Python's `__pycache__`."""
    return sorted(path for path in folder.rglob("*") if "__pycache__" not in path.parts)


@pytest.mark.parametrize("setup", SETUPS.values(), ids=SETUPS)
def test_a_wrong_set_up_is_refused_with_a_sentence(scutch, tmp_path, setup):
    lay_out(tmp_path / "work", setup.files)
    before = files_in(tmp_path / "work")
    code, text = scutch(
        "run", "-p", "no:cacheprovider", *setup.options, environment=setup.environment
    )
    assert setup.says in text
    assert code == 2
    assert "Traceback" not in text
    assert "INTERNALERROR" not in text
    assert "conformance of" not in text
    assert files_in(tmp_path / "work") == before


THEIRS = {
    "pytest.ini": "[pytest]\naddopts = --nonsense\n",
    "conftest.py": "raise SystemExit(7)\n",
    "jax.py": "raise SystemExit(8)\n",
    "mine.py": HONEST,
}


def test_the_settings_of_the_folder_are_not_the_judges(scutch, tmp_path):
    lay_out(tmp_path / "work", THEIRS)
    chosen = (
        "--implementation",
        "mine.py",
        "--requirement",
        "metadata/box-axes/needs-partition-name",
        "--profile",
        "quick",
    )
    code, text = scutch("run", *chosen, "-p", "no:cacheprovider")
    assert code == 0, text
    assert "mine 1 conforms" in text


@pytest.mark.parametrize(
    ("python", "environment", "says"),
    [
        (("-O",), {}, "python -O: assertions are dropped"),
        ((), {"JAX_DISABLE_JIT": "1"}, "jax_disable_jit = True"),
    ],
    ids=["without assertions", "without jit"],
)
def test_what_would_blame_or_acquit_everybody_is_refused(tmp_path, python, environment, says):
    environment = {**os.environ, **environment, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [
            sys.executable,
            *python,
            "-P",
            "-m",
            "scutch",
            "run",
            "--requirement",
            "metadata/box-axes/needs-partition-name",
        ],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert says in done.stdout + done.stderr
    assert list(Path(tmp_path).iterdir()) == []


def test_laws_are_left_where_python_keeps_no_columns(tmp_path):
    """`judging/leaving` reads where a call stands; with lines alone it must leave laws as well."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    environment |= {"PYTHONPYCACHEPREFIX": str(tmp_path / "cache"), "PYTHONNODEBUGRANGES": "1"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(
        [
            sys.executable,
            "-P",
            "-m",
            "scutch",
            "run",
            "--profile",
            "quick",
            "-p",
            "no:cacheprovider",
            "--requirement",
            "metadata/box-trees/other-structure-is-refused",
            "--requirement",
            "metadata/box-axes/wrong-name-is-refused",
        ],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_a_box_is_not_judged_without_assertions():
    text = (
        "import scutch; from scutch_reference import meta\n"
        "try: scutch.judge_box(meta.Partitioned, implementation='reference')\n"
        "except scutch.SetupError as error: print(error)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-O", "-c", text],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.startswith("python -O: assertions are dropped"), done.stderr


PARTS = {
    "by name": ("-k", "again"),
    "collected only": ("--collect-only",),
    "cut short": ("-x", "--implementation", "mine.py"),
}


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_a_part_of_the_laws_is_no_verdict_and_replaces_no_report(scutch, tmp_path, part):
    lay_out(tmp_path / "work", {"mine.py": BROKEN})
    run = (
        "run",
        "--profile",
        "quick",
        "--requirement",
        "metadata/box-axes/adding-undoes-removing",
        "-p",
        "no:cacheprovider",
    )
    assert scutch(*run, *part, "--report", "part.json")[0] in (1, 2)
    report = json.loads((tmp_path / "work" / "part.json").read_text("utf-8"))
    assert report["complete"] is False
    assert report["requirements"][0]["verdict"] in ("untested", "failed")
    assert scutch(*run, "--report", "whole.json")[0] == 0
    before = (tmp_path / "work" / "whole.json").read_bytes()
    code, text = scutch(*run, *part, "--report", "whole.json")
    assert code == 2
    assert "is complete, and stays" in text
    assert (tmp_path / "work" / "whole.json").read_bytes() == before


BROKEN = f"""{ADAPTER}
class Broken(meta.Partitioned):
    def remove_axis(self, index, params):
        return self

own = type("Own", (), {{"Partitioned": Broken}})
implementation = Implementation("broken", "1", meta=Namespace("broken", own, meta))
"""


CHANGING = f"""
{ADAPTER}
from pathlib import Path
from scutch.namespaces import Unclaimed
from scutch_reference import nnx

imports = Path(__file__).parent.with_name("imports")
imports.write_text(imports.read_text() + "." if imports.exists() else ".")
first = len(imports.read_text()) == 1

class Boxes:
    class Partitioned(meta.Partitioned):
        def remove_axis(self, index, params):
            return self

def judged(names=None, kind=Namespace, boxes=Boxes):
    return Implementation("mine", "1", meta=kind("mine: meta", boxes, meta, names=names))
"""
"""An adapter of a broken box class, which knows whether the judge imports it for the first time."""

FEWER = "tuple(set(vars(meta)) - {'Partitioned'})"

CHANGES = {
    "a name less": f"implementation = judged(None if first else {FEWER})\n",
    "a capability less": "implementation = judged(boxes=Boxes) if first else "
    "Implementation('mine', '1', logical=None, nnx=nnx)\n",
    "devices": "import jax\nif not first: jax.config.update('jax_num_cpu_devices', 1)\n"
    "implementation = judged()\n",
}
"""Last lines of an adapter that differs from its first import when laws are tried."""

SAME = {
    "a subclass of Namespace": """
class Own(Namespace):
    def claimed(self, names):
        return frozenset()
    def __getattr__(self, name):
        raise Unclaimed(name)
implementation = judged(kind=Own)
""",
    "a subclass of Implementation": """
class Own(Implementation):
    claims = ("meta",)
    def need(self, option):
        raise Unclaimed(option)
    def __getattribute__(self, name):
        if name == "meta" and not first:
            return Namespace("none", names=())
        return super().__getattribute__(name)
    def _claimed(self, capability):
        return frozenset()
implementation = Own("mine", "1", meta=Namespace("mine: meta", Boxes, meta))
""",
}
"""Adapters of classes of their own, which say one thing to the probe and another to laws."""

OWN_LAW = ("--requirement", "metadata/box-axes/removing-undoes-adding", "--profile", "quick")


@pytest.mark.parametrize("text", CHANGES.values(), ids=CHANGES)
def test_what_is_claimed_otherwise_where_laws_are_tried_is_untested(scutch, tmp_path, text):
    lay_out(tmp_path / "work", {"mine.py": CHANGING + text})
    options = ("--implementation", "mine.py", *OWN_LAW, "-p", "no:cacheprovider")
    code, output = scutch("run", *options)
    assert code == 2, output
    assert "untested" in output
    assert "expected the same in every process" in output


@pytest.mark.parametrize("text", SAME.values(), ids=SAME)
def test_a_class_of_ones_own_escapes_no_law(scutch, tmp_path, text):
    lay_out(tmp_path / "work", {"mine.py": CHANGING + text})
    options = ("--implementation", "mine.py", *OWN_LAW, "-p", "no:cacheprovider")
    code, output = scutch("run", *options)
    assert code in (1, 2), output
    assert "conforms" not in output


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("os.environ['XLA_FLAGS'] = ''", "sets xla_force_host_platform_device_count = none"),
        ("import jax; jax.config.update('jax_num_cpu_devices', 2)", "sets jax_num_cpu_devices = 2"),
        ("import jax; jax.config.update('jax_platforms', '')", "sets jax_platforms = "),
    ],
)
def test_an_adapter_that_decides_on_devices_is_refused(scutch, tmp_path, setting, says):
    lay_out(tmp_path / "work", {"mine.py": f"import os\n{HONEST}{setting}\n"})
    code, output = scutch("run", "--implementation", "mine.py", *OWN_LAW, "-p", "no:cacheprovider")
    assert (code, says in output) == (2, True), output


@pytest.mark.nightly
@pytest.mark.parametrize("hidden", ["None", "type(os)('tensorflow')"])
def test_a_package_that_is_hidden_is_no_reason_to_leave_a_law(scutch, tmp_path, hidden):
    text = (
        "import os, sys\nfrom scutch import Implementation\nfrom scutch_reference import export\n"
        "implementation = Implementation('mine', '1', export=export)\n"
        f"sys.modules['tensorflow'] = {hidden}\n"
    )
    lay_out(tmp_path / "work", {"mine.py": text})
    only = ("--requirement", "export/methods/method-equals-jax-function", "--profile", "quick")
    code, output = scutch("run", "--implementation", "mine.py", *only, "-p", "no:cacheprovider")
    assert code in (1, 2), output
    assert "conforms" not in output
