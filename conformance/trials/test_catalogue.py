"""The catalogue names its documents and the laws that try it."""

import os
import subprocess
import sys
from pathlib import Path

from scutch import catalogue, laws
from scutch.catalogue import index
from scutch.judging import suite


def test_every_document_that_is_cited_can_be_read():
    assert all(d.address.startswith("https://") for d in catalogue.documents().values())
    assert len(catalogue.by_id()["metadata/box-axes/removing-undoes-adding"].documents) == 1
    assert all(row.documents for row in catalogue.load() if row.quote)


def test_the_index_names_the_file_of_every_law():
    """The index is read from text. A law that it missed would never be tried."""
    folder = Path(laws.__path__[0])
    marked = [file for file in folder.rglob("*.py") if "\n@requirement(" in file.read_text("utf-8")]
    names = {file.relative_to(folder).as_posix() for file in marked}
    assert set(index.files()) == names
    imported = {
        (file, law.requirement, law.function.__name__)
        for file in index.files()
        for law in suite.laws_in(file)
    }
    assert {file for file, *_ in imported} == names
    for file, requirement, function in imported:
        assert f"{file}::{function}" in index.laws_of(requirement)
        assert index.file_of(function) == file
    indexed = {law for row in catalogue.load() for law in index.laws_of(row.id)}
    assert indexed == {f"{file}::{function}" for file, _, function in imported}


def test_a_law_is_marked_with_an_id_of_today():
    """Old ids are for files of adopters and records; `was` keeps them in one place."""
    marked = {law.requirement for law in suite.laws()}
    assert marked == set(catalogue.by_id())
    assert not [
        old
        for row in catalogue.load()
        for old in row.was
        for file in index.files()
        if f'@requirement("{old}"' in (Path(laws.__path__[0]) / file).read_text("utf-8")
    ]


def test_the_readme_has_the_number_of_requirements():
    readme = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
    assert f"against one contract: {len(catalogue.load())}\nrequirements, each with" in readme


def test_only_the_files_of_laws_that_are_asked_for_are_imported():
    program = (
        "import sys; from scutch.judging import suite\n"
        "suite.tried_by(['metadata/box-axes/removing-undoes-adding'])\n"
        "print(*[name for name in sys.modules if name.startswith('scutch.laws.')])"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-P", "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert done.stdout.split() == ["scutch.laws.metadata", "scutch.laws.metadata.test_box_axes"]
