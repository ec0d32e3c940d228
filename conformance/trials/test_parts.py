"""Parts of a library: names that are claimed one by one, and the first adapter that is written."""

import functools
import inspect
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import jax
import pytest
import scutch
from hypothesis import given
from hypothesis import strategies as st
from scutch.adapters.draft import draft
from scutch.catalogue import by_id, plain, select
from scutch.implementation import Implementation, SetupError
from scutch.judging import suite
from scutch.judging.attempt import Setting
from scutch.judging.suite import Law
from scutch.judging.trying import try_law
from scutch.judging.verdicts import rule
from scutch.loading import check
from scutch.namespaces import Namespace, Unclaimed, UnclaimedOption
from scutch_reference import logical, meta, nnx


def part(*names, **own):
    space = Namespace("part 1: logical", SimpleNamespace(**own), logical, names=names)
    return check(Implementation("part", "1", logical=space), "part.py")


def verdicts(implementation, identifiers):
    trials = [try_law(law, implementation, examples=10) for law in suite.tried_by(identifiers)]
    rows = [by_id()[identifier] for identifier in identifiers]
    rulings = rule(rows, trials, claims=implementation.claims)
    return {ruling.requirement.id: (ruling.verdict, ruling.reason) for ruling in rulings}


def of_area(area):
    return [row.id for row in select(area) if row.id == plain(row.id)]


def test_a_library_is_judged_by_the_laws_of_the_names_that_it_has():
    found = verdicts(part("logical_to_mesh_axes"), of_area("LOG"))
    assert {verdict for verdict, _ in found.values()} == {"passed", "unclaimed"}
    passed = {identifier for identifier, (verdict, _) in found.items() if verdict == "passed"}
    assert passed >= {"metadata/logical-rules/first-free-rule-wins"}, found
    unclaimed = {reason for verdict, reason in found.values() if verdict == "unclaimed"}
    assert all(reason.startswith("does not claim ") for reason in unclaimed), unclaimed


def test_a_namespace_that_cannot_be_hashed_is_judged_by_what_it_does():
    """A user's adapter of right functions in `SimpleNamespace`s was convicted of its namespaces."""

    def names_of(module):
        return SimpleNamespace(**{name: getattr(module, name) for name in dir(module)})

    spaces = {"meta": meta, "logical": logical, "nnx": nnx, "transforms": nnx}
    right = Implementation("right", "1", **{name: names_of(its) for name, its in spaces.items()})
    identifiers = [
        "objects/graphs/merge-undoes-split",
        "transformations/nothing-lost/jit-of-objects",
    ]
    found = verdicts(check(right, "right.py"), identifiers)
    assert {verdict for verdict, _ in found.values()} == {"passed"}, found


def test_a_part_that_is_broken_is_convicted():
    def backwards(names, rules=None):
        return logical.logical_to_mesh_axes(names, None if rules is None else rules[::-1])

    found = verdicts(part("logical_to_mesh_axes", logical_to_mesh_axes=backwards), of_area("LOG"))
    assert "failed" in {verdict for verdict, _ in found.values()}


@pytest.mark.parametrize("claimed", ["logical_to_mesh_axes", "LogicallyPartitioned"])
def test_no_other_process_is_asked_for_a_box_that_is_not_claimed(claimed):
    asked = []
    law = suite.named("test_removal_does_not_hang_on_assertions")
    logical_law = suite.named("test_removal_does_not_hang_on_assertions[logical]")
    for each in (law, logical_law):
        trial = try_law(
            each,
            part(claimed),
            examples=5,
            setting=Setting(unasserted=lambda *box: asked.append(box)),
        )
        assert (trial.outcome, asked) == ("skipped", [])
        assert "does not claim" in trial.reason


def test_what_a_part_needs_of_others_is_not_claimed():
    implementation = part("logical_to_mesh_axes")
    assert implementation.claims == ("meta", "logical")
    with pytest.raises(Unclaimed, match=r"does not claim part 1: meta\.Partitioned"):
        implementation.meta.Partitioned  # noqa: B018
    assert (
        verdicts(implementation, ["metadata/box-axes/removing-undoes-adding"])[
            "metadata/box-axes/removing-undoes-adding"
        ][0]
        == "unclaimed"
    )


def test_a_name_that_is_claimed_and_missing_is_refused():
    space = Namespace("part", SimpleNamespace(), names=["logical_to_mesh_axes"])
    with pytest.raises(SetupError, match="claims 'logical' but lacks logical_to_mesh_axes"):
        check(Implementation("part", "1", logical=space), "part.py")


def lifting(*lacks, **own):
    space = Namespace("part 1: transforms", SimpleNamespace(**own), names=own, lacks=lacks)
    return check(Implementation("part", "1", transforms=space), "part.py")


NUMBERED = "transformations/options/jit-of-objects[static]"
GRADIENTS = "transformations/equals-jax/grad-of-arrays"
STAGES = "transformations/stages/jit-of-arrays"


@pytest.mark.parametrize("swapped", [False, True])
def test_an_option_that_is_not_claimed_convicts_nobody_and_saves_nobody(swapped):
    def grad(f, *, has_aux=False):
        return jax.grad(f, has_aux=has_aux != swapped)

    def value_and_grad(f, *, has_aux=False):
        return jax.value_and_grad(f, has_aux=has_aux)

    both = {"grad": grad, "value_and_grad": value_and_grad}
    assert verdicts(lifting(**both), [GRADIENTS])[GRADIENTS][0] == "failed"
    found = verdicts(lifting("grad.argnums", "value_and_grad.argnums", **both), [GRADIENTS])
    assert found[GRADIENTS][0] == ("failed" if swapped else "passed")


@given(number=st.integers(0, 1000))
def small(transforms, number):
    if number < 700:
        transforms.jit(abs, static_argnums=0)
    raise AssertionError


def law_of_small(must_reach=()):
    place = "metadata/box-axes/removing-undoes-adding"
    return Law("small", small, place, must_reach, None, ("transforms",))


def test_inputs_that_are_passed_over_do_not_stop_the_search_for_the_smallest():
    trial = try_law(law_of_small(), lifting("jit.static_argnums", jit=jax.jit), examples=8)
    assert trial.counterexample.input == "small(number=700)"
    assert trial.reason == trial.counterexample.error


TABLE = {"with a number": lambda jit: jit(abs, static_argnums=0)}


@given(way=st.sampled_from(list(TABLE)))
def of_table(transforms, way):
    TABLE[way](transforms.jit)


def test_an_option_is_passed_over_in_a_table_of_functions_too():
    law = replace(law_of_small(), name="of_table", function=of_table)
    trial = try_law(law, lifting("jit.static_argnums", jit=jax.jit), examples=8)
    assert (trial.outcome, trial.beyond) == (
        "passed",
        "does not claim part 1: transforms.jit.static_argnums",
    )


def test_a_search_ends_when_as_many_inputs_were_passed_over_as_are_to_be_tried():
    def even(transforms, number):
        transforms.jit(abs, static_argnums=0)

    calls = []
    law = replace(law_of_small(["never"]), function=given(number=st.integers())(even))
    implementation = lifting("jit.static_argnums", jit=jax.jit)
    trial = try_law(law, implementation, examples=20, setting=Setting(journal=calls.append))
    assert (len(calls), trial.examples, trial.outcome) == (20, 0, "passed")
    assert trial.beyond == "does not claim part 1: transforms.jit.static_argnums"


@pytest.mark.parametrize("forged", [UnclaimedOption("jit.lower"), Unclaimed("jit")])
def test_only_the_judge_passes_an_input_over(forged):
    def jit(f, **options):
        raise forged

    assert verdicts(lifting("jit.lower", jit=jit), [STAGES])[STAGES][0] == "failed"


def test_a_requirement_about_an_unclaimed_option_is_unclaimed():
    found = verdicts(lifting("jit.static_argnums", "jit.static_argnames", jit=jax.jit), [NUMBERED])
    assert found[NUMBERED][0] == "unclaimed"
    assert "does not claim part 1: transforms.jit.static_arg" in found[NUMBERED][1]


def test_a_staged_form_that_is_not_claimed_is_not_tried():
    def jit(f, **options):
        lifted = jax.jit(f, **options)
        return lambda *args, **named: lifted(*args, **named)

    assert verdicts(lifting(jit=jit), [STAGES])[STAGES][0] == "failed"
    staged = lifting("jit.lower", "jit.trace", "jit.eval_shape", jit=jit)
    verdict, reason = verdicts(staged, [STAGES])[STAGES]
    assert (verdict, "does not claim part 1: transforms.jit." in reason) == ("unclaimed", True)


def test_an_option_stands_before_the_function_that_lacks_it():
    def lift(f, *, axis_name=None):
        """Lift `f`."""
        return lambda *args, **named: (f(*args, **named), axis_name)

    lift.note = "kept"
    space = Namespace(
        "part", SimpleNamespace(vmap=lift), names=["vmap"], lacks=["vmap.out", "vmap.**"]
    )
    assert (space.vmap.__name__, space.vmap.__doc__, space.vmap.note) == (
        "lift",
        "Lift `f`.",
        "kept",
    )
    assert list(inspect.signature(space.vmap).parameters) == ["f", "axis_name"]
    assert space.vmap(abs, axis_name="i", out=None)(-2) == (2, "i")
    assert space.claimed(["vmap", "vmap.out"]) == {"vmap"}
    with pytest.raises(UnclaimedOption, match=r"does not claim part\.vmap\.out"):
        space.vmap(abs, out=1)
    with pytest.raises(UnclaimedOption, match=r"does not claim part\.vmap\.\*\*"):
        space.vmap(dict)(out=1)
    with pytest.raises(UnclaimedOption, match=r"does not claim part\.vmap\.\*\*"):
        functools.partial(space.vmap, axis_name="i")(dict)(out=1)


def test_the_adapter_of_a_copy_says_which_options_it_lacks():
    found = scutch.flax_shaped(
        "copy",
        version="1",
        package="flax",
        claims=["transforms.jit"],
        lacks=["transforms.jit.static_argnums"],
    )
    assert found.offers == ("nnx: ", "transforms: jit without jit.static_argnums")
    assert found.plain().offers == found.offers


@pytest.mark.parametrize("lacks", ["transforms.jit", "transforms.vmap.axis_name", "jit.lower"])
def test_an_option_of_an_unclaimed_function_is_refused(lacks):
    with pytest.raises(SetupError, match="which is no option of a function that it claims"):
        scutch.flax_shaped(
            "x", version="1", package="flax", claims=["transforms.jit"], lacks=[lacks]
        )


@pytest.mark.parametrize("claim", ["magic", "logical.magic", ".unbox"])
def test_a_claim_that_means_nothing_is_refused(claim):
    with pytest.raises(SetupError, match="which is neither a capability"):
        scutch.flax_shaped("mine", version="1", package="flax", claims=[claim])


@pytest.fixture
def library(tmp_path, monkeypatch):
    """A package with two of the standard's names."""
    (tmp_path / "my_rules.py").write_text(
        "from scutch_reference.logical import logical_to_mesh_axes\n"
        "from scutch_reference.meta import unbox as whole\n"
        "def unbox(tree):\n"
        "    return whole(tree)\n"
        "__version__ = '3.1'\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("my_rules", None)


def test_a_first_adapter_claims_what_is_found(library):
    text = draft("my_rules")
    assert '"logical.logical_to_mesh_axes",' in text
    assert '"meta.unbox",' in text
    assert "# nnx: 0 of " in text
    assert text.count("lacks=[") == 1
    assert '"meta.unbox.apply_constraint",' in text
    found = {}
    exec(text, found)
    implementation = check(found["implementation"], "drafted")
    assert (implementation.name, implementation.version) == ("my_rules", "3.1")
    assert implementation.claims == ("meta", "logical")
    both = (
        "metadata/logical-rules/first-free-rule-wins",
        "metadata/box-trees/unbox-keeps-plain-trees",
    )
    assert verdicts(implementation, both) == dict.fromkeys(both, ("passed", None))


def test_a_first_adapter_of_what_is_like_flax_claims_capabilities():
    text = draft("flax")
    assert "'meta'," in text
    assert "'logical'," in text


def test_no_adapter_is_written_for_a_package_without_a_name_of_the_standard(library):
    (library / "my_rules.py").write_text("def resolve(names):\n    return names\n")
    done = subprocess.run(
        [sys.executable, "-m", "scutch", "new-adapter", "my_rules"],
        cwd=library,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "scutch: new-adapter: my_rules has no name of the standard, such as" in done.stderr


def test_the_command_prints_it_and_the_run_takes_it(library):
    def run(*words):
        return subprocess.run(
            [sys.executable, "-m", "scutch", *words],
            cwd=library,
            capture_output=True,
            text=True,
            check=False,
        )

    done = run("new-adapter", "my_rules")
    assert (done.returncode, done.stderr) == (0, "")
    (library / "my_adapter.py").write_text(done.stdout)
    chosen = (
        "--requirement",
        "metadata/logical-rules/first-free-rule-wins",
        "--requirement",
        "metadata/box-axes/removing-undoes-adding",
        "--profile",
        "quick",
    )
    done = run("run", "--implementation", "my_adapter.py", *chosen)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "my_rules 3.1 conforms in all that it claims" in done.stdout
    done = run("new-adapter", "no_such_package")
    assert done.returncode == 2
    assert "importing no_such_package failed" in done.stderr
