"""The rows of the catalogue stand on evidence.

A *must* rests on a sentence of the documents, which the row quotes; on plain JAX's behaviour; or on
a loss that nobody would notice. `source` says which of the last two it is.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from scutch import catalogue, laws
from scutch.catalogue import index
from scutch.judging import suite

EVIDENCE = re.compile("plain JAX|plain case|silent (loss|wrong layout)|orbax-export [0-9]")
PLAIN = ("JIT-10", "JIT-11", "OBJ-8", "SHM-6", "SHM-7")
"""Rows of the contract that ask for what plain JAX does."""


@pytest.mark.parametrize("area", catalogue.AREAS)
def test_a_must_rests_on_evidence(area):
    without = [
        row.id
        for row in catalogue.select(area)
        if row.level == "must"
        and not (row.quote or EVIDENCE.search(row.source) or row.row in PLAIN)
    ]
    assert not without, (
        f"{without} have no `quote`, and `source` says neither 'plain JAX' nor 'silent loss': "
        "add the evidence, or make them a should"
    )


def test_every_document_that_is_cited_can_be_read():
    assert all(d.address.startswith("https://") for d in catalogue.documents().values())
    assert len(catalogue.by_id()["BOX-5"].documents) == 1
    assert all(row.documents for row in catalogue.load() if row.quote)


def test_the_index_names_the_file_of_every_law():
    """The index is read from text. A law that it missed would never be tried."""
    folder = Path(laws.__path__[0])
    names = {file.name for file in folder.glob("*.py")} - {"__init__.py"}
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


def test_only_the_files_of_laws_that_are_asked_for_are_imported():
    program = (
        "import sys; from scutch.judging import suite; suite.tried_by(['BOX-5'])\n"
        "print(*[name for name in sys.modules if name.startswith('scutch.laws.')])"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], env=environment, capture_output=True, text=True,
        check=True, timeout=120,
    )  # fmt: skip
    assert done.stdout.split() == ["scutch.laws.test_box_axes"]
