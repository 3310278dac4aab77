"""The page of attacks shows what was measured, and every attack."""

from __future__ import annotations

import pytest

from tests.attacks import payloads
from tests.attacks.catalogue import ATTACKS
from tests.attacks.not_yet import NOT_YET
from tools import attack_table

ROWS = attack_table.read()


def test_the_page_is_made_of_the_data() -> None:
    assert attack_table.DATA.read_text("utf-8") == attack_table.written(ROWS)
    assert attack_table.PAGE.read_text("utf-8") == attack_table.HEAD + attack_table.table(ROWS)


def test_each_attack_has_a_row() -> None:
    assert list(ROWS) == list(ATTACKS)


def test_the_readme_counts_them() -> None:
    assert f"| {len(ATTACKS)} attacks: " in (attack_table.PAGE.parents[1] / "README.md").read_text("utf-8")


def test_the_attacks_that_succeed_are_those_that_are_not_mended() -> None:
    assert {name for name, row in ROWS.items() if row["here"] == attack_table.SUCCEEDS} == set(NOT_YET)


def test_nothing_runs_here_and_payloads_run_in_pytorch() -> None:
    tame = {"payload by NEWOBJ", "payload by NEWOBJ_EX", "payload by EXT", "payload by PERSID"}
    run = {name for name, row in ROWS.items() if "runs it" in row["torch.load"]}
    assert run & set(payloads.ATTACKS) == set(payloads.ATTACKS) - tame
    assert not any("runs it" in row["here"] for row in ROWS.values())


@pytest.mark.parametrize(
    ("found", "words"), [([0], "well"), ([2, 2], "refused"), ([2, 0, 1, 0], "well, findings, refused")]
)
def test_statuses_in_words(found: list[int], words: str) -> None:
    assert attack_table.statuses(found) == words
