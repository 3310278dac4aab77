"""Whatever becomes of a store's files: no command makes a companion unreadable, or touches anything else.

A store is drawn, then damage, then commands. What could be read before can be read after, to the byte, unless
it was removed or replaced by its name; nothing outside is changed; what cannot be read is told, and counts.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from archive.base.errors import ArchiveError
from archive.store.adding import EPOCH
from archive.store.store import Store
from tests.support.commands import run
from tests.support.kin import LEAST_PREFIX, id_of, kin
from tests.support.sampling import examples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

NUMBERS = range(7)
Readable = dict[str, bytes]


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Stores to be copied, companions to be added, and files of somebody else."""
    folder = tmp_path_factory.mktemp("stores")
    with mock.patch.dict(os.environ, {EPOCH: "1760000000"}):
        with Store.open(folder / "chain", create=True) as chain:
            for number in range(4):
                chain.add(kin(number))
        with Store.open(folder / "bases", create=True) as bases:
            for number in range(5):
                bases.add(kin(number))
            for number in (0, 1, 4):
                bases.remove(id_of(number))
            bases.add(kin(5, family=1))
        with Store.open(folder / "alone", create=True) as alone:
            for number in range(3):
                other = Store.open(folder / f"other{number}", create=True)
                other.add(kin(number))
                shutil.copy2(other.folder.kept_path(id_of(number)), alone.folder.companions)
                shutil.rmtree(other.file)
        yield folder


def readable(store: Path) -> Readable:
    """What can be read of a store, by archive id, whatever its index says."""
    found = {}
    for path in (store / "companions").iterdir():
        try:
            found[path.stem] = Store.open(store).companion(path.stem)
        except (ArchiveError, OSError):
            continue
    return found


def seen(folder: Path) -> dict[str, object]:
    """All that is in a folder."""
    return {
        str(path): path.read_bytes() if path.is_file() else path.lstat().st_mode
        for path in sorted(folder.rglob("*"))
    }


# --- damage


FORGERIES = (
    f"body = '{'0' * 32}', depth = 0, base = ''",
    "depth = 0",
    "depth = 49",
    f"base = '{'1' * 32}'",
    "size = 7",
    f"digest = '{'0' * 32}'",
    f"prefix = {LEAST_PREFIX}",
    "handles = x'789c030000000001', code = '[]', top = 'Other', qualified_top = 'Other'",
    "file = 'another', added = 7, root = 'r', serialization_id = 's', redacted_id = ''",
    "body = (SELECT max(body) FROM companions)",
    f"archive_id = '{id_of(6)}' WHERE archive_id = (SELECT min(archive_id) FROM companions)",  # noqa: S608
)
"""Facts that the rows of an index may be given, each as sound as before."""


def _forged(path: Path, pick: int) -> None:
    """Other facts in all rows of the index, each of which fits the state of its file."""
    with closing(sqlite3.connect(path.parent / "index.sqlite")) as index:
        for kept in (path.parent / "companions").iterdir():
            state = kept.lstat()
            index.execute(
                "UPDATE companions SET file_number = ?, kept_size = ?, changed = ? WHERE archive_id = ?",
                (state.st_ino, state.st_size, state.st_mtime_ns, kept.stem),
            )
        index.execute("UPDATE companions SET " + FORGERIES[pick % len(FORGERIES)])  # noqa: S608 (of constants)
        index.commit()


def _moved(path: Path, place: Path) -> None:
    path.rename(place)
    path.symlink_to(place)


def _another(path: Path, make: Callable[[], object]) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()
    make()


def _linked(path: Path, place: Path) -> None:
    _another(path, lambda: path.symlink_to(place))


def _flipped(path: Path, pick: int) -> None:
    data = bytearray(path.read_bytes())
    data[pick % len(data)] ^= 1 << pick % 8
    path.write_bytes(data)


def _sibling(path: Path, pick: int) -> Path:
    found = sorted(path.parent.iterdir())
    return found[pick % len(found)]


DAMAGE: dict[str, Callable[[Path, Path, int], object]] = {
    "moved elsewhere, with a link": lambda path, mine, _: _moved(path, mine / "moved"),
    "a link to a sibling": lambda path, _, pick: _another(
        path, lambda: path.symlink_to(_sibling(path, pick))
    ),
    "a link to somebody's": lambda path, mine, _: _another(
        path, lambda: path.symlink_to(mine / "companions")
    ),
    "a link to nothing": lambda path, _, __: _another(path, lambda: path.symlink_to("nothing")),
    "a hard link": lambda path, mine, _: os.link(path, mine / "hard"),
    "a pipe": lambda path, _, __: _another(path, lambda: os.mkfifo(path)),
    "a folder": lambda path, _, __: _another(path, path.mkdir),
    "gone": lambda path, _, __: _another(path, lambda: None),
    "empty": lambda path, _, __: os.truncate(path, 0),
    "cut": lambda path, _, pick: os.truncate(path, pick % path.stat().st_size),
    "a bit": lambda path, _, pick: _flipped(path, pick),
    "a sibling's": lambda path, _, pick: path.write_bytes(_sibling(path, pick).read_bytes()),
    "a copy with another name": lambda path, _, __: shutil.copy(path, path.with_name(f"{'e' * 32}.kept")),
    "capitals": lambda path, _, __: path.rename(path.with_name(path.name.upper())),
    "a line end": lambda path, _, __: path.with_name("two\nlines.kept").write_bytes(b""),
    "a forged index": lambda path, _, pick: _forged(path, pick),
}


def harm(store: Path, mine: Path, kind: str, pick: int) -> None:
    """Harm a file of a store; nothing where that cannot be."""
    paths = [path for path in sorted(store.rglob("*")) if kind != "a forged index" or path.parent == store]
    with suppress(OSError, ZeroDivisionError, sqlite3.Error):  # a folder has no bits, say
        DAMAGE[kind](paths[pick % len(paths)], mine, pick)


# --- the law

COMMANDS = ("ls", "check", "gc", "get", "add", "add --force", "rm", "symbolicate")
PICKS = st.integers(0, 1 << 16)
STEPS = st.tuples(st.sampled_from(COMMANDS), st.sampled_from(NUMBERS))


def words_of(command: str, number: int, store: Path, companions: Path) -> list[object]:
    """A command about a store, as a shell has it."""
    if command == "symbolicate":
        return ["symbolicate", store, "--log", companions / "log"]
    verb, *options = command.split()
    words: list[object] = ["store", verb, "--store", store, *options]
    about = {"get": [id_of(number), "-o", "-"], "rm": [id_of(number)]}
    if verb == "add":
        return [*words, companions / f"{number}.ptdbg", "-j", 1]
    return [*words, *about.get(verb, [])]


@given(
    kind=st.sampled_from(["chain", "bases", "alone"]),
    damage=st.lists(st.tuples(st.sampled_from(sorted(DAMAGE)), PICKS), max_size=2),
    steps=st.lists(STEPS, min_size=1, max_size=4),
)
@example(kind="chain", damage=[("a forged index", 0)], steps=[("gc", 0), ("gc", 0)])
@example(kind="alone", damage=[("a forged index", 1)], steps=[("gc", 0), ("gc", 0)])
@example(kind="bases", damage=[], steps=[("gc", 0), ("rm", 2), ("gc", 0), ("add", 2)])
@settings(max_examples=examples(40), deadline=None)
def test_a_store_loses_nothing(
    kind: str, damage: list[tuple[str, int]], steps: list[tuple[str, int]], stores: Path
) -> None:
    with tempfile.TemporaryDirectory() as temporary, mock.patch.dict(os.environ, {EPOCH: "1760000000"}):
        store, mine, companions = (Path(temporary) / name for name in ("store", "mine", "companions"))
        shutil.copytree(stores / kind, store, symlinks=True)
        with Store.open(store) as copy:
            copy.entries()  # the index has the files' states as they are here
        companions.mkdir()
        shutil.copytree(stores / "chain" / "companions", mine / "companions")
        for number in NUMBERS:
            (companions / f"{number}.ptdbg").write_bytes(kin(number, line=number % 3))
        (companions / "log").write_text("a line\n")
        for one, pick in damage:
            harm(store, mine, one, pick)
        for command, number in steps:
            check_step(store, mine, words_of(command, number, store, companions), command, number)


def check_step(store: Path, mine: Path, words: list[object], command: str, number: int) -> None:
    """Do one command; what it may not change stays, and what cannot be read is told."""
    try:
        before = readable(store)
    except OSError:  # there is no folder of companions
        before = {}
    outside = seen(mine)
    ended = run(*words)
    assert ended.returncode in {0, 1, 2}, ended.stderr
    assert seen(mine) == outside
    changed = {id_of(number)} if command in {"rm", "add --force"} and not ended.returncode else set()
    try:
        after = readable(store)
    except OSError:
        after = {}
    assert {key: after.get(key) for key in before.keys() - changed} == {
        key: before[key] for key in before.keys() - changed
    }
    if command == "ls" and ended.returncode < 2:
        names = {
            path.stem for path in (store / "companions").iterdir() if path.name.lower().endswith(".kept")
        }
        told = Store.open(store).listing()
        assert told.unread.keys() | {path.stem for path in told.foreign} >= names - after.keys()
        assert not told.unread.keys() & after.keys()
        assert [one.archive_id for one in told.entries] == sorted(after)
    if ended.returncode:
        return
    if command == "get":
        assert ended.stdout == after[id_of(number)]
    if command in {"ls", "check"}:
        names = {path.name for path in (store / "companions").iterdir() if not path.name.startswith(".")}
        assert names == {f"{key}.kept" for key in after}
        assert run("store", "ls", "--store", store).returncode == 0
    if command == "gc":
        assert not [one for one in Store.open(store).check() if one.severity == "error"]
