"""Every byte of a file is labelled: totals, labels compared with zipfile and counted by hand, differences."""

from __future__ import annotations

import io
import struct
import zipfile
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import archive
from archive.base.errors import ArchiveError, LimitError
from archive.base.limits import Limits
from archive.companion.magic import is_companion
from archive.describe.inspect import inspect
from archive.describe.inventory import inventoried
from archive.describe.sizes import Size, SizeChange, View
from archive.formats.record_kinds import RecordKind, kind_of
from tests.support.corpus import ARCHIVES, CALLSTACKS, FIXTURES, HANDLES, ORACLES, RELEASES, raw
from tests.support.sampling import examples
from tests.support.strategies import patient
from tests.support.tampering import NESTED_1_2, PLAIN, STACK
from tests.support.zips import zipped

if TYPE_CHECKING:
    from pathlib import Path

    from archive import Account

UNICODE_1_8 = RELEASES / "torch-1.8.0" / "unicode.pt"
NESTED = RELEASES / "torch-2.13.0" / "nested.ptl"


def stored(account: Account, view: str) -> dict[str, int]:
    return {label: size.stored for label, size in account.by(view).items()}


def adds_up(account: Account, size: int) -> bool:
    """Whether the sizes of all views, none of them negative, are the file's."""
    views = [stored(account, view) for view in View]
    return account.size == size and all(
        sum(view.values()) == size and min(view.values()) >= 0 for view in views
    )


# --- totals


def test_all_views_of_every_fixture_add_up_to_its_size() -> None:
    assert len(ARCHIVES) == 259
    for path in ARCHIVES:
        account = archive.sizes(path)
        assert adds_up(account, path.stat().st_size), path
        assert sum(size.inflated for size in account.by("part").values()) == inflated(path), path


def inflated(path: Path) -> int:
    with zipfile.ZipFile(path) as archive:
        return sum(info.file_size for info in archive.infolist())


names = st.sampled_from(
    ["code/m.py.debug_pkl", CALLSTACKS, HANDLES, "mobile_debug.pkl", "code/m.py", "data/0", "extra/a", "b/"]
)
contents = st.one_of(
    st.binary(max_size=300),
    st.sampled_from(
        [raw(STACK, CALLSTACKS), raw(STACK, HANDLES), raw(NESTED_1_2, "debug/nested.pkl"), b"\x80\2)."]
    ),
)


@given(
    st.dictionaries(names, st.tuples(contents, st.booleans()), min_size=1),
    st.binary(max_size=30),
    st.binary(max_size=30),
)
@settings(patient, max_examples=examples(60), derandomize=True)
def test_whatever_is_in_an_archive_all_bytes_are_labelled(
    records: dict[str, tuple[bytes, bool]], prefix: bytes, comment: bytes
) -> None:
    assume(not is_companion(memoryview(prefix)))
    out = io.BytesIO(prefix)
    out.seek(len(prefix))
    with zipfile.ZipFile(out, "a") as made:
        made.comment = comment
        made.writestr("m/version", b"3\n")
        for name, (data, deflate) in records.items():
            content = b"" if name.endswith("/") else data
            made.writestr(f"m/{name}", content, zipfile.ZIP_DEFLATED if deflate else zipfile.ZIP_STORED)
    assert adds_up(archive.sizes(out.getvalue()), len(out.getvalue()))


@given(st.data())
@settings(patient, max_examples=examples(60), derandomize=True)
def test_changed_bytes_are_labelled_too_or_refused_as_everywhere(data: st.DataObject) -> None:
    changed = bytearray(data.draw(st.sampled_from([NESTED, UNICODE_1_8])).read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(changed) - 1))
        changed[at] = data.draw(st.integers(0, 255))
    try:
        archive.open(bytes(changed)).close()
    except ArchiveError:
        with pytest.raises(ArchiveError):
            archive.sizes(bytes(changed))
    else:
        assert adds_up(archive.sizes(bytes(changed)), len(changed))


def test_debug_info_is_what_inspection_says() -> None:
    with archive.open(NESTED) as opened:
        assert archive.sizes(opened).debug_bytes == inspect(opened).debug_bytes
        assert len(opened.records) > 0  # still open


def test_an_opened_archive_is_accounted_by_its_own_file(tmp_path: Path) -> None:
    embedded, small, aside = tmp_path / "embedded.ptl", tmp_path / "small.ptl", tmp_path / "aside.ptdbg"
    archive.shrink(NESTED, embedded, level="embed")
    archive.split(NESTED, small, aside)
    for path, companion in ((embedded, None), (small, aside), (aside, None)):
        with archive.open(path, companion=companion) as opened:
            account = archive.sizes(opened)
        assert adds_up(account, path.stat().st_size)
        assert account.pieces == archive.sizes(path).pieces
        assert account.debug_bytes == archive.sizes(path).debug_bytes


@pytest.mark.parametrize(
    "name",
    ["exported/shop.pt2", "exported/legacy/shop.pt2", "compiled/sources.pt2", "executorch/shop.etrecord"],
)
def test_debug_info_of_programs_is_what_a_row_says(name: str) -> None:
    path = FIXTURES / name
    assert inventoried(path).debug_bytes == archive.sizes(path).debug_bytes > 0


def test_a_companion_is_debug_info_as_a_whole() -> None:
    companion = FIXTURES / "fleet" / "Ranker.ptdbg"
    assert archive.sizes(companion).debug_bytes == companion.stat().st_size
    assert inventoried(companion).debug_bytes == companion.stat().st_size


def test_a_broken_zip_is_refused() -> None:
    with pytest.raises(ArchiveError):
        archive.sizes(NESTED.read_bytes()[:-30])
    with pytest.raises(LimitError):
        archive.sizes(NESTED, limits=Limits(memory=3_000))


# --- labels, with other programs as oracles


@pytest.mark.parametrize("path", ARCHIVES[::7], ids=lambda path: f"{path.parent.name}/{path.name}")
def test_the_zip_is_labelled_as_zipfile_reads_it(path: Path) -> None:
    expected: Counter[str] = Counter()
    data = path.read_bytes()
    with zipfile.ZipFile(path) as reference:
        for info in reference.infolist():
            name_length, extra_length = struct.unpack_from("<2H", data, info.header_offset + 26)
            behind = info.header_offset + 30 + name_length
            pad = 4 + data[behind + 2] if data[behind : behind + 2] == b"FB" else 0
            assert pad == extra_length
            expected["padding"] += pad
            expected["local headers"] += 30 + name_length
            expected["descriptors"] += 16 if info.flag_bits & 8 else 0
            expected[kind_of(info.filename.partition("/")[2])] += info.compress_size
        expected["directory"] += len(data) - reference.start_dir
    assert stored(archive.sizes(path, inside=False), "kind") == dict(expected)


@pytest.mark.parametrize(
    ("extra", "padding"),
    [(b"UT\2\0ab", 0), (b"UT\2\0abFB\4\0....", 8), (b"FB\0\0UT\2\0ab", 4), (b"UT\2\0abFB", 0)],
)
def test_padding_is_told_from_other_extra_fields(extra: bytes, padding: int) -> None:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as target:
        info = zipfile.ZipInfo("m/version")
        info.extra = extra
        target.writestr(info, b"3\n")
    found = stored(archive.sizes(out.getvalue(), inside=False), "kind")
    assert found.get("padding", 0) == padding
    assert found["local headers"] == 30 + len("m/version") + len(extra) - padding


def test_a_small_archive_counted_by_hand() -> None:
    """Of 341 bytes of source ranges, 156 are text, 128 rows, 57 overhead; they are deflated to 249."""
    account = archive.sizes(UNICODE_1_8)
    assert account.by("kind") == {
        "directory": Size(454),
        "local headers": Size(46 + 62 + 72 + 51 + 45),
        "source ranges": Size(249, 341),
        "generated code": Size(210, 329),
        "padding": Size(18 + 29 + 22 + 4 + 63),
        "module tree": Size(85, 85),
        "descriptors": Size(5 * 16),
        "constants": Size(4, 4),
        "archive format": Size(2, 2),
    }
    parts = account.by("part")
    assert parts["text"] == Size(114, 142 + 14)  # 113.9, and the second most of the two bytes left
    assert parts["rows"] == Size(93, 11 + 11 + 3 * 8 + 9 * 9 + 1)  # 93.5
    assert parts["pickle overhead"] == Size(42, 57)  # 41.6
    sources = account.by("source")
    assert sources["/src/models.py"] == Size(114 + 59 + 24, 156 + 81 + 32)
    assert sources["(none)"] == Size(33 + 14, 46 + 19)
    assert sources["[source ranges]"] == Size(1 + 4, 1 + 6)  # PROTO, MARK, TUPLE, BINPUT, STOP
    assert account.by("record")["constants.pkl"] == Size(4 + 51 + 4 + 16 + 67, 4)
    assert account.by("module")["__torch__.models"] == Size(
        210 + 249 + 62 + 72 + 29 + 22 + 32 + 78 + 88, 329 + 341
    )


# --- gaps


def test_prefix_comment_and_holes_are_gaps() -> None:
    out = io.BytesIO(b"prefix")
    out.seek(6)
    with zipfile.ZipFile(out, "a") as made:
        made.writestr("m/version", b"3\n")
        made.fp.write(b"hole")  # type: ignore[union-attr]
        made.start_dir += 4
        made.comment = b"a comment"
    assert stored(archive.sizes(out.getvalue()), "kind") == {
        "directory": 46 + len("m/version") + 22,
        "local headers": 30 + len("m/version"),
        "gaps": len("prefix") + len("hole") + len("a comment"),
        "other": 2,
    }


def test_folders_have_headers_but_no_record() -> None:
    account = archive.sizes(zipped(**{"m/": b"", "m/data/": b"", "m/version": b"3\n"}))
    headers = 30 * 3 + len("m/" + "m/data/" + "m/version")
    assert stored(account, "kind")["local headers"] == headers
    assert stored(account, "record")["[local headers]"] == 30 * 2 + len("m/" + "m/data/")
    assert "gaps" not in account.by("kind")


# --- records and modules


def test_headers_padding_and_directory_entry_go_with_their_record() -> None:
    data = zipped(**{"m/data/0": b"x" * 100, "m/version": b"3\n"})
    assert stored(archive.sizes(data), "record") == {
        "data/0": 100 + 30 + 46 + 2 * len("m/data/0"),
        "version": 2 + 30 + 46 + 2 * len("m/version"),
        "[directory]": 22,
    }


def test_code_and_its_source_ranges_are_one_module() -> None:
    records, modules = (stored(archive.sizes(STACK), view) for view in ("record", "module"))
    assert modules["__torch__.plain"] == records[PLAIN] + records[PLAIN + ".debug_pkl"]
    assert modules["[tensor]"] > 0
    records, modules = (stored(archive.sizes(NESTED_1_2), view) for view in ("record", "module"))
    assert modules["nested"] == records["code/nested.py"] + records["debug/nested.pkl"]


def test_modules_are_rolled_up_to_a_depth() -> None:
    account = archive.sizes(STACK)
    full, rolled = account.by("module"), account.by("module", depth=2)
    inner = [size.stored for label, size in full.items() if label.startswith("__torch__.torch.")]
    assert len(inner) > 1
    assert rolled["__torch__.torch.*"].stored == sum(inner)
    assert rolled["__torch__.plain"] == full["__torch__.plain"]
    assert account.by("kind", depth=1) == account.by("kind")


def test_absolute_paths_are_rolled_up_from_their_first_folder() -> None:
    labels = archive.sizes(ORACLES / "traced_stack.ptl").by("source", depth=2)
    assert "/opt/py/*" in labels


def test_names_that_are_not_utf8_stay_apart_from_what_they_look_like() -> None:
    data = bytearray(zipped(**{"m/extra/?": b"1", "m/version": b"3\n"}))
    account = archive.sizes(bytes(data).replace(b"m/extra/?", b"m/extra/\xff"))
    assert "extra/\\xff" in account.by("record")


# --- differences


def test_the_difference_of_two_files_marks_new_and_gone_labels() -> None:
    old = archive.sizes(zipped(**{"m/data/0": b"x" * 100, "m/extra/a": b"12", "m/version": b"3\n"}))
    new = archive.sizes(zipped(**{"m/data/0": b"x" * 70, "m/extra/b": b"1", "m/version": b"3\n"}))
    changes = new.difference(old, "record")
    assert list(changes.items()) == [
        ("extra/a", SizeChange(2 + 94, None)),
        ("extra/b", SizeChange(None, 1 + 94)),
        ("data/0", SizeChange(192, 162)),
        ("[directory]", SizeChange(22, 22)),
        ("version", SizeChange(96, 96)),
    ]
    assert [change.difference for change in changes.values()] == [-96, 95, -30, 0, 0]
    assert sum(change.difference for change in changes.values()) == new.size - old.size


def test_there_is_no_other_view() -> None:
    with pytest.raises(ValueError, match="colour"):
        archive.sizes(NESTED).by("colour")
    assert RecordKind.RANGES in archive.sizes(NESTED).by(View.KIND)
