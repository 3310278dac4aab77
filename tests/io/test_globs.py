"""Globs find what Python's own do, in steps that their parts and the folders bound."""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from glob import glob
from itertools import product
from pathlib import PurePath
from typing import TYPE_CHECKING
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archive import ArchiveError
from archive.io import globs
from archive.io.globs import LONGEST, MOST_CHARACTERS, MOST_GLOBS, Globs, check_amount, wild

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ("a", "b", "ab", ".a", "[a]")
PARTS = st.sampled_from(["**", "*", "a", "b", "?", "a*", "*b", "[ab]", "[!a]", ".*", "[[]a]", "**"])


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders three deep, each with files of all names."""
    top = tmp_path_factory.mktemp("tree")
    for parents in product(("a", "b", ".a"), repeat=2):
        folder = top.joinpath(*parents)
        folder.mkdir(parents=True)
        for name in NAMES:
            (folder / f"{name}.pt").touch()
    return top


def globbed(top: Path, pattern: str) -> set[str]:
    found = glob(pattern, root_dir=top, recursive=True)  # noqa: PTH207 (what is compared with)
    return {os.path.normpath(one) for one in found}


def below(top: Path, parts: list[str], *, as_shell: bool) -> list[str]:
    found = [os.path.relpath(path, top) for path, _ in Globs([parts], as_shell=as_shell).found(top)]
    assert len(found) == len(set(found))
    return sorted(found)


@given(st.lists(PARTS, min_size=1, max_size=5))
def test_globs_find_what_python_finds(tree: Path, parts: list[str]) -> None:
    expected = globbed(tree, "/".join(parts))
    if set(parts) == {"**"}:
        expected.add(".")
    assert set(below(tree, parts, as_shell=True)) == expected


@given(st.lists(st.lists(PARTS, min_size=1, max_size=5), max_size=4))
def test_a_path_fits_the_globs_that_find_it(tree: Path, wanted: list[list[str]]) -> None:
    together = Globs(wanted)
    found = {path: numbers for path, numbers in together.found(tree) if path != str(tree)}
    for path, numbers in found.items():
        parts = PurePath(os.path.relpath(path, tree)).parts
        assert together.fitting(parts) == numbers
        assert numbers == {number for number, one in enumerate(wanted) if Globs([one]).fitting(parts)}


def steps_of(wanted: list[list[str]], path: list[str]) -> int:
    """How often a part is compared with a name."""
    place = globs._Place
    with mock.patch.object(place, "fits", autospec=True, side_effect=place.fits) as fits:
        Globs(wanted).fitting(path)
    return fits.call_count


@pytest.mark.parametrize("inner", [["**"], ["**", "*"], ["**", "a*"], ["**", "a*", "**"]])
def test_steps_are_no_more_than_parts_times_names(inner: list[str]) -> None:
    """A search that goes back takes 10^9 steps for 12 times ``**`` and 30 folders."""
    path = ["ab"] * 60
    assert steps_of([[*inner * 30, "none*"]], path) <= len([*inner * 30, "none*"]) * len(path)


def test_each_folder_is_listed_once_however_many_globs_there_are(tree: Path) -> None:
    wanted = [["**"] * times + [f"none{number}*"] for times in range(1, 30) for number in range(10)]
    with mock.patch("os.listdir", side_effect=os.listdir) as listed:
        assert list(Globs(wanted).found(tree)) == []
    assert listed.call_count == len({call.args[0] for call in listed.call_args_list})


def test_globs_without_patterns_list_no_folder(tree: Path) -> None:
    with mock.patch("os.listdir") as listed:
        assert below(tree, ["a", "b", "a.pt"], as_shell=False) == ["a/b/a.pt"]
    assert not listed.called


def test_a_folder_above_is_searched_once(tree: Path) -> None:
    """From each folder ``..`` leads there; with Python's globs, 12 folders would be 12^12 ways."""
    parts = ["**", ".a", "..", "**", ".a", "..", "**", "[[]a].pt"]
    expected = globbed(tree, "**/.a/../**/[[]a].pt")
    with mock.patch("os.listdir", side_effect=os.listdir) as listed:
        found = {os.path.relpath(path, tree) for path, _ in Globs([parts], as_shell=True).found(tree)}
    assert found == expected
    assert listed.call_count < 4 * len(parts) * 12


def test_links_that_lead_in_circles_end(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.pt").touch()
    for name in ("one", "other"):
        (tmp_path / "a" / name).symlink_to(tmp_path)
    for as_shell in (True, False):
        assert below(tmp_path, ["**", "*.pt"], as_shell=as_shell) == ["a/x.pt"]
    assert len(below(tmp_path, ["a", "*", "a", "*.pt"], as_shell=True)) == 2
    assert below(tmp_path, ["a", "*", "a", "*.pt"], as_shell=False) == []


@pytest.mark.parametrize(
    "wanted",
    [["a"] * (MOST_GLOBS + 1), ["a" * (LONGEST + 1)], ["a" * LONGEST] * (MOST_CHARACTERS // LONGEST + 1)],
    ids=["many", "long", "much"],
)
def test_too_many_or_long_globs_are_refused(wanted: list[str]) -> None:
    check_amount(["a" * (MOST_CHARACTERS // MOST_GLOBS)] * MOST_GLOBS, "here")
    with pytest.raises(ArchiveError, match="here: expected at most 1"):
        check_amount(wanted, "here")


@given(st.text("ab[]!*?-\n", max_size=8), st.text("ab[]!-\n", max_size=5))
def test_a_pattern_fits_what_fnmatch_says(pattern: str, text: str) -> None:
    assert (wild(pattern).match(text) is not None) == fnmatchcase(text, pattern)
