"""``profile`` and ``inspect`` of ETDumps, as users run them: without PyTorch."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING
from unittest import mock

import pytest

from tests.support.commands import called, run, well
from tests.support.documents import file_of
from tests.support.etdumps import Block, Event, built, dump
from tests.support.exported import record

if TYPE_CHECKING:
    from pathlib import Path

SHOP = ("profile", dump("shop"), "-c", record("shop"))
XNNPACK = ("profile", dump("xnnpack"), "-c", record("xnnpack"))


def test_a_profile_of_a_dump_needs_no_pytorch() -> None:
    with mock.patch.dict(sys.modules, {"torch": None}):
        assert "models/shop.py:23" in well(*SHOP, "--by", "line", "-q")


def test_a_message_tells_what_the_times_are_of() -> None:
    clock = "if a tick of the device's clock is 1 ns: 33% in operators, the rest in the runtime and its notes"
    (note,) = run(*SHOP, "--warmup", "1").stderr.decode().splitlines()
    assert note == f"debug-archive: 1 run of forward took 29.9 µs {clock}"
    several = run("profile", dump("methods"), "-c", record("methods"), "--tick-ns", "6.25").stderr.decode()
    assert several.startswith(
        "debug-archive: 4 runs (2 of forward, 1 of words, 1 of later) took 857.7 µs if "
    )
    assert "clock is 6.25 ns: " in several
    failed = run("profile", dump("failed")).stderr.decode()
    assert failed.startswith("debug-archive: 2 runs, some of which did not end; times are right if a tick ")


def test_notes_that_are_left_out_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "run.etdp"
    path.write_bytes(built([Block([Event(None, 0, 0, 7, 9, 3), Event("DELEGATE_CALL", 0, 0, 1000, 2000)])]))
    done = run("profile", path)
    assert b"1 note of backends left out: not within the times of their calls" in done.stderr
    assert done.returncode == 0


def test_operations_without_a_place_are_a_finding_with_a_record_alone() -> None:
    done = run("profile", dump("fork"), "-c", record("fork"))
    assert done.returncode == 1
    assert b"8 of 12 operations have no debug info" in done.stderr
    assert run("profile", dump("fork")).returncode == 0


def test_the_document_has_all_views() -> None:
    facts = file_of(well(*XNNPACK, "--json", "-q"))
    assert (facts["runs"], facts["methods"], facts["left_out"]) == (2, {"forward": 2}, 0)
    assert facts["whole_ns"] == 48_123 + 9_336
    for view in ("module", "line", "operator", "instruction", "delegate"):
        assert sum(row["self_ns"] for row in facts[view]) == facts["total_ns"]
    alone = file_of(well("profile", dump("xnnpack"), "--json", "-q"))
    assert (alone["module"], alone["line"], "instruction" in alone) == ([], [], False)
    assert alone["total_ns"] == facts["total_ns"]


def test_files_for_viewers_have_instructions_lines_and_the_same_times(tmp_path: Path) -> None:
    trace, stacks, flame = (tmp_path / name for name in ("x.json", "x.folded", "x.speedscope.json"))
    outputs = (option for path in (trace, stacks, flame) for option in ("-o", path))
    facts = file_of(well(*SHOP, "--json", "-q", *outputs))
    events = [one for one in json.loads(trace.read_bytes())["traceEvents"] if one.get("cat") == "cpu_op"]
    assert {one["args"]["Instruction"] for one in events} == {row["name"] for row in facts["instruction"]}
    assert not any("Debug Handle" in one["args"] for one in events)
    times = dict(line.rsplit(" ", 1) for line in stacks.read_text("utf-8").splitlines())
    assert sum(map(int, times.values())) == facts["total_ns"]
    assert "top(Shop);goods(Lookup);rows(Embedding);models/shop.py:23;embedding.out" in times
    assert json.loads(flame.read_bytes())["profiles"][0]["unit"] == "nanoseconds"


def test_profiles_of_dumps_are_saved_and_compared_a_run(tmp_path: Path) -> None:
    before, alone = tmp_path / "before.json", tmp_path / "alone.json"
    before.write_text(well(*XNNPACK, "--json", "-q"), "utf-8")
    alone.write_text(well("profile", dump("xnnpack"), "--json", "-q"), "utf-8")
    for view in ("module", "line", "operator", "instruction", "delegate"):
        assert "(same)" in well(*XNNPACK, "--base", before, "--by", view, "-q").splitlines()[0]
        assert well("profile", before, "--by", view)
    warm = file_of(well(*XNNPACK, "--warmup", "1", "--base", before, "--by", "delegate", "--json", "-q"))
    (noted,) = (one for one in warm["changes"] if one["name"] == "XnnpackBackend: Add (ND) #1")
    assert (noted["before"]["self_ns"], noted["after"]["self_ns"]) == (1500, 0)
    why = "no rows by instruction are saved, as there are for an ETDump with its ETRecord"
    for words in ([before, "--base", alone], [alone, "--base", before], [alone]):
        assert str(called("profile", *words, "--by", "instruction").exception) == why
    assert "DELEGATE_CALL" in well("profile", alone)  # it has no modules: operators


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([*SHOP, "--runs", "2"], "--input, --lite, --runs and --by source are not for ETDumps"),
        ([*SHOP, "--by", "source"], "--input, --lite, --runs and --by source are not for ETDumps"),
        (
            ["profile", dump("shop"), "--by", "line"],
            "--by line needs the ETRecord of the program that ran: -c",
        ),
        (["profile", dump("shop"), "--method", "forward"], "--method is one of an ETRecord: -c"),
        (["profile", record("shop"), "--tick-ns", "2"], "--by instruction or delegate are for ETDumps"),
        (["profile", record("shop"), "--by", "delegate"], "--by instruction or delegate are for ETDumps"),
    ],
)
def test_options_that_do_not_go_with_a_file_are_refused(words: list[object], why: str) -> None:
    done = run(*words)
    assert (done.returncode, done.stdout) == (2, b"")
    assert why in done.stderr.decode()


def test_a_bound_is_raised_and_lowered() -> None:
    done = run(*SHOP, "--limit", "memory=100K")
    assert done.returncode == 2
    assert b"memory is limited to 102,400" in done.stderr


def test_a_dump_is_inspected_alone_and_in_a_folder(tmp_path: Path) -> None:
    facts = file_of(well("inspect", dump("values"), "--json"))
    assert facts["blocks"][1] == {
        "name": "Execute",
        "input": None,
        "instructions": 3,
        "notes": 0,
        "values": 4,
        "allocations": 0,
        "ticks": 15_866,
    }
    for name in ("failed", "values"):
        (tmp_path / f"{name}.etdp").write_bytes(dump(name).read_bytes())
    lines = well("inspect", tmp_path).splitlines()
    assert lines[0].endswith("failed.etdp: ETDump, 1,088 bytes")
    assert ["total", "2", "2,408"] in [line.split() for line in lines]
    assert well("inspect", dump("values"), "--format", "csv").count("\n") == 1  # no records, no rows
    many = tmp_path / "many.etdp"
    many.write_bytes(built([Block([Event("OPERATOR_CALL", 0, 0, 1, 2)])] * 1_002))
    assert "[2 more blocks]" in well("inspect", many).splitlines()[-1]
