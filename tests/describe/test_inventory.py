"""Rows of an inventory say what the other readers say, of files anywhere; and only what was looked at."""

from __future__ import annotations

import dataclasses
import inspect
import re
import zipfile
from typing import TYPE_CHECKING
from unittest import mock

import aiobotocore.client
import fsspec
import pytest

import archive
from archive import ArchiveError, FileKind
from archive.cli.questions import QUESTIONS
from archive.container.container import Container
from archive.container.write import Member, member_from, write_archive
from archive.describe import inventory
from archive.describe.inventory import InventoryRow, inventoried
from archive.describe.sizes import WeightSize
from archive.describe.totals import Inventory, largest, same_words
from archive.formats.tensor_files.safetensors import build_header
from archive.reader.provenance import provenance
from archive.reader.recognition import ARCHIVE_KINDS, OPENED_KINDS
from tests.support.corpus import FIXTURES, KINDS, ORACLES, RELEASES
from tests.support.object_store import s3
from tests.support.range_server import served
from tests.support.sampling import sampled
from tests.support.tampering import STACK, tampered
from tests.support.zips import with_flipped_bit, with_zeros

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from fsspec.implementations.memory import MemoryFileSystem

FILES = sorted(path for path in FIXTURES.rglob("*") if path.is_file() and path.suffix != ".py")
SAMPLE = sampled(FILES, most=60, by=[lambda path: path.suffix, lambda path: path.parent.name])
EXPORTED = FIXTURES / "exported"
MIB = 1 << 20
APART = {FileKind.AOTI, FileKind.ETRECORD, FileKind.LEGACY_EXPORTED}
"""Files whose tensors are inside of records, which are not fetched."""


@pytest.fixture
def memory() -> Generator[MemoryFileSystem]:
    store = fsspec.filesystem("memory")
    yield store
    store.store.clear()


OUTSIDE = FIXTURES / "zoo" / "outside.bin"
"""The elements of the model beside it, which are in no other file."""


def row_of(path: Path | str) -> InventoryRow | str:
    try:
        return dataclasses.replace(inventoried(path), file="m")
    except ArchiveError as error:
        return str(error).removeprefix(f"{path}: ")


@pytest.mark.parametrize("path", SAMPLE, ids=lambda path: str(path.relative_to(FIXTURES)))
def test_a_row_says_what_the_other_readers_say(path: Path) -> None:
    row = row_of(path)
    if isinstance(row, str) or row.kind not in OPENED_KINDS:
        if not isinstance(row, str):
            debug = row.size if row.kind is FileKind.COMPANION else None
            assert (row.elements, row.debug_bytes, row.contents) == (None, debug, "")
        return
    assert row.unread == []
    account = archive.sizes(path)
    weights = [size for size in account.by("weights").values() if isinstance(size, WeightSize)]
    files = [path, OUTSIDE] if path == OUTSIDE.with_suffix(".onnx") else [path]
    assert row.size == account.size == sum(file.stat().st_size for file in files)
    if row.elements is not None:
        assert row.elements == sum(size.elements for size in weights)
        with archive.open(path) as opened:
            assert row.tensors == len(opened.tensors)
    assert row.debug_bytes == account.debug_bytes
    if row.kind in ARCHIVE_KINDS:
        with archive.open(path) as opened:
            origin = "" if opened.companion else str(provenance(opened))
            assert (row.release, row.handles) == (origin, len(opened.handles))
    assert (row.leaks, row.findings, row.digest) == (None, None, "")


def test_what_reads_all_bytes_is_asked_for() -> None:
    row = inventoried(STACK, more=list(QUESTIONS.values()))
    assert row.digest == str(archive.digest(STACK))
    found = archive.leaks(STACK).counted()
    assert row.leaks == {str(one.kind): sum(other.kind is one.kind for other in found) for one in found}
    assert row.leaks
    assert row.findings == {}
    assert [what.partition(",")[0] for what in row.looked_at[-3:]] == [
        "all bytes",
        "all texts",
        "all records",
    ]


def test_a_file_of_tensors_is_not_called_free_of_what_nobody_looked_for() -> None:
    row = inventoried(KINDS / "tensors.safetensors", more=list(QUESTIONS.values()))
    assert (row.leaks, row.findings) == ({}, {})
    assert row.digest == str(archive.digest(KINDS / "tensors.safetensors", of="file"))
    assert row.looked_at[-1] == "sizes and checksums, by verify"
    assert row.unread == []


def test_a_record_that_cannot_be_read_costs_no_other_fact(tmp_path: Path) -> None:
    path = tmp_path / "m.ptl"
    path.write_bytes(tampered(STACK, {"callstack_debug_map.pkl": lambda data: data[:20]}))
    whole, row = inventoried(STACK), inventoried(path)
    assert (row.elements, row.versions) == (whole.elements, whole.versions)
    assert row.release == ""
    assert len(row.unread) == 1
    assert row.unread[0].startswith("debug records: callstack_debug_map.pkl")
    assert "debug records" not in row.looked_at
    path.write_bytes(tampered(STACK, {"data.pkl": lambda data: data[:20]}))
    row = inventoried(path)
    assert (row.elements, row.weight_bytes, row.debug_bytes) == (None, None, None)
    assert any(why.startswith("tensors: data.pkl") for why in row.unread)


def test_the_tensors_of_a_compiled_model_without_code_are_not_known() -> None:
    row = inventoried(KINDS / "compiled.pt2")
    assert (row.tensors, row.elements, row.weight_bytes, row.code_bytes) == (None, None, None, None)


@pytest.mark.parametrize("path", sorted((FIXTURES / "executorch").glob("*.pte")), ids=lambda path: path.name)
def test_no_tensors_are_counted_where_a_backend_keeps_weights_by_itself(path: Path) -> None:
    row = inventoried(path)
    with archive.open(path) as opened:
        are_named = any(name.startswith("named/") for name in opened.records)
    assert (row.tensors is None, row.elements is None) == (are_named, are_named)
    assert row.weight_bytes is not None


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("package_python.pt", ("net.py",)),
        (
            "package.pt",
            (
                *("net.py", ".data/ts_code/code/__torch__/net.py"),
                *(".data/ts_code/0/data.pkl", ".data/ts_code/0/constants.pkl"),
            ),
        ),
    ],
)
def test_sources_of_python_in_a_package_are_code(name: str, code: tuple[str, ...]) -> None:
    with zipfile.ZipFile(KINDS / name) as package:
        records = {one.filename.partition("/")[2]: one.compress_size for one in package.infolist()}
    assert inventoried(KINDS / name).code_bytes == sum(records[record] for record in code)


@pytest.mark.torch
def test_sources_beside_a_whole_module_are_code(tmp_path: Path) -> None:
    import torch  # noqa: PLC0415 (this test alone)

    path, module = tmp_path / "whole.pt", torch.nn.Linear(2, 3)
    torch.save(module, path, _use_new_zipfile_serialization=False)
    assert inventoried(path).code_bytes == len(inspect.getsource(torch.nn.Linear).encode())
    torch.save(module, path)
    assert inventoried(path).code_bytes == 0


@pytest.mark.parametrize(
    ("metadata", "versions"),
    [
        ({"format": "pt"}, {"framework": "pt"}),
        ({"ir_version": "9", "producer_name": "pytorch"}, {}),
        (None, {}),
    ],
)
def test_a_file_of_tensors_tells_the_versions_of_its_own_format(
    metadata: dict[str, str] | None, versions: dict[str, str], tmp_path: Path
) -> None:
    told = {"x": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}
    header = build_header(told, metadata or {})
    (tmp_path / "m.safetensors").write_bytes(header + bytes(4))
    row = inventoried(tmp_path / "m.safetensors")
    assert (row.versions, row.release, row.release_by) == (versions, "", "")
    assert inventoried(KINDS / "model.gguf").versions == {"format": "3"}


def test_the_program_that_an_onnx_model_names_is_its_own_word() -> None:
    row = inventoried(FIXTURES / "zoo" / "weights.onnx")
    assert (row.release, row.release_by) == ("net 1", inventory.NAMED)
    assert row.versions == {"IR": "13", "operators": "28"}


def test_no_release_is_told_of_a_zip_that_pytorch_would_not_load(tmp_path: Path) -> None:
    path = tmp_path / "m.pt"
    path.write_bytes(tampered(KINDS / "state_dict.pt", {"version": None}))
    row = inventoried(path)
    assert (row.kind, row.release, row.versions) == (FileKind.STATE_DICT, "", {})


# --- elsewhere


def test_a_row_is_the_same_by_url_as_on_disk(memory: MemoryFileSystem) -> None:
    memory.pipe_file(f"/{OUTSIDE.name}", OUTSIDE.read_bytes())
    for path in SAMPLE:
        memory.pipe_file("/m", path.read_bytes())
        here, there = row_of(path), row_of("memory://m")
        if not isinstance(here, str) and not isinstance(there, str) and there != here:
            changed = {
                field.name
                for field in dataclasses.fields(here)
                if getattr(here, field.name) != getattr(there, field.name)
            }
            told = any("companion" in why or here.kind in APART for why in there.unread)
            assert told or here.kind is FileKind.COMPANION, path
            assert all(
                getattr(there, name) in (None, "", [], {}) for name in changed - {"looked_at", "unread"}
            ), path
        else:
            assert here == there, path


def test_a_large_model_elsewhere_takes_a_few_ranges(tmp_path: Path) -> None:
    path = with_zeros(RELEASES / "torch-2.13.0" / "nested.pt", tmp_path / "m.pt", 30 * MIB)
    with served({"/m.pt": path.read_bytes()}) as server:
        row = inventoried(f"{server.url}/m.pt")
        assert row.unread == []
        assert dataclasses.replace(row, file="") == dataclasses.replace(inventoried(path), file="")
        assert len(server.requests) <= 5
        assert server.sent < MIB
        assert all(asked for _, asked in server.requests)


def test_a_large_model_in_a_bucket_takes_a_few_ranges(tmp_path: Path) -> None:
    path = with_zeros(ORACLES / "plain_stack.ptl", tmp_path / "m.ptl", 30 * MIB)
    calls: list[tuple[str, int]] = []
    make = aiobotocore.client.AioBaseClient._make_api_call

    async def counted(self: object, name: str, asked: dict[str, object]) -> dict[str, object]:
        answer: dict[str, object] = await make(self, name, asked)
        if name == "GetObject":
            assert asked["Range"]
        calls.append((name, int(str(answer.get("ContentLength", 0))) if name == "GetObject" else 0))
        return answer

    with s3() as store:
        store.put(str(path), "models/m.ptl")
        with mock.patch.object(aiobotocore.client.AioBaseClient, "_make_api_call", counted):
            row = inventoried("s3://models/m.ptl")
    assert row.unread == []
    assert len(calls) <= 5
    assert 0 < sum(size for _, size in calls) < MIB


def test_no_more_than_the_bound_is_fetched_whatever_a_file_asks_for(tmp_path: Path) -> None:
    path = tmp_path / "m.ptl"
    path.write_bytes(tampered(STACK, {"data.pkl": lambda data: data + bytes(40 * MIB)}))
    with served({"/m.ptl": path.read_bytes()}) as server:
        row = inventoried(f"{server.url}/m.ptl")
        assert row.kind is FileKind.LITE
        assert row.elements is None
        assert any(why.endswith("takes more than 33,554,432 bytes of a remote file") for why in row.unread)
        assert server.sent < inventory.FETCHED + MIB


def test_a_file_that_changes_while_it_is_read_has_no_row(tmp_path: Path) -> None:
    path = with_zeros(STACK, tmp_path / "m.ptl", 4 * MIB)
    first = path.read_bytes()
    other = with_zeros(ORACLES / "lowered_ok.ptl", tmp_path / "n.ptl", 4 * MIB).read_bytes()

    with served({"/m.ptl": first}) as server:

        def change(number: int) -> None:
            server.files["/m.ptl"] = first if number == 1 else other

        server.before = change
        with pytest.raises(ArchiveError, match="the file changed while it was read"):
            inventoried(f"{server.url}/m.ptl")


@pytest.mark.parametrize("fault", [{"status": 500}, {"cut": 7}])
def test_a_server_that_fails_or_cuts_answers_gives_no_row(fault: dict[str, int]) -> None:
    with served({"/m.ptl": STACK.read_bytes()}) as server:
        for name, value in fault.items():
            setattr(server, name, value)
        with pytest.raises((ArchiveError, OSError)):
            inventoried(f"{server.url}/m.ptl")


def test_a_server_that_lies_about_a_size_is_found_out(tmp_path: Path) -> None:
    path = with_zeros(STACK, tmp_path / "m.ptl", 4 * MIB)
    data = path.read_bytes()

    with served({"/m.ptl": data}) as server:

        def grow(number: int) -> None:
            server.files["/m.ptl"] = data if number == 1 else data + data[-64:]

        server.before = grow
        with pytest.raises(ArchiveError, match="changed"):
            inventoried(f"{server.url}/m.ptl")


# --- the same


def took(*rows: InventoryRow) -> tuple[Inventory, list[InventoryRow]]:
    taken = Inventory(OPENED_KINDS)
    return taken, [row for row in map(taken.take, rows) if row is not None]


def test_a_copy_under_another_name_and_root_is_likely_the_same(tmp_path: Path) -> None:
    path = tmp_path / "copy.ptl"
    with Container.open(STACK) as container, path.open("wb") as file:
        write_archive(file, "another", map(member_from, container.records.values()))
    assert path.read_bytes() != STACK.read_bytes()
    taken, (first, second) = took(inventoried(STACK), inventoried(path))
    assert (first.same_as, second.same_as, second.same_by) == ("", str(STACK), "crc")
    assert taken.totals.same.keys() == {"crc"}
    assert (taken.totals.same["crc"].files, taken.totals.same["crc"].size) == (1, path.stat().st_size)
    assert archive.digest(STACK).value == archive.digest(path).value


def test_files_that_differ_in_a_byte_are_not(tmp_path: Path) -> None:
    path = tmp_path / "other.ptl"
    path.write_bytes(tampered(STACK, {"extra/x": b"1"}))
    other = tmp_path / "third.ptl"
    other.write_bytes(tampered(STACK, {"extra/x": b"2"}))
    _, rows = took(*map(inventoried, (STACK, path, other)))
    assert [row.same_as for row in rows] == ["", "", ""]


def without_crcs(target: Path) -> Path:
    """The archive of other tests, as PyTorch writes it if it is told to compute no CRC."""
    with Container.open(STACK) as container, target.open("wb") as file:
        members = [
            Member(name, record.view(), record.size, 0, deflated=False)
            for name, record in container.records.items()
        ]
        write_archive(file, container.root, members)
    return target


def test_archives_without_crcs_are_not_compared(tmp_path: Path) -> None:
    paths = [without_crcs(tmp_path / name) for name in ("a.ptl", "b.ptl")]
    _, rows = took(*map(inventoried, paths))
    assert [(row.contents, row.same_as) for row in rows] == [("", ""), ("", "")]
    _, rows = took(*(inventoried(path, more=[QUESTIONS["digest"]]) for path in paths))
    assert [row.same_as for row in rows] == ["", str(paths[0])]
    assert rows[1].same_by == "digest"


def test_forged_crcs_make_a_file_likely_the_same_and_a_digest_tells_it_apart(tmp_path: Path) -> None:
    """The directory is another file's, and a weight is not: only who reads the weight can know."""
    data, path = bytearray(STACK.read_bytes()), tmp_path / "forged.ptl"
    with Container.open(STACK) as container:
        weight = next(record for name, record in container.records.items() if name.startswith("data/"))
        data[weight.place.data] ^= 1
    path.write_bytes(data)
    _, rows = took(*map(inventoried, (STACK, path)))
    assert rows[1].same_by == "crc"
    _, rows = took(*(inventoried(one, more=[QUESTIONS["digest"]]) for one in (STACK, path)))
    assert (rows[1].digest, rows[1].same_as) == ("", "")
    assert "crc32" in rows[1].unread[-1]


def test_models_of_one_digest_are_the_same_whatever_their_bytes(tmp_path: Path) -> None:
    path = tmp_path / "small.ptl"
    archive.shrink(STACK, path)
    _, rows = took(*(inventoried(one, more=[QUESTIONS["digest"]]) for one in (STACK, path)))
    assert (rows[1].same_as, rows[1].same_by) == (str(STACK), "saved")
    assert rows[0].contents != rows[1].contents


def test_a_copy_is_told_from_the_same_model_saved_otherwise(tmp_path: Path) -> None:
    """Whichever stands first; and of files that aren't zips all bytes are compared."""
    small, copy, tensors = tmp_path / "small.ptl", tmp_path / "copy.ptl", tmp_path / "t.safetensors"
    archive.shrink(STACK, small)
    copy.write_bytes(STACK.read_bytes())
    tensors.write_bytes((KINDS / "tensors.safetensors").read_bytes())
    files = [STACK, small, copy, KINDS / "tensors.safetensors", tensors]
    for order in (files, files[::-1]):
        _, rows = took(*(inventoried(one, more=[QUESTIONS["digest"]]) for one in order))
        found = {row.file: (row.same_as, row.same_by) for row in rows if row.same_as}
        assert sorted(by for _, by in found.values()) == ["bytes", "copy", "saved"]


def test_of_two_zips_with_one_directory_nobody_says_which_is_whole_but_verify(tmp_path: Path) -> None:
    """The damaged one stands first: its whole copy must not be taken for what may be deleted."""
    bad, good = tmp_path / "a.pt", tmp_path / "b.pt"
    good.write_bytes((KINDS / "state_dict.pt").read_bytes())
    with Container.open(good) as container:
        bad.write_bytes(with_flipped_bit(good, container.records["data/0"].place.data))
    _, rows = took(inventoried(bad), inventoried(good))
    assert (rows[1].same_as, rows[1].same_by) == (str(bad), "crc")
    assert "bytes not compared" in same_words(rows[1], rows[1].same_as)
    for question in ("verify", "digest"):
        _, rows = took(*(inventoried(one, more=[QUESTIONS[question]]) for one in (bad, good)))
        assert rows[1].same_as == ""
        assert not rows[0].is_sound
    bad.write_bytes(good.read_bytes())
    _, rows = took(*(inventoried(one, more=[QUESTIONS["verify"]]) for one in (bad, good)))
    assert (rows[1].same_as, rows[1].same_by) == (str(bad), "sums")


# --- sums


def test_a_companion_has_no_elements_that_are_not_known(tmp_path: Path) -> None:
    archive.split(STACK, tmp_path / "small.ptl", tmp_path / "m.ptdbg")
    taken = Inventory({FileKind.COMPANION})
    row = taken.take(inventoried(tmp_path / "m.ptdbg"))
    assert row is not None
    assert (row.elements, taken.totals.elements_unknown) == (None, 0)


def test_sums_leave_out_what_is_not_known_and_add_up() -> None:
    paths = [STACK, KINDS / "compiled.pt2", KINDS / "page.pt", EXPORTED / "shop.pt2", KINDS / "legacy.pt"]
    taken, rows = took(*map(inventoried, paths))
    totals = taken.totals
    assert totals.others == {FileKind.HTML: 1}
    assert totals.all.files == len(rows) == 4
    assert totals.all.size == sum(row.size or 0 for row in rows)
    assert totals.elements_unknown == 1
    assert totals.by_kind["AOTInductor package"].elements is None
    for groups in (totals.by_kind, totals.by_release):
        assert sum(one.files for one in groups.values()) == 4
        assert sum(one.elements or 0 for one in groups.values()) == totals.all.elements
    assert [name for name, _ in largest(totals.by_release, 1)] == ["(not known)", "[2 others]"]
    assert sum(one.files for _, one in largest(totals.by_release, 1)) == 4


def test_a_release_that_a_file_names_is_its_own_word_and_short(tmp_path: Path) -> None:
    path = tmp_path / "m.pt2"

    def named(data: bytes) -> bytes:
        return re.sub(rb'"torch_version": "[^"]*"', b'"torch_version": "' + b"9" * 100_000 + b'"', data)

    path.write_bytes(tampered(EXPORTED / "shop.pt2", {"models/model.json": named}))
    row = inventoried(path)
    assert row.release_by == inventory.NAMED
    assert len(row.release) <= inventory.LONGEST_TEXT
    assert row.versions == inventoried(EXPORTED / "shop.pt2").versions
    assert set(row.versions) == {"schema"}


def test_a_file_that_is_written_to_while_it_is_read_has_no_row(tmp_path: Path) -> None:
    path = tmp_path / "m.ptl"
    path.write_bytes(STACK.read_bytes())

    def written(*arguments: object, **options: object) -> object:
        path.write_bytes(tampered(STACK, {"extra/x": b"1"}))
        return archive.digest(*arguments, **options)  # type: ignore[arg-type]

    with mock.patch("archive.compare.digest.digest", written), pytest.raises(ArchiveError, match="changed"):
        inventoried(path, more=[QUESTIONS["digest"]])


def test_rows_have_the_gravest_findings_in_words() -> None:
    damaged = bytearray(STACK.read_bytes())
    with archive.open(STACK) as opened:
        places = [record.place.data for record in opened.container.records.values() if record.size]
    for place in places:
        damaged[place] ^= 1
    row = inventoried(bytes(damaged), more=[QUESTIONS["verify"]])
    found = archive.verify(bytes(damaged))
    assert row.findings is not None
    assert sum(row.findings.values()) == len(found) > len(row.texts) == 6
    assert all(text.startswith("error: ") and len(text) <= 240 for text in row.texts[:5])
    assert row.texts[5] == f"… and {len(found) - 5} more"
    (only,) = inventoried(tampered(STACK, {"version": b"x"}), more=[QUESTIONS["verify"]]).texts
    assert only == "error: version: expected a number, found b'x'"
    assert inventoried(STACK, more=[QUESTIONS["verify"]]).texts == []
    assert inventoried(STACK).texts == ()
