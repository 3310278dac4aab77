"""How a class of facts is shown in a notebook.

The tables are made in the room of texts, which is above all rooms that have facts. Like the package's public
names, it is found by name when it is first needed, so that no lower room imports it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

TABLES = "archive.render.html"


def shown_by(name: str) -> Callable[[object], str]:
    """The method ``_repr_html_`` of a class, which notebooks call.

    Args:
        name: the function of ``archive/render/html.py`` that makes the HTML of its objects.
    """

    def html_of(facts: object) -> str:
        """The facts as a small static table."""
        html: str = getattr(importlib.import_module(TABLES), name)(facts)
        return html

    return html_of
