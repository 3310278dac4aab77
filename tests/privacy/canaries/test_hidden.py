"""Tokens where a zip has room beside its records: comments, padding, extra fields, unlisted headers."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from typing import TYPE_CHECKING

import pytest

import archive
from tests.support.scanner import tokens_in
from tests.support.tokens import CANARIES

if TYPE_CHECKING:
    from collections.abc import Callable

MODEL = (CANARIES / "scripted.pt").read_bytes()
SECRET = b"/home/zqhiddenxz/secret.py"
END, END_64, LOCATOR = b"PK\5\6", b"PK\6\6", b"PK\6\7"


def rewritten(**fields: bytes) -> bytes:
    """The model in a zip whose entries have these fields."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(MODEL)) as source, zipfile.ZipFile(out, "w") as target:
        for name in source.namelist():
            info = zipfile.ZipInfo(name)
            for field, value in fields.items():
                setattr(info, field, value)
            target.writestr(info, source.read(name))
    return out.getvalue()


def comment() -> bytes:
    return MODEL[:-2] + struct.pack("<H", len(SECRET)) + SECRET


def padding() -> bytes:
    return MODEL.replace(b"Z" * len(SECRET), SECRET, 1)


def extra_field() -> bytes:
    return rewritten(extra=struct.pack("<HH", 0x7777, len(SECRET)) + SECRET)


def entry_comment() -> bytes:
    return rewritten(comment=SECRET)


def hidden_record() -> bytes:
    """A deflated record with a header of its own before the directory, which does not list it."""
    deflater = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    packed = deflater.compress(SECRET * 3) + deflater.flush()
    sizes = zlib.crc32(SECRET * 3), len(packed), 3 * len(SECRET), 1, 0
    record = b"PK\3\4" + struct.pack("<HHHHHIIIHH", 20, 0, zipfile.ZIP_DEFLATED, 0, 0, *sizes) + b"x" + packed
    data, directory = bytearray(MODEL), struct.unpack_from("<I", MODEL, MODEL.index(END) + 16)[0]
    for magic, place, form in ((END, 16, "<I"), (END_64, 48, "<Q"), (LOCATOR, 8, "<Q")):
        at = data.index(magic) + place
        struct.pack_into(form, data, at, struct.unpack_from(form, data, at)[0] + len(record))
    return bytes(data[:directory]) + record + bytes(data[directory:])


def behind() -> bytes:
    return MODEL + SECRET


def other_root() -> bytes:
    out = io.BytesIO(MODEL)
    with zipfile.ZipFile(out, "a") as target:
        target.writestr("other/note", SECRET)
    return out.getvalue()


@pytest.mark.parametrize("made", [comment, padding, extra_field, entry_comment, hidden_record])
def test_redact_leaves_nothing_beside_records(made: Callable[[], bytes]) -> None:
    data = made()
    assert "zqhiddenxz" in tokens_in(data)
    out = io.BytesIO()
    facts = archive.redact(data, out, io.BytesIO(), paths="basename", text="none")
    assert "zqhiddenxz" not in tokens_in(out.getvalue())
    assert not facts.exact


@pytest.mark.parametrize("made", [behind, other_root])
def test_redact_refuses_what_it_would_have_to_leave_out(made: Callable[[], bytes]) -> None:
    out = io.BytesIO()
    with pytest.raises(archive.ArchiveError, match="this tool wants"):
        archive.redact(made(), out, io.BytesIO(), paths="basename", text="none")
    assert out.getvalue() == b""


@pytest.mark.parametrize("made", [comment, padding, extra_field, behind, other_root])
def test_leaks_reads_what_stands_beside_records(made: Callable[[], bytes]) -> None:
    found = archive.leaks(made())
    assert "zqhiddenxz" in {one.text for one in found.findings if one.kind is archive.LeakKind.USER}
