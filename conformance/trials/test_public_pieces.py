"""Pieces of public projects are judged as they are: no conviction without a reason."""

import pytest
from scutch.catalogue import select
from scutch.judging import suite
from scutch.judging.trying import retrying, try_law
from scutch.judging.verdicts import ROOTS, rule
from trials.commits import some_in_a_commit
from trials.pieces import PIECES

IN_A_COMMIT = (
    "t5x",
    "maxtext-sharding",
    "haliax-mapping",
    "memoised-rules",
    "equinox-partition",
    "treex-filters",
    "equinox-filter_grad",
    "jax-itself",
    "python-deepcopy",
    "qwix-unbox",
    "traverse_util-converter",
    "asarray-first",
)
"""Some of each part: rules and constraints, states and filters, lifts, and the bridge."""


def _name(piece):
    return piece.implementation.name


@pytest.mark.parametrize("piece", some_in_a_commit(PIECES, _name, IN_A_COMMIT))
def test_a_public_piece_is_convicted_of_what_is_wrong_with_it(piece):
    def attempt(law, **options):
        return try_law(law, piece.implementation, examples=piece.inputs, **options)

    rows = select(piece.judged)
    # No piece has a module that another process could import.
    tried = suite.tried_by(row.id for row in rows)
    laws = [law for law in tried if suite.UNASSERTED not in law.fixtures]
    trials = map(attempt, laws)
    rulings = rule(rows, trials, claims=piece.implementation.claims, retry=retrying(laws, attempt))
    broken = {each.requirement.id: each.reason for each in rulings if each.verdict in ROOTS}
    assert broken.keys() == piece.convicted.keys(), broken
    held = [each.requirement.id for each in rulings if each.verdict == "passed"]
    assert len(held) >= piece.holds, held


def test_there_are_seventy_seven():
    assert len({piece.implementation.name for piece in PIECES}) >= 77
