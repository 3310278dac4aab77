"""An extension of griffe, which reads docstrings for mkdocstrings."""

from __future__ import annotations

import griffe

from tools.site.roles import markdown


class Docstrings(griffe.Extension):
    """Docstrings as Markdown."""

    def on_object(self, *, obj: griffe.Object, **_: object) -> None:
        """Change the docstring of an object that was loaded."""
        if obj.docstring:
            obj.docstring.value = markdown(obj.docstring.value)
