"""The label of a release: what its people call it, ``1.4.2``. Companions and stores have it.

It is one short line without ``@``, which joins it to the name of a file: ``wake@1.4.2``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from archive.base.errors import ArchiveError, shown

if TYPE_CHECKING:
    from collections.abc import Iterable

LABEL_TEXT = re.compile(r"\w(?:[\w.+ -]{0,62}[\w.+])?")
LABEL_WORDS = "a label like 1.4.2: up to 64 letters, digits, blanks and . _ + -"
MOST_LABELS = 64
"""Releases of one companion that have their labels: a model may stay as it is for years."""


def checked_label(text: str, place: str = "label") -> str:
    """A label, if it is one."""
    if not LABEL_TEXT.fullmatch(text):
        raise ArchiveError(place=place, expected=LABEL_WORDS, found=shown(text))
    return text


def release_names(names: Iterable[str], labels: Iterable[str]) -> frozenset[str]:
    """What a person or a log may call the releases of a model: ``1.4.2``, ``Ranker@1.4.2``."""
    labels = [*labels]
    return frozenset([*labels, *(f"{name}@{label}" for name in names for label in labels)])


def labels_in_words(name: str, labels: tuple[str, ...]) -> str:
    """A name with the labels of its releases: ``Ranker@3f9a1234abcd (1.4.2, 1.4.3)``."""
    return f"{name} ({', '.join(labels)})" if labels else name
