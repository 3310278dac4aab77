"""Rules: what becomes of paths, of homes as ``leaks`` finds them, and of comments."""

from __future__ import annotations

import io
import lzma
import re

import pytest

import archive
from archive import ArchiveError, LeakKind, leaks
from archive.privacy.leaks.paths import paths
from archive.privacy.redact.removed import MOST_FOLDERS, Removed
from archive.privacy.redact.rules import PathChoice, Rules
from archive.privacy.redact.texts import without_comments
from tests.support.canaries import rewritten, with_records
from tests.support.corpus import FIXTURES, ORACLES
from tests.support.exported import EXPORTED

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


# --- What `leaks` calls a home is one to `redact`: no relative path has the name of a person


FOLDERS = (
    *("/home/{}/", "/home2/{}/", "/Users/{}/", "/data/home/{}/", "/gpfs/users/{}/", "/lustre/users/{}/"),
    *("/nfs/home/{}/", "/mnt/c/Users/{}/", "/export/home/{}/", "/scratch/users/{}/", "/cluster/home/{}/"),
    *("/storage/site/homes/{}/", "/srv/users/{}/", "/afs/cern.ch/user/a/{}/", "/home/a/{}/"),
    *("C:\\Users\\{}\\", "D:\\Documents and Settings\\{}\\", "\\\\files01\\home\\{}\\"),
)
"""Where homes are; the name of a person stands in them."""


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_home_is_one_to_all(folder: str) -> None:
    home, slash = folder.format("annabel"), folder[-1]
    data = with_records(ORACLES / "plain_stack.ptl", {"note": f'"{home}p{slash}models.py"'.encode()})
    found = {(one.kind, one.text) for one in leaks(data).findings}
    assert {(LeakKind.HOME, f"{home}p{slash}models.py"), (LeakKind.USER, "annabel")} <= found
    others = [folder.format("bob") + "net/a.py", "/srv/nets/annabel/b.py", "/srv/nets/them/c.py"]
    given = [f"{home}p/models.py", f"{home}p/parts/block.py", *others]
    renamed = Rules.of(paths="relative").renamed([one.encode() for one in given])
    assert not [new for new in renamed.values() if re.search(rb"annabel|bob", new)]


@pytest.mark.parametrize(
    "code",
    [
        b"\0/\xff\xffH\x8b\x05/\x1f\x8d\xb5/H\x89/\xe8\xd8.so\0",
        b"\0/opt/\xff\xffH\x8bE\xf0/x\0",
        b"/tmp/\xc0H\x8d/a.so",
        b"/home/\x90\x90\xff/a.so",
    ],
)
def test_a_path_holds_text(code: bytes) -> None:
    assert list(paths(code)) == []


def test_a_path_of_any_script_is_one() -> None:
    assert [one.text.decode() for one in paths("/home/zoë/内部/m.py\0".encode())] == [
        "/home/zoë/内部/m.py",
        "zoë",
    ]


def test_compiled_packages_have_no_paths_in_their_code() -> None:
    for path in sorted((FIXTURES / "compiled").glob("*.xz")):
        found = leaks(lzma.decompress(path.read_bytes())).findings
        assert not [str(one) for one in found for place in one.places if ".text" in place.within]


# --- Comments of lines that stay become blanks; a # in a text is none


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"x = 1  # why", b"x = 1       "),
        (b"# all", b"     "),
        (b'x = "a # b" + y', b'x = "a # b" + y'),
        (b"x = '#' '\\'#' # c", b"x = '#' '\\'#'    "),
        (b'"""doc\n# in it"""  # out', b'"""doc\n# in it"""       '),
        (b"'''open\n# in it", b"'''open\n# in it"),
        (b"it's # text\ny  # out", b"it's # text\ny       "),
        (b"", b""),
    ],
)
def test_comments_become_blanks(before: bytes, after: bytes) -> None:
    assert without_comments(before.split(b"\n")) == after.split(b"\n")


@pytest.mark.parametrize("pieces", [b'"""\\', b"'", b'"\\', b"# a\n", b"'''x\n", b'""'], ids=repr)
def test_many_quotes_take_time_in_proportion(pieces: bytes) -> None:
    lines = (pieces * 200_000).split(b"\n")
    assert list(map(len, without_comments(lines))) == list(map(len, lines))


def test_a_stack_trace_keeps_code_without_its_comment() -> None:
    line, text = b"return self.norm(self.smooth(self.rows(ids)))", b"return self.rows(ids)  # of ann's shop"
    before = (EXPORTED / "shop.pt2").read_bytes()
    changed = rewritten(before, lambda _, data: data.replace(line, text))
    assert b"ann's" in _program(changed)
    out = io.BytesIO()
    facts = archive.redact(changed, out, io.BytesIO(), text="lines")
    assert (facts.is_clean, facts.sought["line"]) == (True, 1)
    assert b"return self.rows(ids)" in _program(out.getvalue())
    assert b"ann's" not in _program(out.getvalue())


def _program(data: bytes) -> bytes:
    with archive.open(data) as opened:
        return bytes(opened.records["models/model.json"].view())
