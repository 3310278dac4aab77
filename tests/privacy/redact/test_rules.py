"""What becomes of paths."""

from __future__ import annotations

import pytest

from archive import ArchiveError
from archive.privacy.redact.removed import MOST_FOLDERS, Removed
from archive.privacy.redact.rules import PathChoice, Rules

HOME = [b"/srv/ann/dev/net/model.py", b"/srv/ann/dev/net/parts/block.py"]
LIBRARIES = [b"/srv/ann/v/lib/python3.11/site-packages/torch/nn.py", b"/usr/lib/python3.11/contextlib.py"]
WINDOWS = [b"C:\\Users\\me\\net\\model.py", b"C:\\Users\\me\\net\\parts\\block.py"]


def renamed(paths: list[bytes], *maps: str, choice: PathChoice = "keep") -> list[bytes]:
    found = Rules.of(maps, paths=choice, source="none").renamed(paths)
    return [found[path] for path in paths]


def test_the_longest_map_counts_and_maps_come_before_other_rules() -> None:
    maps = ("/srv/ann=~", "/srv/ann/dev/net=src")
    assert renamed(HOME, *maps) == [b"src/model.py", b"src/parts/block.py"]
    assert renamed([*HOME, b"/opt/x.py"], *maps, choice="none")[2:] == [b"?"]


def test_relative_paths_begin_at_a_library_or_at_the_folder_of_all_others() -> None:
    wanted = [b"model.py", b"parts/block.py", b"torch/nn.py", b"contextlib.py"]
    assert renamed([*HOME, *LIBRARIES], choice="relative") == wanted
    assert renamed(WINDOWS, choice="relative") == [b"model.py", b"parts/block.py"]


@pytest.mark.parametrize(
    ("paths", "wanted"),
    [
        ([b"/srv/ann/a.py", b"/opt/them/b.py"], [b"a.py", b"b.py"]),  # nothing in common
        ([b"/srv/ann/a.py", b"/srv/bob/b.py"], [b"a.py", b"b.py"]),
        ([b"../../srv/ann/a.py", b"~/net/b.py"], [b"a.py", b"b.py"]),
        ([b"./net/../../ann/a.py", b"net\\..\\..\\ann\\b.py"], [b"a.py", b"b.py"]),
        ([b"/srv/net/a.py", b"/srv/net/../../home/ann/b.py"], [b"a.py", b"b.py"]),
        ([b"/v/site-packages/../../ann/a.py", b"/v/../site-packages/net/b.py"], [b"a.py", b"net/b.py"]),
        ([b"file:/srv/ann/a.py", b"zip+x:/srv/ann/b.zip/b.py"], [b"a.py", b"b.py"]),
        ([b"net/a.py", b"<eval_with_key>.0", b""], [b"net/a.py", b"<eval_with_key>.0", b""]),
    ],
)
def test_relative_paths_tell_no_home(paths: list[bytes], wanted: list[bytes]) -> None:
    assert renamed(paths, choice="relative") == wanted


@pytest.mark.parametrize(
    ("paths", "wanted"),
    [
        (
            [b"/home/ann/dev/net/a.py", b"/home/ann/dev/net/parts/b.py", b"/home/bob/c.py", b"/srv/x/y/d.py"],
            [b"a.py", b"parts/b.py", b"c.py", b"d.py"],
        ),
        ([b"/data/home/ann/a.py", b"/data/home/bob/net/b.py"], [b"a.py", b"b.py"]),
        ([b"C:\\Users\\ann\\a.py", b"C:\\Users\\bob\\net\\b.py"], [b"a.py", b"b.py"]),
        (
            [b"/home/ann/a.py", b"/srv/nets/ann/b.py", b"/srv/nets/them/c.py"],
            [b"a.py", b"b.py", b"them/c.py"],
        ),
        ([b"/root/net/a.py", b"/root/net/parts/b.py"], [b"a.py", b"parts/b.py"]),
    ],
)
def test_relative_paths_name_no_person(paths: list[bytes], wanted: list[bytes]) -> None:
    assert renamed(paths, choice="relative") == wanted


def test_basenames_are_those_of_either_system() -> None:
    assert renamed([HOME[0], WINDOWS[1], b"a.py"], choice="basename") == [b"model.py", b"block.py", b"a.py"]


def test_folders_are_those_from_the_user_on() -> None:
    removed = Removed({HOME[0], WINDOWS[0], b"net/a.py"})
    wanted = {b"/srv/ann", b"/srv/ann/dev", b"/srv/ann/dev/net", b"C:\\Users", b"C:\\Users\\me"}
    assert removed.folders == wanted | {b"C:\\Users\\me\\net"}


def test_folders_of_a_deep_path_are_its_outer_ones() -> None:
    deep = b"/a" * 100_000
    assert Removed({deep + b"/m.py"}).folders == {b"/a" * parts for parts in range(2, MOST_FOLDERS)}


@pytest.mark.parametrize("maps", [("/srv/ann",), ("=x",), ()])
def test_options_that_say_nothing_are_refused(maps: tuple[str, ...]) -> None:
    with pytest.raises(ArchiveError, match=r"expected a map OLD=NEW|nothing to redact"):
        Rules.of(maps)
