"""Companions as each version wrote them: read to the facts of the archives they were made from, for ever."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

import archive
from archive.check.verify import verify
from archive.companion.codecs import columns_of_programs, texts_of_programs
from archive.companion.layout import VERSION, CompanionProfile
from archive.formats.record_kinds import kind_of
from tests.support.corpus import FIXTURES
from tests.support.halves import halves, joined
from tests.support.plain import plain_handles, plain_methods, plain_ranges
from tests.support.sampling import sampled
from tools.make_companions import ARCHIVES, frozen_name, source, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from zstandard import ZstdCompressionDict

    from archive.formats.exported.program import Program

COMPANIONS = FIXTURES / "companions"
FIRST = COMPANIONS / "v2"
"""The first version that was released. A new one needs a folder of its own (``tools.make_companions``)."""
CASES = [(name, profile) for name in ARCHIVES for profile in CompanionProfile]


def test_companions_of_every_version_are_frozen() -> None:
    assert [path.name for path in COMPANIONS.iterdir()] == [f"v{VERSION}"]
    assert {path.name for path in FIRST.iterdir()} == {frozen_name(*case) for case in CASES}


@pytest.mark.parametrize(("name", "profile"), CASES)
def test_a_frozen_companion_answers_like_the_archive_it_was_made_from(
    name: str, profile: CompanionProfile
) -> None:
    assert_answers(FIRST / frozen_name(name, profile), source(name))


def assert_answers(companion: Path, data: bytes) -> None:
    with archive.open(data) as before, archive.open(companion) as after:
        assert after.companion is not None
        assert {name: bytes(record.view()) for name, record in after.records.items()} == {
            name: bytes(record.view())
            for name, record in before.records.items()
            if kind_of(name).is_debug or name in before.spare.records
        }
        assert after.kernels == before.kernels
        for number in range(len(before.range_table.names)):
            assert plain_ranges(after.range_table, number) == plain_ranges(before.range_table, number)
        if before.handle_table is not None:
            assert after.handle_table is not None
            assert plain_handles(after.handle_table) == plain_handles(before.handle_table)
        for ours, theirs, texts in (
            (after.method_table, before.method_table, False),
            (after.path_table, before.path_table, True),
        ):
            if ours is None or theirs is None:
                assert ours is theirs
            else:
                assert plain_methods(ours, texts=texts) == plain_methods(theirs, texts=texts)
        assert (after.top, after.qualified_top) == (before.top, before.qualified_top)
        assert {name: plain_program(one) for name, one in after.programs.items()} == {
            name: plain_program(one) for name, one in before.programs.items()
        }
        for handle in [*list(before.handles)[::5], 123_456]:
            assert bytes(after.symbolicate(handle)) == bytes(before.symbolicate(handle))
    assert verify(companion) == []


def plain_program(program: Program) -> dict[str, tuple[str, dict[str, str]]]:
    """What a companion alone knows of a program."""
    return {key: (site.target, dict(site.metadata)) for key, site in program.sites.items()}


@pytest.mark.parametrize(("name", "profile"), sampled(CASES, most=9))
def test_what_is_split_today_is_joined_with_a_frozen_companion(name: str, profile: CompanionProfile) -> None:
    data = source(name)
    companion = (FIRST / frozen_name(name, profile)).read_bytes()
    assert joined(halves(data).out, companion) == (data, True)


def test_what_would_be_frozen_today_answers_like_its_archive(tmp_path: Path) -> None:
    made = write(tmp_path / "v")
    for path, (name, _) in sampled(zip(made, CASES, strict=True), most=9):
        assert_answers(path, source(name))


@pytest.mark.parametrize(
    ("trained", "digest"),
    [
        (texts_of_programs, "1a57abdc7feeec2256e552b22e46d2db7aef7b47e29b4f7834021912b510248a"),
        (columns_of_programs, "25fce7c8b1d95508af89afa17cb05c6df969dd601b7d918c71606e6846ca49c6"),
    ],
)
def test_the_dictionaries_are_those_of_version_2(
    trained: Callable[[], ZstdCompressionDict], digest: str
) -> None:
    words = trained().as_bytes()
    assert len(words) == 1 << 14
    assert hashlib.sha256(words).hexdigest() == digest
