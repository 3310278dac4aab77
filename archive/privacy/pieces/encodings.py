"""All ways to write a text that are read: what ``leaks`` looks through, and the proof of ``redact`` names."""

from __future__ import annotations

from archive.privacy.pieces import escapes, packed
from archive.privacy.pieces.encoded import WAYS

WIDE = ("UTF-16", "UTF-32")
AS_STORED = ("UTF-8", *WIDE)
"""What texts are looked for in everywhere, in the bytes of tensors, too."""
ENCODINGS = (*AS_STORED, "JSON's escapes", *escapes.NAMES, *(way.name for way in WAYS))
"""What texts are looked for in outside of tensors."""
PACKED = packed.NAMES
"""What is unpacked."""


def searched() -> str:
    """What a search of all pieces goes through, in words."""
    return (
        f"in {_listed(ENCODINGS)}, in what {_listed(PACKED)} packed; in tensors in {_listed(AS_STORED)}; "
        "a list of folders that has no root and no file is not read as a path"
    )


def _listed(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"
