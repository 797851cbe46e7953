"""The fourth witness: what files make possible, beside what the running server does."""

import pytest

from suite.session.outcomes import BrokenPromise
from suite.session.witnesses import OnDisk, Witness, from_files, require


@pytest.mark.parametrize(
    ("asked", "found", "on"),
    [
        (True, OnDisk(True, "heads", None, ""), True),
        (True, OnDisk(False, "none", (), ""), False),
        (True, OnDisk(None, "declared, not held", (), ""), None),
        (False, OnDisk(True, "heads", (), "none switches it on"), False),
        (False, OnDisk(True, "heads", ("hook.py:3",), "one could"), None),
        (False, OnDisk(True, "heads", None, "cannot be read"), None),
    ],
)
def test_heads_count_where_it_is_asked_for_and_source_where_it_is_not(asked, found, on):
    witness = from_files(asked, found)
    assert (witness.on, witness.running) == (on, False)


def _running(on):
    return [Witness("resolved configuration", on, "x"), Witness("answers", on, "y")]


def test_a_server_that_ignores_what_its_files_allow_is_off_and_not_in_disagreement():
    with pytest.raises(
        BrokenPromise, match=r"^MTP is off although it was asked: all witnesses of the running server"
    ):
        require(
            [*_running(False), Witness("checkpoint", True, "z", running=False)], on=True, asked="it was asked"
        )


def test_a_server_that_speculates_without_heads_contradicts_its_checkpoint():
    with pytest.raises(BrokenPromise, match="the witnesses disagree: checkpoint says off"):
        require(
            [*_running(True), Witness("checkpoint", False, "z", running=False)], on=True, asked="it was asked"
        )


def test_files_alone_prove_nothing():
    with pytest.raises(BrokenPromise, match="no witness shows it"):
        require(
            [*_running(None), Witness("checkpoint", True, "z", running=False)], on=True, asked="it was asked"
        )
