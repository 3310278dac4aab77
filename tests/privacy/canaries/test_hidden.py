"""Tokens where a zip has room beside its records, and in what is made of models."""

from __future__ import annotations

import io
import lzma
import struct
import zipfile
import zlib
from operator import itemgetter
from typing import TYPE_CHECKING

import pytest

import archive
from tests.support.canaries import CANARIES, planted_in
from tests.support.corpus import FIXTURES
from tests.support.sampling import sampled
from tests.support.scanner import tokens_in

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

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


# --- Tokens in what is made of models: embedded, split, small and migrated archives, shared objects


PUBLISHED = {"basename", "lines", "source", "root", "inputs", "extra"}
PLANTED = {
    b"/opt/cache/torchinductor": b"/opt/cache/zqcachedirxz/",
    b"/opt/py/lib": b"/zqpypathxz",
    b"models/mixer.py": b"model/zqfilexz/",
}
"""Parts of paths in compiled packages, and tokens of the same length."""


def embedded(path: Path, out: Path) -> None:
    archive.shrink(path, out, level="embed")


def small(path: Path, out: Path) -> None:
    archive.shrink(path, out, level="compact")


def left(path: Path, out: Path) -> None:
    archive.split(path, out, out.with_suffix(".ptdbg"))


def of_another_release(path: Path, out: Path) -> None:
    out.write_bytes(archive.migrate(path, to="1.9", lossy=True).data)


def published(source: Path | bytes) -> set[str]:
    """The tokens that are left for everybody; a join gives the records back."""
    out, companion, back = io.BytesIO(), io.BytesIO(), io.BytesIO()
    facts = archive.redact(source, out, companion, preset="publish")
    assert archive.join(out.getvalue(), companion.getvalue(), back).exact == facts.exact
    data = source if isinstance(source, bytes) else source.read_bytes()
    assert facts.exact == (back.getvalue() == data)
    with zipfile.ZipFile(io.BytesIO(data)) as before, zipfile.ZipFile(back) as after:
        assert {name: before.read(name) for name in before.namelist()} == {
            name: after.read(name) for name in after.namelist()
        }
    return set(tokens_in(out.getvalue()))


MADE = [
    *((name, make) for name in ("scripted.ptl", "lowered.ptl") for make in (embedded, small, left)),
    *(("exported.pt2", make) for make in (embedded, left)),
    *((name, of_another_release) for name in ("scripted.ptl", "traced.pt", "lowered.ptl")),
]


@pytest.mark.parametrize(("name", "make"), sampled(MADE, by=[itemgetter(0), itemgetter(1)]))
def test_nothing_is_left_in_what_other_commands_made(
    name: str, make: Callable[[Path, Path], None], tmp_path: Path
) -> None:
    path, made = CANARIES / name, tmp_path / name
    make(path, made)
    planted = planted_in(path)
    assert set(tokens_in(made.read_bytes())) & {one.token for one in planted if one.goes in PUBLISHED}
    assert published(made) <= {one.token for one in planted if one.goes not in PUBLISHED}


def with_tokens(name: str) -> bytes:
    """A compiled package in whose records parts of paths are tokens."""
    out = io.BytesIO()
    data = lzma.decompress((FIXTURES / "compiled" / f"{name}.pt2.xz").read_bytes())
    with zipfile.ZipFile(io.BytesIO(data)) as source, zipfile.ZipFile(out, "w") as target:
        for info in source.infolist():
            content = source.read(info)
            for old, new in PLANTED.items():
                content = content.replace(old, new)
            target.writestr(zipfile.ZipInfo(info.filename), content, info.compress_type)
    return out.getvalue()


@pytest.mark.parametrize("name", sampled(["compiled", "profiled"], most=1))
def test_no_path_is_left_in_shared_objects_and_beside_them(name: str) -> None:
    data = with_tokens(name)
    before = tokens_in(data)
    assert {"zqcachedirxz", "zqpypathxz"} <= before.keys()
    assert any(place.endswith(".so") for place in before["zqcachedirxz"])
    assert published(data) == set()


@pytest.mark.torch
def test_a_redacted_package_computes_the_same_and_fails_alike(tmp_path: Path) -> None:
    pytest.importorskip("torch", exc_type=ImportError)
    from tests.support.running_exported import failure, outcome  # noqa: PLC0415 (needs PyTorch)

    path, out = tmp_path / "before.pt2", tmp_path / "after.pt2"
    path.write_bytes(with_tokens("profiled"))
    archive.redact(path, out, tmp_path / "private.ptdbg", preset="publish")
    assert outcome(out) == outcome(path)
    assert failure(out).splitlines()[0] == failure(path).splitlines()[0]
