"""A notebook that was run, as a page: its texts, its code, and what each cell showed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path


def page_of(file: Path) -> str:
    """The notebook as Markdown, tables as the HTML that it has."""
    cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
    return "\n\n".join(part for cell in cells for part in _parts(cell)) + "\n"


def _parts(cell: dict[str, Any]) -> list[str]:
    text = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return [text]
    return [_fenced("python", text), *map(_shown, cell["outputs"])]


def _shown(output: dict[str, Any]) -> str:
    """What a cell printed or gave; of what it gave, the table if there is one."""
    data = output.get("data", {})
    if "text/html" in data:
        return f"<div>{''.join(data['text/html'])}</div>"
    return _fenced("text", "".join(output.get("text") or data["text/plain"]))


def _fenced(language: str, text: str) -> str:
    return f"````{language}\n{text.rstrip()}\n````"
