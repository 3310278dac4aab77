"""How a class of facts is shown in a notebook, and written as a command writes it.

The texts are made in a room that is above all rooms that have facts. Like the package's public names, it is
found by name when it is first needed, so that no lower room imports it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

TEXTS = "archive.render"


def shown_by(name: str) -> Callable[[object], str]:
    """The method ``_repr_html_`` of a class, which notebooks call.

    Args:
        name: the function of ``archive/render/html.py`` that makes the HTML of its objects.
    """

    def html_of(facts: object) -> str:
        """The facts as a small static table."""
        return text_by("html", name, facts)

    return html_of


def text_by(module: str, name: str, facts: object) -> str:
    """The text that a function of ``archive/render`` makes of facts."""
    text: str = getattr(importlib.import_module(f"{TEXTS}.{module}"), name)(facts)
    return text
