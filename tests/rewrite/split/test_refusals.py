"""What cannot be split or joined is refused, and nothing is written."""

from __future__ import annotations

import io
import zipfile
from functools import cache
from itertools import permutations
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import archive
from archive import ArchiveError, LimitError, Limits
from archive.companion.layout import CompanionLayout
from archive.container.write import member_from
from archive.formats.archive_id import counts
from archive.formats.record_kinds import EMBEDDED
from archive.rewrite.join import join
from archive.rewrite.split import split
from tests.support.commands import run
from tests.support.corpus import HANDLES, RELEASES
from tests.support.halves import companion_of, halves, rezipped
from tests.support.sampling import crossed, examples
from tests.support.tampering import STACK, UNICODE, packed, tampered

if TYPE_CHECKING:
    from pathlib import Path

    from archive.reader.halves.kept import HandleChoice

NESTED = RELEASES / "torch-2.13.0" / "nested.ptl"
ID = ".data/serialization_id"


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "joined.ptl"


def refused(out: object, companion: object, target: Path) -> ArchiveError:
    """The error of a join, of which nothing is left."""
    with pytest.raises(ArchiveError) as caught:
        join(out, companion, target)  # type: ignore[arg-type]
    assert list(target.parent.iterdir()) == []
    return caught.value


# --- join


def test_the_companion_of_another_model_is_refused(target: Path) -> None:
    out, other = halves(STACK).out, halves(UNICODE)
    error = refused(out, other.companion, target)
    assert "is the companion of another model" in str(error)
    assert (error.expected, error.found) == (
        f"archive id {other.said.archive_id}",
        halves(STACK).said.archive_id,
    )
    with pytest.raises(ArchiveError, match="is the companion of another model"):
        archive.open(out, companion=other.companion)


def test_one_changed_byte_makes_another_model(target: Path) -> None:
    out = tampered(STACK, {"data/0": lambda data: b"\1" + data[1:]})
    assert "another model" in str(refused(out, halves(STACK).companion, target))


def test_archive_and_companion_are_not_taken_for_one_another(target: Path) -> None:
    out, companion, _ = halves(STACK)
    refused(companion, out, target)
    refused(companion, companion, target)
    refused(out, out, target)
    with pytest.raises(ArchiveError):
        archive.open(companion, companion=companion)


def test_what_is_neither_is_refused(target: Path) -> None:
    out, companion, _ = halves(STACK)
    for other in (b"", b"other bytes", bytes(1000)):
        refused(out, other, target)
        refused(other, companion, target)


def test_a_model_with_one_record_less_or_more_is_refused(target: Path) -> None:
    with archive.open(STACK) as opened:
        names = [name for name in opened.records if counts(name)]
    companion = halves(STACK).companion
    for name in names:
        assert "another model" in str(refused(tampered(STACK, {name: None}), companion, target))
    for name in ("extra/more", "data/9", "code/more.py"):
        assert "another model" in str(refused(tampered(STACK, {name: b"more"}), companion, target))
    assert len(names) > 10


def test_a_join_makes_good_what_another_tool_did_to_the_model(target: Path) -> None:
    out, companion, _ = halves(NESTED)
    for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        assert join(rezipped(out, compression), companion, target, force=True).exact
        assert target.read_bytes() == NESTED.read_bytes()
    bare = tampered(out, {HANDLES: None}, renewed=False)
    assert join(bare, companion, target, force=True).exact
    assert target.read_bytes() == NESTED.read_bytes()


def test_the_serialization_id_of_what_is_left_makes_no_difference(target: Path) -> None:
    old = RELEASES / "torch-1.9.0" / "nested.ptl"  # which has none
    for path, ids in ((NESTED, [None, b"9" * 40, b""]), (old, [b"0" * 40])):
        for one in ids:
            out = tampered(halves(path).out, {ID: one}, renewed=False)
            assert join(out, halves(path).companion, target, force=True).exact
            assert target.read_bytes() == path.read_bytes()


def test_a_serialization_id_that_is_not_pytorchs_comes_back(target: Path) -> None:
    for other in (b"9" * 40, b"made up"):
        source = tampered(NESTED, {ID: other})
        assert join(*halves(source)[:2], target, force=True).exact
        assert target.read_bytes() == source


def test_another_root_is_another_file_of_the_same_model(target: Path) -> None:
    out, companion, _ = halves(NESTED)
    with archive.open(out) as opened:
        renamed = packed(map(member_from, opened.container.records.values()), "other")
    assert not join(renamed, companion, target).exact
    with archive.open(target) as joined, archive.open(NESTED) as before:
        assert list(joined.records) == list(before.records)


TWINS = [RELEASES / name for name in (
    "torch-1.10.0/nested.ptl", "torch-1.10.0/nested-nodebug.ptl", "torch-1.11.0/nested.ptl",
    "torch-2.1.0/nested.ptl", "torch-2.4.1/nested-nostringtable.ptl", "torch-2.13.0/nested.ptl",
    "torch-2.13.0/traced.ptl", "torch-2.13.0/traced-nostringtable.ptl",
)]  # fmt: skip
"""Files of three models; those of one have one archive id, and other handles or ranges."""


@settings(max_examples=examples(40))
@given(
    st.sampled_from(list(permutations(TWINS, 2))),
    st.tuples(*[st.sampled_from([None, "unique", "keep", "drop"])] * 2),
)
def test_only_the_companion_that_was_split_from_it_makes_an_archive_the_original(
    pair: tuple[Path, Path], choices: tuple[HandleChoice | None, HandleChoice | None]
) -> None:
    """Of one model are the files of several saves; what a join made of two of them was told well before."""
    (left, _), (other, companion) = (parts(path, how) for path, how in zip(pair, choices, strict=True))
    joined = io.BytesIO()
    try:
        said = join(left, companion, joined)
    except ArchiveError as error:
        assert ("another model" in str(error)) or ("another file of this model" in str(error))  # noqa: PT017
        return
    original = joined.getvalue() == pair[1].read_bytes()
    assert (said.exact, said.is_clean) == (original, original)
    if original and "drop" not in choices and choices[0] == choices[1]:
        assert left == other


@pytest.mark.parametrize(("path", "handles"), crossed(TWINS[:3] + TWINS[5:], ["unique", "keep", "drop"]))
def test_an_archive_that_was_not_split_is_joined_with_its_own_companion(
    path: Path, handles: HandleChoice
) -> None:
    joined = io.BytesIO()
    assert join(path, parts(path, handles)[1], joined).exact
    assert joined.getvalue() == path.read_bytes()


@cache
def parts(path: Path, handles: HandleChoice | None) -> tuple[bytes, bytes]:
    """What is left of an archive, and its companion, with such handles if it has some."""
    out, companion = io.BytesIO(), io.BytesIO()
    with archive.open(path) as opened:
        has_handles = HANDLES in opened.records
    split(path, out, companion, handles=handles if has_handles else None)
    return out.getvalue(), companion.getvalue()


def test_a_join_that_gives_another_file_is_a_finding(tmp_path: Path) -> None:
    left, _ = parts(RELEASES / "torch-1.10.0" / "nested.pt", None)
    _, companion = parts(RELEASES / "torch-1.12.0" / "nested-nostringtable.pt", None)
    (tmp_path / "left.pt").write_bytes(left)
    (tmp_path / "m.ptdbg").write_bytes(companion)
    done = run("join", tmp_path / "left.pt", "-c", tmp_path / "m.ptdbg", "-o", tmp_path / "out.pt")
    assert done.returncode == 1
    assert b"is not the original file" in done.stdout


# --- split


def test_a_companion_is_not_split(tmp_path: Path) -> None:
    for layout in CompanionLayout:
        with pytest.raises(ArchiveError):
            split(companion_of(STACK, layout), tmp_path / "out.ptl", tmp_path / "m.ptdbg")
    assert list(tmp_path.iterdir()) == []


def test_an_archive_with_an_embedded_companion_is_not_split(tmp_path: Path) -> None:
    out, companion, _ = halves(STACK)
    embedded = tampered(out, {EMBEDDED: companion})
    with archive.open(embedded) as opened, archive.open(STACK) as before:
        assert bytes(opened.symbolicate(1445)) == bytes(before.symbolicate(1445))
    with pytest.raises(ArchiveError, match="embedded companion"):
        split(embedded, tmp_path / "out.ptl", tmp_path / "m.ptdbg")
    with pytest.raises(ArchiveError, match="companion of its own inside"):
        join(embedded, companion, tmp_path / "joined.ptl")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("beside", [(), ("data.pkl",)])
def test_what_only_debug_info_shows_to_be_an_archive_keeps_it(
    beside: tuple[str, ...], tmp_path: Path
) -> None:
    """What was left could not be joined: nothing would show that it is half of an archive."""
    made = io.BytesIO()
    with (
        archive.open(RELEASES / "torch-2.13.0" / "nested.pt") as opened,
        zipfile.ZipFile(made, "w") as zipped,
    ):
        for name, record in opened.records.items():
            place = name if name in beside or name.endswith(".debug_pkl") else f"deeper/{name}"
            zipped.writestr(f"nested/{place}", bytes(record.view()))
    with pytest.raises(ArchiveError, match="nothing shows what it is: "):
        split(made.getvalue(), tmp_path / "out.pt", tmp_path / "m.ptdbg")
    with pytest.raises(ArchiveError, match="nothing shows what it is: "):
        archive.shrink(made.getvalue(), tmp_path / "out.pt", level="embed")
    assert list(tmp_path.iterdir()) == []


def test_archive_and_companion_need_two_names(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match=r"m\.ptl: archive and companion need two names"):
        split(STACK, tmp_path / "m.ptl", tmp_path / "m.ptl")
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_layout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="expected a layout: mapped or packed, found tight"):
        split(STACK, tmp_path / "out.ptl", tmp_path / "m.ptdbg", layout="tight")
    for layout in CompanionLayout:
        named = layout.name.lower()
        split(STACK, tmp_path / "out.ptl", tmp_path / "m.ptdbg", layout=named, force=True)
        assert (tmp_path / "m.ptdbg").read_bytes() == halves(STACK, layout).companion


@pytest.mark.parametrize("level", [-5, 0, 23])
def test_an_unknown_level_is_refused(level: int, tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match=f"expected a level from 1 to 22, found {level}"):
        split(STACK, tmp_path / "out.ptl", tmp_path / "m.ptdbg", level=level)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("there", ["out.ptl", "m.ptdbg", "joined.ptl"])
def test_a_file_that_is_there_stays_unless_told_otherwise(there: str, tmp_path: Path) -> None:
    out, companion, joined = (tmp_path / name for name in ("out.ptl", "m.ptdbg", "joined.ptl"))
    (tmp_path / there).write_bytes(b"kept")
    with pytest.raises(ArchiveError, match=f"{there}: the file exists"):
        join(*halves(STACK)[:2], joined) if there == joined.name else split(STACK, out, companion)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {there: b"kept"}


def test_limits_hold_for_archives_and_companions(tmp_path: Path) -> None:
    tight = Limits(memory=30_000)
    out, companion, _ = halves(STACK)
    with pytest.raises(LimitError):
        split(STACK, tmp_path / "out.ptl", tmp_path / "m.ptdbg", limits=tight)
    with pytest.raises(LimitError):
        join(out, companion, tmp_path / "joined.ptl", limits=tight)
    with pytest.raises(LimitError):
        archive.open(companion, limits=Limits(memory=300))
    with archive.open(out) as opened:
        taken = opened.allowance.taken
    with pytest.raises(LimitError, match="directory: memory is limited to"):
        archive.open(out, companion=companion, limits=Limits(memory=taken + 1))
    assert list(tmp_path.iterdir()) == []


def test_a_source_may_be_in_memory_or_open(tmp_path: Path) -> None:
    expected = halves(STACK)
    target, companion = tmp_path / "out.ptl", tmp_path / "m.ptdbg"
    with STACK.open("rb") as file:
        for source in (STACK.read_bytes(), file, str(STACK)):
            said = split(source, target, companion, force=True)
            assert (target.read_bytes(), companion.read_bytes(), said) == expected
