"""What docstrings say in reStructuredText, as Markdown has it."""

from __future__ import annotations

import re

ROLE = re.compile(r":(?:attr|class|data|exc|func|meth|mod):`~?([^`]+)`")


def markdown(docstring: str) -> str:
    """A docstring whose references, such as ``:func:`folded```, are code."""
    return ROLE.sub(r"`\1`", docstring)
