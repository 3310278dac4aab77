"""Each file is named by what is in it, whatever it is called."""

from __future__ import annotations

import gzip
import io
import lzma
import pickle
import struct
import zipfile
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import archive
from archive import ArchiveError, LimitError, Limits
from archive.base.limits import DEFAULT_LIMITS
from archive.container.write import new_member
from archive.describe.inventory import inventoried
from archive.describe.listing import listed
from archive.describe.sizes import sizes
from archive.formats.record_kinds import kind_of
from archive.reader.recognition import FileKind, recognise
from archive.reader.recognition.kinds import COMMAND_KINDS
from tests.support.commands import called, well
from tests.support.corpus import ARCHIVES, HANDLES, KINDS, NAMED, RELEASES
from tests.support.cost import loops_below
from tests.support.exported import COMPILED, EXPORTED
from tests.support.halves import halves
from tests.support.tampering import STACK, packed, without
from tests.support.zips import zipped

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SCRIPT = RELEASES / "torch-2.13.0" / "nested.pt"
LIMITED = [*(KINDS / name for name in NAMED), EXPORTED / "shop.pt2", min(COMPILED.glob("*.pt2"))]
NO_DEBUG = RELEASES / "torch-2.13.0" / "nested-nodebug.ptl"


def test_all_kinds_are_here() -> None:
    assert {path.name for path in KINDS.iterdir() if path.is_file()} == set(NAMED)


@pytest.mark.parametrize("name", NAMED)
def test_each_kind_is_named_by_its_content(name: str) -> None:
    found = recognise((KINDS / name).read_bytes())
    assert (found.kind, str(found)) == NAMED[name]


def test_what_pytorch_wrote_as_archives_are_archives() -> None:
    found = {path: recognise(path).kind for path in ARCHIVES}
    assert {path.suffix for path, kind in found.items() if kind is FileKind.LITE} == {".ptl"}
    assert {path.suffix for path, kind in found.items() if kind is FileKind.TORCHSCRIPT} == {".pt"}
    assert set(found.values()) == {FileKind.LITE, FileKind.TORCHSCRIPT}


@pytest.mark.parametrize(
    ("data", "kind", "said"),
    [
        (halves(SCRIPT).out, FileKind.SPLIT, "a TorchScript archive whose debug info was split off"),
        (halves(STACK).out, FileKind.SPLIT, "a lite archive whose debug info was split off"),
        (halves(STACK).companion, FileKind.COMPANION, "a companion, the debug info of an archive"),
        (NO_DEBUG.read_bytes(), FileKind.LITE, "a lite archive without debug handles"),
        (
            without(STACK, lambda name: kind_of(name).is_debug and name != HANDLES),
            FileKind.LITE,
            "a lite archive whose debug info was taken out",
        ),
    ],
)
def test_where_debug_info_is_told_as_far_as_it_is_proved(data: bytes, kind: FileKind, said: str) -> None:
    found = recognise(data)
    assert (found.kind, found.what) == (kind, said)


def test_a_lite_archive_without_handles_says_how_to_save_them() -> None:
    advice = "_save_for_lite_interpreter(..., _save_mobile_debug_info=True) saves them"
    assert recognise(NO_DEBUG).advice == advice
    assert advice in well("inspect", NO_DEBUG).splitlines()[1]
    assert advice not in well("inspect", STACK)


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"7z\xbc\xaf\x27\x1c\0\4", "a 7z archive"),
        (b"P", "a zip without its end, cut short or with many other bytes after it"),
        (SCRIPT.read_bytes() + b"\0", "a zip with 1 other byte after its end"),
        (SCRIPT.read_bytes() + bytes(1000), "a zip with 1,000 other bytes after its end"),
        (lzma.compress(b"PK\3\4"), "an xz file around a zip"),
        (gzip.compress(gzip.compress(b"", mtime=0), mtime=0), "a gzip file around a gzip file"),
        (b"\n<HTML lang=en>", "a web page (HTML)"),
        (b"<!--" * 1000, f"a text file (it begins with '{'<!--' * 8}')"),
        (zipped(**{"m/data.pkl": pickle.dumps({}, 2)}), "an object (an empty dict), saved by torch.save"),
        (b'[{"a": 1}]', "JSON text"),
        (
            zipped(**{"serialized_exported_program.json": b"{}", "version": b"5.1"}),
            "an exported program (.pt2) as PyTorch 2.1 to 2.7 saved them",
        ),
        (
            b"\x08\x01\x12\x05\x0a\x03\x08\x01\x01",  # as TensorFlow's SavedModel begins
            r"no known kind of file (it begins with b'\x08\x01\x12\x05\n\x03\x08\x01\x01')",
        ),
        (
            "\ufeff\n Größe\tund\x1b[0m \nweiter".encode(),
            "a text file (it begins with 'Größe\\tund\\x1b[0m')",
        ),
        (("a" * 4094 + "€").encode(), f"a text file (it begins with '{'a' * 32}')"),  # cut in a character
        (b"a\0b", r"no known kind of file (it begins with b'a\x00b')"),
        (b"caf\xe9\n", r"no known kind of file (it begins with b'caf\xe9\n')"),
        (b"version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer"),
        *((pickle.dumps({}, one), "a pickle that Python wrote without `torch.save`") for one in range(2, 6)),
        (pickle.dumps({})[:-1], r"no known kind of file (it begins with b'\x80\x04}\x94')"),
        (bytes(10_000) + b"a", "no known kind of file (its first 4,096 bytes are zeros)"),
        (b"<?xml version='1.0'?><Error/>", "XML text (it begins with \"<?xml version='1.0'?><Error/>\")"),
        ((2).to_bytes(8, "little") + b"{}", "tensors in the safetensors format"),
        (
            (3).to_bytes(8, "little") + b"{}",
            (
                "safetensors cut short: it has 2 of 3 bytes of its header (safetensors' own reader says "
                "`invalid header length`)"
            ),
        ),
    ],
)
def test_other_contents_are_named(data: bytes, what: str) -> None:
    assert recognise(data).what == what


def test_what_follows_a_whole_zip_is_told_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "padded.pt").write_bytes(SCRIPT.read_bytes() + bytes(2))
    done = called("verify", tmp_path / "padded.pt")
    size = SCRIPT.stat().st_size
    assert done.exit_code == 2  # it is not said to be broken: PyTorch loads it
    assert done.stdout == (
        f"{tmp_path / 'padded.pt'}: not checked: a zip with 2 other bytes after its end: "
        f"this tool wants it without them: `head -c {size}`\n"
    )


@pytest.mark.parametrize("name", ["flatbuffer.ptl", "model.gguf", "program.pte", "tensors.safetensors"])
def test_a_file_whose_last_data_are_a_zip_is_what_it_begins_as(name: str, tmp_path: Path) -> None:
    file, kind, last = tmp_path / name, NAMED[name][0], SCRIPT.read_bytes()
    data = (KINDS / name).read_bytes()
    if kind is FileKind.SAFETENSORS:  # whose header says how many bytes follow
        header = b'{"blob":{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]}}' % ((len(last),) * 2)
        data = struct.pack("<Q", len(header)) + header
    file.write_bytes(data + last)
    assert recognise(file).kind is kind
    assert called("leaks", file).stderr == ""
    assert inventoried(file).kind is kind
    if kind in COMMAND_KINDS["sizes"]:
        assert sizes(file).size == file.stat().st_size


def test_an_archive_with_files_beside_its_folder_is_none() -> None:
    with zipfile.ZipFile(SCRIPT) as source:
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as target:
            for name in source.namelist():
                target.writestr(name, source.read(name))
            target.writestr("beside/notes.txt", "")
    assert str(recognise(out)) == (
        "a zip of several folders, a TorchScript archive among them: "
        "this tool wants all files in one folder, so zip that folder alone"
    )


# --- hostile


SHARED = {
    "arguments": b"(" + b"N" * 4_000 + b"tq\0" + b"cm\nC\nh\0R" * 4_000 + b"l",
    "states": b"}(" + b"K\1N" * 4_000 + b"uq\0" + b"cm\nC\n)R" + b"h\0bcm\nC\n)R" * 4_000 + b"l",
    "named": b"}(" + b"K\1N" * 4_000 + b"uq\0" + b"cm\nC\n)h\0\x92" * 4_000 + b"l",
}


@pytest.mark.parametrize("shared", SHARED)
def test_what_is_shared_is_looked_at_once(shared: str) -> None:
    data = packed([new_member("data.pkl", b"\x80\x02(" + SHARED[shared] + b".")])
    with loops_below(400):
        assert listed(data).what == "an object of class list, saved by torch.save"


@given(st.sampled_from(sorted(NAMED)), st.data())
def test_whatever_is_changed_in_a_file_it_is_named_or_refused(name: str, data: st.DataObject) -> None:
    content = bytearray((KINDS / name).read_bytes())
    for _ in range(data.draw(st.integers(0, 4)) if content else 0):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(content[: data.draw(st.integers(0, len(content)))])
    for one in (bytes(content), cut):
        with suppress(ArchiveError):
            assert str(recognise(one))
            assert archive.sizes(one).size == listed(one).size == len(one)


@given(st.binary(max_size=200))
def test_any_bytes_are_named(data: bytes) -> None:
    assert recognise(data).kind is not FileKind.TORCHSCRIPT


def test_a_pickle_that_would_cost_too_much_is_not_read() -> None:
    bomb = packed([new_member("data.pkl", b"\x80\x02" + b"]" * 5000 + b".")])
    for read in (recognise, listed):
        with pytest.raises(LimitError, match=r"data\.pkl, byte 3.*--limit memory=2M"):
            read(bomb, limits=Limits(memory=1_000_000))
    assert recognise(bomb).what == "an object of class list, saved by torch.save"


@pytest.mark.parametrize("path", LIMITED, ids=lambda path: path.name)
def test_with_less_memory_an_answer_is_the_same_or_names_the_limit(path: Path) -> None:
    data = path.read_bytes()
    for ask in (recognise, sizes):
        whole, refused = answer_of(ask, data, DEFAULT_LIMITS), set()
        for bits in range(4, 24):
            answer = answer_of(ask, data, Limits(memory=1 << bits))
            if answer != whole:
                refused.add(answer)
        assert all("memory is limited to " in answer and "--limit memory=" in answer for answer in refused)


def answer_of(ask: Callable[..., object], data: bytes, limits: Limits) -> str:
    try:
        return repr(ask(data, limits=limits))
    except ArchiveError as error:
        return str(error)
