"""The package as its users meet it: names, version, reprs, help, and what importing it imports."""

from __future__ import annotations

import pydoc
import random
import subprocess
import sys
from contextlib import ExitStack
from functools import cache
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

import archive
from archive import Archive, ArchiveError, LimitError
from archive.check.verify import verify
from archive.describe.effects import inspect_effects
from archive.describe.inspect import inspect
from archive.failures.explainer import LogExplainer
from tests.support.corpus import CALLSTACKS, FIXTURES, ORACLES, RELEASES
from tests.support.sampling import sampled
from tests.support.tampering import tampered

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


NESTED = RELEASES / "torch-2.13.0" / "nested.ptl"


def test_the_package_offers_its_names() -> None:  # which `tests/project/public_api.txt` lists
    assert {getattr(archive, name).__name__ for name in archive.__all__} == set(archive.__all__)
    assert set(archive.__all__) <= set(dir(archive))
    assert issubclass(LimitError, ArchiveError)
    with pytest.raises(AttributeError, match="module 'archive' has no attribute 'nothing'"):
        getattr(archive, "nothing")  # noqa: B009 (type checkers would refuse the name)


def test_a_repr_says_what_has_been_read_and_reads_nothing(tmp_path: Path) -> None:
    path, out, companion = ORACLES / "plain_stack.ptl", tmp_path / "out.ptl", tmp_path / "c.ptdbg"
    archive.split(path, out, companion)
    with archive.open(path) as opened:
        assert repr(opened) == f"<Archive {str(path)!r}, 27 records>"
        assert opened.handles
        assert repr(opened) == f"<Archive {str(path)!r}, 27 records, 61 handles>"
        assert repr(opened.handles) == "<FactMapping of 61 facts>"
        rows = opened.ranges("code/__torch__/plain.py")
        assert repr(rows) == f"<RangeRows of 'code/__torch__/plain.py.debug_pkl', {len(rows)} rows>"
        assert len(repr(opened.symbolicate(1452))) < 1000  # without the source
    with archive.open(companion) as opened:
        assert opened.companion is not None
        known = opened.companion.archive_id.hex()
        assert repr(opened.companion) == f"<Companion {str(companion)!r}, packed, of archive {known}>"
        assert repr(opened) == f"<Archive {str(companion)!r}, a companion alone>"
        assert opened.records
        assert opened.handles
        assert repr(opened) == f"<Archive {str(companion)!r}, a companion alone, 9 records, 61 handles>"
    with archive.open(out, companion=companion) as opened:
        assert repr(opened) == f"<Archive {str(out)!r}, with companion {str(companion)!r}>"
        assert opened.records
        assert repr(opened) == f"<Archive {str(out)!r}, with companion {str(companion)!r}, 26 records>"


def test_a_repr_of_a_broken_archive_raises_nothing() -> None:
    with archive.open(tampered(NESTED, {CALLSTACKS: b"nothing"}), name="m.ptl") as opened:
        with pytest.raises(ArchiveError):
            _ = opened.handle_table
        assert repr(opened) == f"<Archive 'm.ptl', {len(opened.records)} records>"


def test_reprs_of_results_and_limits_are_short() -> None:
    migrated = archive.migrate(NESTED, to="1.9", lossy=True)
    assert migrated.data
    assert len(repr(migrated)) < 2000 < len(migrated.data)
    assert repr(archive.Limits()) == "Limits()"
    assert repr(archive.Limits(frames=7)) == "Limits(frames=7)"


def test_help_on_open_names_arguments_errors_and_an_example() -> None:
    text = pydoc.plain(pydoc.render_doc(archive.open))
    assert all(f"\n    {part}:\n" in text for part in ("Args", "Returns", "Raises", "Examples"))
    assert "limits: 'Limits' = Limits()," in text


def test_importing_and_reading_import_no_pytorch() -> None:
    program = f"""
import sys, archive
assert not {{"numpy", "archive.reader"}} & set(sys.modules)
with archive.open({str(ORACLES / "lowered_shape.ptl")!r}) as opened:
    assert opened.symbolicate([1, 26]).frames and opened.lowered and opened.bytecode and opened.generations
assert not [name for name in sys.modules if name.partition(".")[0] in ("torch", "click", "rich")]
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=FIXTURES.parent)


# --- Callers get ``ArchiveError`` and ``OSError`` alone, whatever a file holds, and if memory or stack ends


MODELS = [
    ORACLES / "lowered_two.ptl",
    RELEASES / "torch-1.9.0" / "nested.ptl",
    FIXTURES / "effects" / "counting.pt",
]
LOG = b"Debug info for handle(s): debug_handles:{11111}, was not found.\n"
ARGUMENTS: dict[str, tuple[object, ...]] = {
    "tree": (["bytecode.pkl"],),
    "ranges": ("code/__torch__/models.py",),
    "locate": ("code/__torch__/models.py", 3),
    "value": ("data.pkl",),
    "symbolicate": ([1, 2],),
    "with_unique_handles": (1_234_567_890,),
}
NOT_READING = {"close", "save", "reread"}
MEMBERS = sorted(name for name in dir(Archive) if not name.startswith("_") and name not in NOT_READING)
"""All public properties and methods of an archive."""


def member(opened: Archive, name: str) -> object:
    """Read one of them, with all that is made when it is asked for."""
    found: Any = getattr(opened, name)
    found = found(*ARGUMENTS[name]) if callable(found) else found
    if name == "symbolicate":
        return str(found), bytes(found)
    return [str(found[key]) for key in list(found)[:50]] if hasattr(found, "keys") else str(found)


FUNCTIONS: dict[str, Callable[[Path, Path], object]] = {
    "recognise": lambda file, _: archive.recognise(file),
    "sizes": lambda file, _: archive.sizes(file).by("source"),
    "split": lambda file, out: archive.split(file, out / "s", out / "c", force=True),
    "shrink": lambda file, out: archive.shrink(file, out / "k", force=True),
    "embed": lambda file, out: archive.shrink(file, out / "e", level="embed", force=True),
    "restore": lambda file, out: archive.restore(file, out / "r", force=True),
    "redact": lambda file, out: archive.redact(
        file, out / "d", out / "c", paths="none", text="none", partial=True, force=True
    ),
    "redact_companion": lambda file, out: archive.redact_companion(
        file, out / "o", paths="none", partial=True, force=True
    ),
    "migrate": lambda file, out: archive.migrate(file, out / "m", to="2.13", lossy=True, force=True),
    "canonicalise": lambda file, out: archive.canonicalise(file, out / "c", force=True),
    "convert": lambda file, out: archive.convert(file, out / "v", layout="packed", force=True),
    "verify": lambda file, _: verify(file),
    "inspect": lambda file, _: inspect(archive.open(file)),
    "effects": lambda file, _: inspect_effects(archive.open(file)),
    "log": lambda file, _: list(LogExplainer.of(archive.open(file)).explain([LOG])),
    **{
        f"Archive.{name}": lambda file, _, name=name: member(archive.open(file), name)  # type: ignore[misc]
        for name in MEMBERS
    },
}


@cache
def broken(model: Path) -> list[bytes]:
    """Archives with one record that is no longer what it was, in ways that differ by record."""
    drawn = random.Random(14)  # noqa: S311 (the same in every run)
    with archive.open(model) as opened:
        names = [name for name in opened.records if name.endswith("pkl")]
    names = names[:: len(names) // 5 + 1]
    ways: list[Callable[[bytes], bytes]] = [
        lambda record: record[: len(record) // 2],
        lambda record: record[:2] + b"(" * 3_000 + b")" * 3_000,
        lambda record: record.replace(b"\x86", b"\x85", 1),
        lambda record: bytes(byte ^ (drawn.random() < 0.01) for byte in record),
        lambda _: b"",
    ]
    return [tampered(model, {name: ways[i % len(ways)]}, renewed=False) for i, name in enumerate(names)]


@pytest.mark.parametrize("model", MODELS, ids=lambda path: path.name)
def test_broken_records_end_in_errors_of_this_library(model: Path, tmp_path: Path) -> None:
    ended, some = 0, sampled(broken(model), most=3)
    for number, data in enumerate(some):
        file = tmp_path / f"{number}.pt"
        file.write_bytes(data)
        for function in FUNCTIONS.values():
            try:
                function(file, tmp_path)
            except (ArchiveError, OSError):
                ended += 1
        assert all(one.severity != "internal error" for one in verify(file))
    assert ended > len(some), "some must be refused"


@pytest.mark.parametrize("problem", [MemoryError(), RecursionError("maximum recursion depth exceeded")])
@pytest.mark.parametrize(
    "functions",
    [
        ("archive.reader.pickle_records.read_trees", "archive.reader.pickle_records.read_source_ranges"),
        ("archive.container.record.inflate",),
    ],
)
def test_memory_and_stack_that_end_are_limit_errors_with_the_file(
    functions: tuple[str, ...], problem: Exception, tmp_path: Path
) -> None:
    ended: dict[str, str | None] = {}
    others = set()
    for name, function in FUNCTIONS.items():
        with ExitStack() as patched:
            for at in functions:
                patched.enter_context(mock.patch(at, side_effect=problem))
            try:
                function(MODELS[0], tmp_path)
            except LimitError as error:
                ended[name] = error.file
            except (ArchiveError, OSError):
                others.add(name)
    of_other_files = {"restore", "redact_companion", "canonicalise", "convert", "effects"}
    assert others <= of_other_files | {"Archive.ranges", "Archive.locate"}
    assert set(ended.values()) == {str(MODELS[0])}
    assert {
        "split",
        "shrink",
        "migrate",
        "inspect",
        "Archive.symbolicate",
        "Archive.range_table",
    } <= ended.keys()
    with mock.patch(functions[0], side_effect=problem):
        assert any(one.severity == "error" for one in verify(MODELS[0]))


def test_a_record_that_is_not_there_is_an_error_with_its_name() -> None:
    with archive.open(MODELS[0]) as opened:
        with pytest.raises(ArchiveError, match=r"lowered_two\.ptl: nope: no such record"):
            opened.tree(["nope"])
        with pytest.raises(ArchiveError, match=r"lowered_two\.ptl: nope: no such record"):
            opened.value("nope")
