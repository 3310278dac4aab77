"""The table of models in ``docs/publish.md`` is what was measured, and nothing was left."""

from __future__ import annotations

from tools.publish_table import PAGE, SAMPLES, YES, rewritten, rows


def test_the_page_tells_what_was_measured() -> None:
    text = PAGE.read_text("utf-8")
    assert rewritten(text) == text


def test_every_model_had_something_and_has_nothing_left() -> None:
    found = rows()
    assert list(found) == list(SAMPLES)
    for row in found.values():
        assert int(row["paths"]) > 0
        assert (row["left"], row["same"], row["exact"]) == ("0", YES, YES)
