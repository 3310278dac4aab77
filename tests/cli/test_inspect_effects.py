"""``debug-archive inspect`` of archives with effects."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

import archive
from archive.formats.effects import EFFECTS
from archive.formats.effects.model import Constant, Effect, EffectTable, MethodEffects, Op, Output
from tests.support.commands import called, told, well
from tests.support.corpus import FIXTURES
from tests.support.documents import file_of
from tests.support.effect_tables import COUNTING, SELF, attribute, with_effects
from tests.support.tampering import STACK, tampered

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model whose effects lead to its source: the append's operation has a handle in the archive."""
    with archive.open(STACK) as opened:
        handle = next(iter(opened.handles))
    method = COUNTING.methods[0]
    effects = (
        *method.effects[:2],
        replace(method.effects[2], handle=9999),
        replace(method.effects[3], handle=handle),
    )
    path = tmp_path / "model.ptl"
    path.write_bytes(with_effects(STACK, replace(COUNTING, methods=(replace(method, effects=effects),))))
    return path


def test_a_line_tells_of_effects(model: Path) -> None:
    shown = well("inspect", model)
    assert "effects of 1 method: forward 4" in shown
    (record,) = (line for line in shown.splitlines() if line.startswith(EFFECTS))
    assert record.split()[-6:] == ["effects:", "4,", "places", "of", "state:", "2"]
    assert told("inspect", model)["effects"] == {"forward": 4}


def test_nothing_is_told_where_there_are_none() -> None:
    assert "effects of" not in well("inspect", STACK)
    assert told("inspect", STACK)["effects"] is None


def test_effects_with_the_models_lines(model: Path) -> None:
    shown = well("inspect", "--effects", model).splitlines()
    assert shown[0] == f"{model}: effects of 1 method, 2 places of state"
    assert shown[1:7] == [
        "",
        "# forward: out = graph(x, self.count) -> 3 values",
        "tmp0 = object.__new__(package.module.Thing)",
        "tmp0.value = out[1]",
        "self.count = out[2]          # debug handle 9999",
        shown[6],
    ]
    statement, _, note = shown[6].partition("  # ")
    assert statement == "self.history.append(out[0])"
    file, line, _ = note.split(":", 2)
    assert file.endswith(".py")
    assert int(line) > 0
    assert shown[7:] == ["return out[0]", "", "# state at first", "self.count = 0", "self.history = []"]


def test_a_handle_of_0_is_one_and_a_negative_one_is_none(tmp_path: Path) -> None:
    method = COUNTING.methods[0]
    effects = (*method.effects[:2], replace(method.effects[2], handle=0), *method.effects[3:])
    path = tmp_path / "model.ptl"
    path.write_bytes(with_effects(STACK, replace(COUNTING, methods=(replace(method, effects=effects),))))
    lines = well("inspect", "--effects", path).splitlines()
    (noted,) = (line for line in lines if "self.count = out" in line)
    assert noted.endswith("  # debug handle 0")
    assert sum("debug handle" in line for line in lines) == 1


def test_effects_as_json(model: Path) -> None:
    facts = file_of(well("inspect", "--effects", "--json", model))
    (method,) = facts["methods"]
    assert (method["method"], method["graph"], method["result"]) == (
        "forward",
        "graph(x, self.count) -> 3 values",
        "out[0]",
    )
    assert [effect["op"] for effect in method["effects"]] == ["new", "setattr", "setattr", "append"]
    appended = method["effects"][3]
    assert (appended["text"], appended["handle"] >= 0) == ("self.history.append(out[0])", True)
    assert appended["where"]
    assert appended["line"]
    assert facts["state"] == [["self.count", "0"], ["self.history", "[]"]]


def test_an_archive_without_effects() -> None:
    done = called("inspect", "--effects", STACK)
    assert str(done.exception) == f"{STACK}: no effects ({EFFECTS}) in it"


def test_a_broken_record(tmp_path: Path) -> None:
    path = tmp_path / "broken.ptl"
    path.write_bytes(tampered(STACK, {EFFECTS: b"\x80\x02)."}))
    for options in ([], ["--effects"]):
        done = called("inspect", *options, path)
        assert str(done.exception) == f"{path}: {EFFECTS}, byte 2: expected a tuple of 8, found a tuple of 0"


def test_foreign_texts_stay_on_their_lines(tmp_path: Path) -> None:
    name = "\x1b[2J\ud800\nrm"
    method = MethodEffects(name, (), Output(0), (Effect(Op.SET_ATTRIBUTE, SELF, Constant(name), Output(0)),))
    path = tmp_path / "odd.ptl"
    path.write_bytes(with_effects(STACK, EffectTable((method,), ((attribute(name), Constant(name)),))))
    for options in ([], ["--effects"], ["--json"], ["--effects", "--json"]):
        shown = well("inspect", *options, path)
        assert "\x1b" not in shown
        assert "rm" not in shown.split()
    assert "setattr(self, '\\x1b[2J\\ud800\\nrm', out[0])" in well("inspect", "--effects", path)


def test_many_methods(tmp_path: Path) -> None:
    methods = tuple(MethodEffects(f"m{i}", (), Output(0), ()) for i in range(11))
    path = tmp_path / "many.ptl"
    path.write_bytes(with_effects(STACK, EffectTable(methods, ())))
    assert "effects of 11 methods: m0 0, m1 0, m2 0, m3 0, m4 0, m5 0, m6 0, m7 0 [3 more methods]" in well(
        "inspect", path
    )


def test_help_has_an_example() -> None:
    assert "debug-archive inspect model.ptl --effects" in well("inspect", "--help")


def test_accounting_knows_the_record(model: Path) -> None:
    assert "effects" in well("sizes", model)


def test_a_companion_of_programs_has_no_lines_about_torchscript(tmp_path: Path) -> None:
    program, script = tmp_path / "program.ptdbg", tmp_path / "script.ptdbg"
    for source, companion in ((FIXTURES / "exported" / "shop.pt2", program), (STACK, script)):
        archive.split(source, tmp_path / "small", companion, force=True)
    of_program, of_script = (called("inspect", one).stdout for one in (program, script))
    assert "metadata bytes" in of_program
    for words in ("top module", " of debug info", "source ranges", "record  "):
        assert words not in of_program
        assert words in of_script
