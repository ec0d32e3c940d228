"""Distributions have metadata and a page that needs no repository; without a network."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from scutch_ci import release
from scutch_ci.checkout import NothingMeasured

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
WORKFLOW = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text("utf-8"))
REPOSITORY = "https://github.com/somebody/scutch"


@pytest.fixture
def tree(tmp_path):
    """Copies of the files that a release is built from."""
    made = tmp_path / "tree"
    for name in ("conformance", "reference"):
        kept = shutil.ignore_patterns("__pycache__", "*.egg-info", "trials", "tests")
        shutil.copytree(ROOT / name, made / name, ignore=kept)
    for name in ("README.md", "CHANGELOG.md", "LICENSE", "pyproject.toml"):
        shutil.copy(ROOT / name, made / name)
    return made


def test_links_and_pictures_of_the_page_lead_to_the_repository_at_the_tag():
    page = release.published(README, REPOSITORY, "v0.1.0")
    links = re.findall(r"\]\(([^)\s]+)\)", page)
    assert len(links) == len(re.findall(r"\]\(([^)\s]+)\)", README))
    assert all(link.startswith("https://") for link in links)
    assert f"]({REPOSITORY}/blob/v0.1.0/LICENSE)" in page
    assert f"]({REPOSITORY}/raw/v0.1.0/ci/nightly.png)" in page
    assert f"]({REPOSITORY}/raw/v0.1.0/benchmarks/dispatch.svg?sanitize=true)" in page
    assert "uses: somebody/scutch@v0.1.0" in page


def test_a_wheel_and_a_source_distribution_say_what_they_are(tree, tmp_path):
    version = release.version_of(tree)
    release.build(tree, REPOSITORY, tmp_path / "dist")
    release.check_metadata(tmp_path / "dist", version)
    found = release.metadata(release.one_of(tmp_path / "dist", "*.whl"))
    assert f"Repository, {REPOSITORY}" in found.get_all("Project-URL")
    with pytest.raises(release.CheckFailed, match=r"Version is '.+'; expected '9.9'"):
        release.check_metadata(tmp_path / "dist", "9.9")


def test_a_page_that_needs_the_repository_is_refused(tree, tmp_path, monkeypatch):
    monkeypatch.setattr(release, "published", lambda readme, repository, tag: readme)
    release.build(tree, REPOSITORY, tmp_path / "dist")
    with pytest.raises(release.CheckFailed, match=r"its description links to [a-z]"):
        release.check_metadata(tmp_path / "dist", release.version_of(tree))


def test_the_section_of_a_version_is_what_stood_under_unreleased(tree):
    before = release.notes((tree / "CHANGELOG.md").read_text("utf-8"), "Unreleased")
    old = release.version_of(tree)
    release.prepare("9.8.7", tree)
    changelog = (tree / "CHANGELOG.md").read_text("utf-8")
    assert before
    assert release.notes(changelog, "9.8.7") == before
    assert release.notes(changelog, "Unreleased") == ""
    assert re.search(r"^## \[9\.8\.7\] - \d{4}-\d\d-\d\d$", changelog, re.MULTILINE)
    assert release.version_of(tree) == "9.8.7"
    readme = (tree / "README.md").read_text("utf-8")
    assert "scutch@v9.8.7" in readme
    assert f"v{old}" not in readme
    with pytest.raises(NothingMeasured, match="nothing stands under Unreleased"):
        release.prepare("9.9", tree)


@pytest.mark.parametrize("version", ["0.0.1", "0.1.0", "new"])
def test_a_version_that_is_none_or_not_newer_is_refused(tree, version):
    before = (tree / "CHANGELOG.md").read_bytes()
    with pytest.raises(NothingMeasured, match="--prepare"):
        release.prepare(version, tree)
    assert (tree / "CHANGELOG.md").read_bytes() == before


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--repository", ""], "the address of the repository is not known: pass --repository URL"),
        (["--prepare", "new"], "--prepare 'new' is no version"),
        (["--python", "3.9"], "invalid choice: '3.9'"),
    ],
)
def test_a_wrong_set_up_is_refused_with_a_sentence(options, says):
    done = subprocess.run(
        [sys.executable, "-P", "-m", "scutch_ci.release", *options],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    assert (done.returncode, says in done.stderr) == (2, True), done.stderr


def test_the_workflow_publishes_by_trust_and_only_what_was_checked():
    build, publish = WORKFLOW["jobs"]["build"], WORKFLOW["jobs"]["publish"]
    assert "ci/release" in [step.get("run") for step in build["steps"]]
    assert publish["permissions"] == {"id-token": "write"}
    assert publish["needs"] == "build"
    (upload,) = [s for s in publish["steps"] if s.get("uses", "").startswith("pypa/")]
    assert upload["uses"] == "pypa/gh-action-pypi-publish@release/v1"
    assert "with" not in upload  # no password
    assert "secrets." not in (ROOT / ".github/workflows/release.yml").read_text("utf-8")
