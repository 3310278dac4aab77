"""The search for what was removed finds it wherever it stands."""

from __future__ import annotations

import gzip
import io
import json
import zipfile

import pytest

from archive.base.limits import unbounded
from archive.container.container import Container, new_member
from archive.verbs.redact.proof import WINDOW, Proof, prove
from archive.verbs.redact.rules import Removed
from tests.support.tampering import packed

PATH = '/srv/"zoë"/net.py'


def zipped(data: bytes) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("inner/record", data)
    return out.getvalue()


def proof_of(data: bytes, removed: Removed | None = None, *, name: str = "extra/x") -> Proof:
    members = [new_member("data.pkl", b"\x80\x02)."), new_member(name, data, compress=True)]
    with Container.open(packed(members)) as container:
        return prove(container, removed or Removed({PATH.encode()}), unbounded())


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


def test_zips_in_records_are_searched_and_broken_ones_named() -> None:
    for data in (zipped(PATH.encode()), zipped(zipped(PATH.encode()))):
        found = proof_of(data)
        assert {place.partition("!")[0] for place in found.left.values()} == {"extra/x"}
        assert found.left["path", PATH.encode()].endswith("!record")
        found = proof_of(b"x" + data)
        assert found.left or found.unread[0].startswith("extra/x: ")


def test_nothing_is_found_where_nothing_is() -> None:
    found = proof_of(b"/srv/someone/net.py" * 100)
    assert (found.left, found.unread, found.unsought) == ({}, [], 0)
    assert (found.sought["path"], found.sought["folder"], found.sought["line"]) == (1, 1, 0)


def test_what_is_compressed_otherwise_is_named() -> None:
    assert proof_of(gzip.compress(PATH.encode())).unread == ["extra/x: compressed by gzip"]


def test_lines_of_generated_code_are_the_models() -> None:
    removed = Removed(lines={b"return x + 1", b"x = 1"})
    found = proof_of(b"  return x + 1\n", removed, name="code/m.py")
    assert (found.left, found.in_code, found.unsought) == ({}, {b"return x + 1"}, 1)
    assert proof_of(b"  return x + 1\n", removed).left == {("line", b"return x + 1"): "extra/x"}
    path = Removed({b"/srv/ann/a.py"})
    assert proof_of(b"'/srv/ann/a.py'", path, name="code/m.py").left


def test_what_stays_is_not_looked_for_but_a_path_in_a_line_that_stays_is() -> None:
    kept = Removed({b"/srv/ann/a.py"}, {b"return x"}, set(), {b"return x + y", b'open("/srv/ann/a.py")'})
    found = proof_of(b'return x + y\nopen("/srv/ann/a.py")', kept)
    assert {text for _, text in found.left} == {b"/srv/ann/a.py", b"/srv/ann"}
    assert found.unsought == 1
