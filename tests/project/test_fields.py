"""The page of all fields is what the declarations say."""

from __future__ import annotations

from tests.formats.schema.test_layouts import LAYOUTS
from tools.fields import PAGE, page


def test_the_page_of_fields_is_what_the_declarations_say() -> None:
    assert PAGE.read_text("utf-8") == page(), "python -m tools.fields"


def test_every_layout_is_on_the_page() -> None:
    headings = [line for line in page().splitlines() if line.startswith("### ")]
    for layout in LAYOUTS.values():
        assert any(line.startswith(f"### {layout.what}: ") for line in headings), layout.what
