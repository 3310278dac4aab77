"""The search for what was removed finds it wherever it stands."""

from __future__ import annotations

import base64
import bz2
import gzip
import io
import json
import lzma
import pickle
import urllib.parse
import zipfile
import zlib
from unicodedata import normalize

import pytest
import zstandard

import archive
from archive import LeakKind
from archive.container.container import Container
from archive.container.write import new_member
from archive.privacy.redact.proof import Proof, prove
from archive.privacy.redact.removed import Removed, RevealingTexts
from archive.privacy.redact.search import WINDOW
from tests.support.canaries import rewritten
from tests.support.corpus import RELEASES
from tests.support.cost import loops_below
from tests.support.tampering import packed

PATH = '/srv/"zoë"/net.py'

NUMBERS = " ".join(map(str, range(500))).encode()


def zipped(data: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("inner/record", data)
    return out.getvalue()


def proof_of(data: bytes, removed: Removed | None = None, *, name: str = "extra/x") -> Proof:
    members = [new_member("data.pkl", b"\x80\x02)."), new_member(name, data, compress=True)]
    with Container.open(packed(members)) as container:
        return prove(container, removed or Removed({PATH.encode()}))


@pytest.mark.parametrize(
    "data",
    [
        PATH.encode(),
        PATH.encode("utf-16-le"),
        PATH.encode("utf-16-be"),
        json.dumps([PATH]).encode(),
        json.dumps([PATH], ensure_ascii=False).encode(),
        json.dumps([json.dumps([PATH])]).encode(),
        bytes(WINDOW - 3) + PATH.encode(),
    ],
    ids=["utf8", "utf16le", "utf16be", "json", "json utf8", "json twice", "window"],
)
@pytest.mark.parametrize("shift", range(3))
def test_a_path_is_found(data: bytes, shift: int) -> None:
    found = proof_of(b"x" * shift + data)
    assert [text for what, text in found.left if what == "path"] == [PATH.encode()]
    assert found.left["path", PATH.encode()].startswith("extra/x")


ZOE = "zoëkramer"


@pytest.mark.parametrize("original", [normalize("NFC", ZOE), normalize("NFD", ZOE)], ids=["nfc", "nfd"])
@pytest.mark.parametrize(
    "written",
    [
        *(normalize(way, case) for way in ("NFC", "NFD") for case in (ZOE, ZOE.upper(), ZOE.title())),
        *(
            ascii(ZOE)[1:-1],
            ascii(normalize("NFD", ZOE))[1:-1],
            urllib.parse.quote(normalize("NFD", ZOE.upper())),
        ),
    ],
    ids=ascii,
)
def test_a_name_is_found_however_unicode_spells_it(original: str, written: str) -> None:
    user, path = original.encode(), f"/home/{original}/net.py".encode()
    for text in (written, f"/home/{written}/net.py"):
        found = proof_of(text.encode(), Removed({path}, revealing=RevealingTexts({LeakKind.USER: {user}})))
        assert ("user name", user) in found.left
        assert (("path", path) in found.left) == ("/" in text)


def test_zips_in_records_are_searched_and_broken_ones_named() -> None:
    for data in (zipped(PATH.encode()), zipped(zipped(PATH.encode()))):
        found = proof_of(data)
        assert {place.partition("!")[0] for place in found.left.values()} == {"extra/x"}
        assert found.left["path", PATH.encode()].endswith("!record")
        found = proof_of(b"x" + data)
        assert found.left or found.unread[0].startswith("extra/x: ")


def test_nothing_is_found_where_nothing_is() -> None:
    found = proof_of(b"/srv/someone/net.py" * 100)
    assert (found.left, found.unread, found.not_sought) == ({}, [], [])
    assert (found.sought["path"], found.sought["folder"], found.sought["line"]) == (1, 1, 0)


@pytest.mark.parametrize(
    ("data", "inside"),
    [
        (gzip.compress(PATH.encode(), mtime=0), "!gzip"),
        (lzma.compress(NUMBERS + PATH.encode()), "!xz"),
        (bz2.compress(PATH.encode()), "!bzip2"),
        (zlib.compress(PATH.encode()), "!zlib"),
        (zstandard.compress(NUMBERS + PATH.encode()), "!zstd"),
        (b"x" + gzip.compress(PATH.encode(), mtime=0) + b"y", "!gzip at byte 1"),
        (b"x" + zstandard.compress(NUMBERS + PATH.encode()) + b"y", "!zstd at byte 1"),
        (b"x" + bz2.compress(PATH.encode()) + b"y", "!bzip2 at byte 1"),
        (b"note: " + base64.b64encode(PATH.encode()), "!base64"),
        (b"data " + base64.urlsafe_b64encode(gzip.compress(PATH.encode(), mtime=0)), "!base64!gzip"),
        (pickle.dumps([gzip.compress(PATH.encode(), mtime=0), 1], 2), "!bytes!gzip"),
        (b"x" + zipped(PATH.encode()) + b"y", "!zip at byte 1!record"),
        (json.dumps([json.dumps([json.dumps([PATH])])]).encode(), ", [0]"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_what_a_program_has_packed_itself_is_searched(data: bytes, inside: str) -> None:
    found = proof_of(data)
    assert found.left["path", PATH.encode()] == f"extra/x{inside}"
    assert not found.unread


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (gzip.compress(PATH.encode(), mtime=0)[:-9], "extra/x!gzip: its end is missing"),
        (b"7z\xbc\xaf'\x1c\0\4", "extra/x: compressed by 7z, which is not read"),
        (b"\x28\xb5\x2f\xfd" + bytes(9), "extra/x!zstd: "),
    ],
)
def test_what_cannot_be_unpacked_is_named(data: bytes, why: str) -> None:
    (unread,) = proof_of(data).unread
    assert unread.startswith(why)


def test_lines_of_generated_code_are_the_models() -> None:
    removed = Removed(lines={b"return x + 1", b"x = 1"})
    found = proof_of(b"  return x + 1\n", removed, name="code/m.py")
    assert (found.left, found.in_code, found.not_sought) == ({}, {b"return x + 1"}, [("line", b"x = 1")])
    in_constant = proof_of(b"\x80\x02X\x0d\0\0\0return x + 1\n.", removed, name="bytecode.pkl")
    assert (in_constant.left, in_constant.in_code) == ({}, {b"return x + 1"})
    assert proof_of(b"  return x + 1\n", removed).left == {("line", b"return x + 1"): "extra/x"}
    path = Removed({b"/srv/ann/a.py"})
    assert proof_of(b"'/srv/ann/a.py'", path, name="code/m.py").left


def test_what_stays_is_not_looked_for_but_a_path_in_a_line_that_stays_is() -> None:
    kept = Removed({b"/srv/ann/a.py"}, {b"return x"}, set(), {b"return x + y", b'open("/srv/ann/a.py")'})
    found = proof_of(b'return x + y\nopen("/srv/ann/a.py")', kept)
    assert {text for _, text in found.left} == {b"/srv/ann/a.py", b"/srv/ann"}
    assert found.not_sought == [("line", b"return x")]
    assert found.not_sought == [("line", b"return x")]


@pytest.mark.parametrize(
    ("data", "is_left"),
    [
        (b"Expected more than 1 value per channel when training, got input size", False),
        (b"\n        training,\n        momentum,\n", True),
        (b"X\x09\0\0\0training,q\x01", True),
        (b"momentum, training,\n", True),
    ],
    ids=["sentence", "line", "string", "end"],
)
def test_a_line_of_one_word_is_not_left_in_a_sentence(data: bytes, is_left: bool) -> None:  # noqa: FBT001 (a parameter)
    assert bool(proof_of(data, Removed(lines={b"training,"})).left) is is_left


def test_code_without_a_name_is_not_left_where_a_function_has_its_word() -> None:
    removed = Removed(names={b"module"})
    assert not proof_of(b"net.py(9): <module>\n", removed).left
    assert proof_of(b"net.py(9): module\n", removed).left
    assert proof_of(b"net.py(9): <modules>, module>\n", removed).left


def test_what_leaks_finds_in_tensors_is_left() -> None:
    path = b"/home/zqannxz/net/model.py "

    def change(name: str, old: bytes) -> bytes:
        return (path * len(old))[: len(old)] if name == "data/0" else old

    data = rewritten((RELEASES / "torch-2.13.0" / "nested.ptl").read_bytes(), change)
    for preset in ("publish", "vendor"):
        facts = archive.redact(data, io.BytesIO(), io.BytesIO(), preset=preset, partial=True)
        assert [
            one
            for one in facts.remaining
            if one.text.startswith("/home/zqannxz/net/") and "data/0" in one.place
        ]


def test_many_texts_take_time_in_proportion() -> None:
    gone = {b"/srv/%d/ann/net.py" % number for number in range(3_000)}
    kept = {b"%d/net.py" % number for number in range(3_000)} | {b"/srv/7/ann/net.py"}
    with loops_below(500):
        found = proof_of(b"/srv/8/ann/net.py", Removed(gone, set(), kept))
    assert found.left["path", b"/srv/8/ann/net.py"]
    assert found.sought["path"] == len(gone) - 1
