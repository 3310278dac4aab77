"""A subclass of a runtime that is never available.

Links copy methods from the source of each class, and names from its module; so this one has only these.
"""

from __future__ import annotations

from typing import Any


def refusing(runtime: Any) -> Any:  # noqa: ANN401 (a class, with bases that are only known here)
    """A runtime class like another one, but never available."""

    class Unavailable(runtime):  # type: ignore[misc]
        """Never available."""

        def is_available(self) -> bool:
            """Whether this process can compile and execute: it can't."""
            return False

    return Unavailable
