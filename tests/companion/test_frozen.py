"""Companions as each version wrote them: read to the facts of the archives they were made from, for ever."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

import archive
from archive.check.verify import verify
from archive.companion.codecs import Codec, dictionary
from archive.companion.layout import OLDEST, VERSION, read_directory
from archive.formats.record_kinds import kind_of
from tests.support.halves import halves, joined
from tests.support.plain import plain_handles, plain_methods, plain_ranges
from tests.support.sampling import sampled
from tools.make_companions import CASES, FOLDER, frozen_name, source, write

if TYPE_CHECKING:
    from pathlib import Path

    from archive.formats.exported.program import Program

FROZEN = {
    FOLDER / f"v{version}" / frozen_name(*case): case[0] for version, cases in CASES.items() for case in cases
}
"""The archive of each frozen companion. A new version needs a folder of its own."""


def test_companions_of_every_version_are_frozen() -> None:
    assert [*CASES] == [*range(OLDEST, VERSION + 1)]
    assert {path for path in FOLDER.rglob("*") if path.is_file()} == FROZEN.keys()
    for path in FROZEN:
        directory = read_directory(memoryview(path.read_bytes()))
        assert path.parent.name == f"v{directory.version}"


@pytest.mark.parametrize("path", FROZEN, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_frozen_companion_answers_like_the_archive_it_was_made_from(path: Path) -> None:
    assert_answers(path, source(FROZEN[path]))


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


@pytest.mark.parametrize("path", sampled(FROZEN, most=9), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_what_is_split_today_is_joined_with_a_frozen_companion(path: Path) -> None:
    data = source(FROZEN[path])
    assert joined(halves(data).out, path.read_bytes()) == (data, True)


def test_what_would_be_frozen_today_answers_like_its_archive(tmp_path: Path) -> None:
    made = [path for version in CASES for path in write(tmp_path / f"v{version}", version)]
    for path, name in sampled(zip(made, FROZEN.values(), strict=True), most=9):
        assert_answers(path, source(name))


@pytest.mark.parametrize(
    ("codec", "digest"),
    [
        (Codec.TEXTS, "1a57abdc7feeec2256e552b22e46d2db7aef7b47e29b4f7834021912b510248a"),
        (Codec.SOURCES, "71d2780e122de02dcf40c7f2f550d7918fffd558ee26b1a6701cd807d5df9a9c"),
        (Codec.COLUMNS, "25fce7c8b1d95508af89afa17cb05c6df969dd601b7d918c71606e6846ca49c6"),
    ],
)
def test_the_dictionaries_are_those_of_all_versions(codec: Codec, digest: str) -> None:
    words = dictionary(codec).as_bytes()
    assert hashlib.sha256(words).hexdigest() == digest
