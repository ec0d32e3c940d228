"""The rows of the catalogue stand on evidence.

A *must* rests on a sentence of the documents, which the row quotes; on plain JAX's behaviour; or on
a loss that nobody would notice. `source` says which of the last two it is.
"""

import re

import pytest
from scutch import catalogue

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
