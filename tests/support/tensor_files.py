"""What tests of files of tensors ask of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import archive
from archive.describe.sizes import View

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.io.mapped import Source
    from archive.reader.archive import Archive


def bytes_of(opened: Archive, name: str) -> bytes:
    """The elements of a tensor."""
    return b"".join(opened.tensors.elements(name))


def labels_of(source: Source) -> Iterator[dict[str, int]]:
    """The stored bytes by label, in each view."""
    account = archive.sizes(source)
    for view in View:
        yield {label: size.stored for label, size in account.by(view).items()}
