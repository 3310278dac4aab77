"""ETRecords are split and joined: to the byte, and what is left leads to the same nodes."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

import pytest

import archive
from archive.base.errors import ArchiveError, NothingToDoError
from archive.failures.explainer import LogExplainer
from archive.reader.lookups.instructions import InstructionNodes
from tests.support.commands import run, well
from tests.support.exported import ETRECORDS, RECORDS, changed_record, inspected, log, record
from tests.support.sampling import sampled

if TYPE_CHECKING:
    from pathlib import Path

LOGS = sorted(path.name.partition(".")[0] for path in RECORDS.glob("*.log.txt"))


def halves(source: Path, folder: Path, **options: object) -> tuple[Path, Path]:
    small, aside = folder / "small.etrecord", folder / "model.ptdbg"
    archive.split(source, small, aside, force=True, **options)  # type: ignore[arg-type]
    return small, aside


@pytest.mark.parametrize("name", sampled(ETRECORDS, most=3))
def test_a_join_gives_the_file_to_the_byte(name: str, tmp_path: Path) -> None:
    with archive.open(record(name)) as opened:
        programs = len(opened.programs)
    for drop in ((), ("modules", "handles")):
        small, aside = halves(record(name), tmp_path, drop=drop)
        joined = archive.join(small, aside, tmp_path / "back", force=True)
        assert joined.exact
        assert joined.programs == programs
        assert (tmp_path / "back").read_bytes() == record(name).read_bytes()


def test_what_is_left_has_handles_and_modules_and_no_source(tmp_path: Path) -> None:
    small, aside = halves(record("shop"), tmp_path)
    with archive.open(small) as left, archive.open(record("shop")) as before:
        assert left.archive_id == before.archive_id
        assert left.instructions == before.instructions
        for name, program in left.programs.items():
            for key, site in program.sites.items():
                was = before.programs[name].sites[key].metadata
                assert site.metadata == {
                    one: was[one] for one in was.keys() & {"nn_module_stack", "debug_handle"}
                }
    with zipfile.ZipFile(small) as left_zip, zipfile.ZipFile(record("shop")) as whole:
        assert left_zip.namelist() == whole.namelist()
        assert not any(b"shop.py" in left_zip.read(one) for one in left_zip.namelist())
    assert small.stat().st_size + aside.stat().st_size < 0.2 * record("shop").stat().st_size


def test_what_the_inspector_asks_for_is_left(tmp_path: Path) -> None:
    """The Inspector finds nodes by their handles; it shows traces of those that have some."""
    small, aside = halves(record("xnnpack"), tmp_path)
    for paths, traced in (((small, None), False), ((small, aside), True)):
        with archive.open(paths[0], companion=paths[1]) as opened:
            places = InstructionNodes(opened)
            for told in inspected("xnnpack"):
                (place,) = places.named(f"0:{told['instruction']}")
                assert [f"{node.site.name}_" for node in place.nodes] == list(told["traces"])
                traces = [node.site.trace for node in place.nodes]
                assert traces == (list(told["traces"].values()) if traced else [None] * len(traces))


@pytest.mark.parametrize("name", LOGS)
def test_logs_are_explained_with_the_companion_as_by_the_whole_record(name: str, tmp_path: Path) -> None:
    small, aside = halves(record(name), tmp_path)
    texts = []
    for path, companion in ((record(name), None), (small, aside)):
        with archive.open(path, companion=companion) as opened:
            explainer = LogExplainer.of(opened)
            texts.append((b"".join(explainer.explain([log(name)])), explainer.notes))
    assert texts[0] == texts[1]


def test_handles_may_be_dropped(tmp_path: Path) -> None:
    small, aside = tmp_path / "small", tmp_path / "aside"
    told = well("split", record("shop"), "-o", small, "-c", aside)
    assert "debug handles stayed, which ExecuTorch's Inspector needs" in told
    told = well("split", record("shop"), "-o", small, "-c", aside, "--drop", "handles", "--force")
    assert "debug handles" not in told
    done = run("symbolicate", small, "0:14")
    assert b"no node has the debug handle of instruction '0:14'" in done.stderr
    assert "models/shop.py" in well("symbolicate", small, "-c", aside, "0:14")


def test_a_companion_alone_asks_for_the_record(tmp_path: Path) -> None:
    _, aside = halves(record("shop"), tmp_path)
    assert "models/shop.py" in well("symbolicate", aside, "aten_embedding_default_1")
    done = run("symbolicate", aside, "0:14")
    assert done.returncode == 1
    assert b"instruction '0:14' is of an ETRecord; give that, and its companion with -c" in done.stderr


def test_a_second_split_finds_nothing_to_take(tmp_path: Path) -> None:
    small, _ = halves(record("shop"), tmp_path)
    with pytest.raises(NothingToDoError, match="no debug info in it but debug handles, modules, to be kept"):
        archive.split(small, tmp_path / "out", tmp_path / "aside")


def test_a_companion_of_another_record_is_refused(tmp_path: Path) -> None:
    small, _ = halves(record("shop"), tmp_path)
    archive.split(record("sized"), tmp_path / "other", tmp_path / "other.ptdbg")
    with pytest.raises(ArchiveError, match="companion of another model"):
        archive.join(small, tmp_path / "other.ptdbg", tmp_path / "back")


def test_a_program_that_json_dumps_did_not_write_stays_and_is_told(tmp_path: Path) -> None:
    with zipfile.ZipFile(record("shop")) as whole:
        spaced = whole.read("exported_program").replace(b'{"graph_module"', b'{ "graph_module"', 1)
    (tmp_path / "spaced").write_bytes(changed_record("shop", exported_program=spaced))
    small, aside = tmp_path / "small", tmp_path / "aside"
    told = well("split", tmp_path / "spaced", "-o", small, "-c", aside)
    assert "exported_program stayed as it is: its JSON is not as PyTorch writes it" in told
    assert archive.join(small, aside, tmp_path / "back").programs == 1
    with zipfile.ZipFile(tmp_path / "back") as back:
        assert back.read("exported_program") == spaced
