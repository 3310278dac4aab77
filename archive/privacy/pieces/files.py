"""A mapped file → its kind and its pieces, by the way in which such a file is read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.base import memory
from archive.companion.magic import is_companion
from archive.container.container import Container
from archive.reader.opening import opened
from archive.reader.recognition import (
    OPENED_KINDS,
    TENSOR_KINDS,
    head_kind,
    is_zip,
    recognise,
    recognise_zip,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.io.mapped import Mapped
    from archive.privacy.pieces.piece import FilePiece
    from archive.privacy.pieces.walker import Walker
    from archive.reader.recognition import Recognised


def pieces_of(mapped: Mapped, walker: Walker) -> tuple[Recognised, Iterator[FilePiece]]:
    """The kind of a file, and what a walker finds in it."""
    if not is_zip(mapped.data) and head_kind(mapped) in TENSOR_KINDS:
        archive = opened(mapped, OPENED_KINDS)
        return archive.recognised, walker.tensor_file(archive)
    if is_companion(mapped.data) or not is_zip(mapped.data):
        return recognise(mapped, limits=memory.limits()), walker.file(mapped)
    # the directory of a zip is read once for its kind and its pieces
    container = Container(mapped, rooted=False)
    return recognise_zip(container), walker.zip(container)
