"""A model's laws in the owner's own tests: one call, or a class with one item for each law.

def test_my_model():
    scutch.judge_model(setup)

class TestMyModel(scutch.ModelTests):
    model = setup
"""

from collections.abc import Sequence
from typing import ClassVar

import pytest

from scutch.judging.profiles import prepare_devices
from scutch.models import findings
from scutch.models.check import STEPS, check
from scutch.models.findings import Verdict, text
from scutch.models.laws import LAWS, by_id
from scutch.models.model import MeshShape, Model


class ModelFindings(AssertionError):
    """A model breaks laws; `verdict` holds the findings.

    Wrong, because the rules have no `mlp`:

        scutch.judge_model(scutch.Model(module, inputs, rules=[("embed", "data")]))

    Right:

        scutch.judge_model(
            scutch.Model(module, inputs, rules=[("embed", "data"), ("mlp", "tensor")])
        )
    """

    def __init__(self, verdict: Verdict) -> None:
        """Keep the verdict, and show its text.

        Args:
          verdict: It does not pass.
        """
        super().__init__(f"\n{text(verdict)}")
        self.verdict = verdict


def judge_model(
    model: Model, meshes: Sequence[MeshShape] = (), *, steps: int = STEPS, seed: int = 0
) -> Verdict:
    """Check a model; call it before JAX has looked for devices, for there to be eight.

    Args:
      model: The description.
      meshes: Mesh shapes; the model's own where there are none.
      steps: How many steps of training are run on each mesh; 0 for laws from shapes alone.
      seed: Of all that is drawn.

    Returns:
      The verdict, which passes.

    Raises:
      ModelFindings: A finding is to be mended.
      SetupError: The description is wrong.
    """
    prepare_devices()
    verdict = check(model, meshes, steps=steps, seed=seed)
    if not verdict.passes:
        raise ModelFindings(verdict)
    return verdict


class ModelTests:
    """Base of a test class with one item for each law; `model` is the owner's."""

    model: ClassVar[Model]
    meshes: ClassVar[Sequence[MeshShape]] = ()
    steps: ClassVar[int] = STEPS
    seed: ClassVar[int] = 0
    _verdict: ClassVar[Verdict]

    @classmethod
    def verdict(cls) -> Verdict:
        """The verdict, made once for a class."""
        if "_verdict" not in cls.__dict__:
            prepare_devices()
            cls._verdict = check(cls.model, cls.meshes, steps=cls.steps, seed=cls.seed)
        return cls._verdict

    @pytest.mark.parametrize("law", [law.id.removeprefix("models/") for law in LAWS])
    def test_model(self, law: str) -> None:
        """The model keeps one law; a law that does not apply is skipped with the reason.

        Args:
          law: The id, without `models/`.
        """
        verdict, wanted = self.verdict(), by_id(law)
        for skipped, reason in verdict.not_applied:
            if skipped == wanted:
                pytest.skip(reason)
        broken = [finding for finding in verdict.of(wanted) if finding.fails]
        if broken:
            pytest.fail(findings.lines_of(broken), pytrace=False)
