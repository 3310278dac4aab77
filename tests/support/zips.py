"""Small archives to be broken, and what their readers must then do."""

from __future__ import annotations

import io
import struct
import zipfile

import pytest

from archive.base.errors import ArchiveError
from archive.base.limits import Limits
from archive.container.container import Container, Member, new_member, write_archive


def written(*members: Member, root: str = "m") -> bytes:
    out = io.BytesIO()
    write_archive(out, root, members)
    return out.getvalue()


SMALL = written(
    new_member("data/0", b"tensor" * 10),
    new_member("code/m.py", b"def forward(self):\n" * 20),
    new_member("code/empty.py", b""),
    new_member("version", b"3\n"),
)


def zipped(**files: bytes) -> bytes:
    """The same by an ordinary zip tool."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as target:
        for name, data in files.items():
            target.writestr(name.replace("__", "/"), data)
    return out.getvalue()


PLAIN = zipped(m__data=b"plain" * 10, m__version=b"3\n")


def put(data: bytes, at: int, form: str, *values: int) -> bytes:
    changed = bytearray(data)
    struct.pack_into(f"<{form}", changed, at % len(data), *values)
    return bytes(changed)


def refused(data: bytes, limits: Limits | None = None) -> ArchiveError:
    """The error of reading an archive and all of its records."""
    with pytest.raises(ArchiveError) as raised:
        read(data, limits)
    assert raised.value.file == "m.pt"
    assert str(raised.value).startswith("m.pt: ")
    return raised.value


def read(data: bytes, limits: Limits | None = None) -> None:
    with Container.open(data, name="m.pt", limits=limits or Limits()) as container:
        for record in container.records.values():
            assert len(record.view()) == record.size
