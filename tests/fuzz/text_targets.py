"""The target for those who search every text: whatever a record is, a path behind it is found."""

from __future__ import annotations

import io
import zipfile
from typing import TYPE_CHECKING

from archive.privacy.leaks import LeakKind, leaks
from tests.fuzz.mutations import changed_bytes
from tests.fuzz.targets import Target, smallest
from tests.support.corpus import ARCHIVES, FIXTURES
from tests.support.exported import PROGRAMS

if TYPE_CHECKING:
    from collections.abc import Iterator

PATH = "/home/ann/model.py"
PLANTED = f"\0{PATH}\0".encode() * 3
"""Three times, for a string of what is before it may end in the middle of one."""


def read_texts(data: bytes) -> None:
    """An extra file of these bytes and a path: the path is found there, or the file is refused."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as made:
        made.writestr("m/extra/x", data + PLANTED)
        made.writestr("m/version", b"3\n")
    found = leaks(out.getvalue())
    places = [one.places for one in found.findings if (one.kind, one.text) == (LeakKind.HOME, PATH)]
    assert places, "a path that is not found"
    assert places[0][0].record.startswith("extra/x")


def _records() -> Iterator[bytes]:
    for path in [*ARCHIVES, *PROGRAMS]:
        with zipfile.ZipFile(path) as source:
            yield from (source.read(name) for name in source.namelist())


def _seeds() -> list[bytes]:
    files = [path.read_bytes() for path in FIXTURES.glob("companions/**/*.ptdbg")]
    files += [path.read_bytes() for path in ARCHIVES]
    return [*smallest(list(_records()), 24), *smallest(files, 4, 8_000)]


TARGETS = {"texts": Target(read_texts, _seeds, changed_bytes)}
