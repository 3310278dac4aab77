"""How users get the packages that a part of this project needs: the extras of its distribution."""

from __future__ import annotations


def how_to_install(extra: str) -> str:
    """The command that installs an extra: from a checkout, since no index has this project."""
    return f"pip install '.[{extra}]' in the checkout of debug-archive"
