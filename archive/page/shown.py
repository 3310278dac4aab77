"""What a page shows of the model's own source: all, base names of files, or neither text nor paths."""

from __future__ import annotations

import re
from enum import StrEnum

FOLDERS, NAMED_FOLDERS = re.compile(rb"\A.*[/\\]", re.DOTALL), re.compile(r"\A.*[/\\]", re.DOTALL)
"""The folders of a name. Without the anchor, a search would start again at each byte of a name with none."""


class Shown(StrEnum):
    """How much of the model's source is on a page: ``--source``."""

    FULL = "full"
    BASENAME = "basename"
    NONE = "none"

    @property
    def has_text(self) -> bool:
        """Whether lines of source, and code that is made from them, are shown."""
        return self is not Shown.NONE

    @property
    def has_paths(self) -> bool:
        """Whether files are shown with their folders, and findings with the texts that they are about."""
        return self is Shown.FULL

    def shown(self, file: bytes) -> bytes:
        """The name of a source file as it is shown."""
        return file if self.has_paths else FOLDERS.sub(b"", file)

    def file(self, file: str) -> str:
        """The same for text."""
        return file if self.has_paths else NAMED_FOLDERS.sub("", file)
