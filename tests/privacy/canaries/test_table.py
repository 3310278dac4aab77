"""The table of models in ``docs/publish.md`` is what was measured, and nothing was left."""

from __future__ import annotations

from tools.model_data import YES
from tools.publish_table import DATA, SAMPLES, table


def test_the_page_tells_what_was_measured() -> None:
    assert DATA.rewritten(table(DATA.rows())) == DATA.page()


def test_every_model_had_something_and_has_nothing_left() -> None:
    found = DATA.rows()
    assert list(found) == list(SAMPLES)
    for row in found.values():
        assert int(row["paths"]) > 0
        assert (row["left"], row["same"], row["exact"]) == ("0", YES, YES)
