"""``archive.diff`` of a model before and after one edit of its source: the edit is told, nothing besides."""

from __future__ import annotations

import importlib.util
import io
import re
import sys
import warnings
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch

import archive
from archive import Diff, Level, TextChange
from archive.compare.code import units
from archive.compare.methods import methods

SOURCE = """
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.k = 2.5

    def forward(self, x):
        return torch.relu(self.lin(x)) * self.k

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = Block(), Block()
        self.register_buffer("shift", torch.arange(4.0))

    def forward(self, x):
        x = self.one(x)
        x = self.two(x)
        y = torch.add(x, torch.tensor([1.0, 2.0, 3.0, 4.0]))
        return torch.sub(y, self.shift)
"""
FIRST = "        x = self.one(x)\n"
EDITS = {
    "base": {},
    "layer": {FIRST: f"        x = torch.sigmoid(x)\n{FIRST}"},
    "constant": {"3.0, 4.0": "3.5, 4.0"},
    "new constant": {FIRST: f"        x = x + torch.tensor([9.0])\n{FIRST}"},
    "attribute": {"self.k = 2.5": "self.k = 2.25"},
    "activation": {"relu": "sigmoid"},
    "arguments": {"torch.sub(y, self.shift)": "torch.sub(self.shift, y)"},
    "dtype": {"arange(4.0)": "arange(4.0, dtype=torch.float64)"},
    "submodule": {
        "Block(), Block()": "Block(), Block()\n        self.zero = Block()",
        FIRST: f"        x = self.zero(x)\n{FIRST}",
    },
}


@cache
def saved(edit: str, form: str) -> bytes:
    """A model with one edit, as one kind of file."""
    text, out = SOURCE, io.BytesIO()
    for old, new in EDITS[edit].items():
        assert old in text
        text = text.replace(old, new)
    with TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        file = Path(folder) / "net.py"
        file.write_text(text, encoding="utf-8")
        spec = importlib.util.spec_from_file_location("net", file)
        assert spec
        assert spec.loader
        code = importlib.util.module_from_spec(spec)
        monkey = pytest.MonkeyPatch()
        monkey.setitem(sys.modules, "net", code)  # torch.jit asks for the module of a class
        spec.loader.exec_module(code)
        torch.manual_seed(0)
        _save(code.Net(), form, out)
        monkey.undo()
    return out.getvalue()


def _save(model: torch.nn.Module, form: str, out: io.BytesIO) -> None:
    if form == "pt2":
        torch.export.save(torch.export.export(model, (torch.ones(2, 4),)), out)
        return
    is_scripted = form.startswith("scripted")
    made = torch.jit.script(model) if is_scripted else torch.jit.trace(model, torch.ones(2, 4))
    if form.endswith("ptl"):
        out.write(made._save_to_buffer_for_lite_interpreter())
    else:
        torch.jit.save(made, out)


def diff(edit: str, form: str) -> Diff:
    return archive.diff(saved("base", form), saved(edit, form))


def rows(edit: str, form: str) -> list[str]:
    """The differences of the model, each with the part of its name that no process counts."""
    found = [change for change in diff(edit, form).changes if change.level is Level.MODEL]
    return [
        f"{one.what} {one.name.rpartition('___torch_mangle_')[2].lstrip('0123456789.')}: {one.in_words}"
        for one in found
    ]


def lines(edit: str, form: str) -> list[str]:
    """The lines that came and went, of all texts."""
    changes = [change for change in diff(edit, form).changes if isinstance(change, TextChange)]
    return [line[0] + " ".join(line[1:].split()) for one in changes for line in one.lines if line[0] in "+-"]


FORMS = ["scripted.pt", "scripted.ptl", "traced.pt", "traced.ptl", "pt2"]


@pytest.mark.parametrize("form", FORMS)
def test_a_model_that_is_made_twice_is_the_same(form: str) -> None:
    saved.cache_clear()
    before = saved("base", form)
    saved.cache_clear()
    assert archive.diff(before, saved("base", form)).same_model


def test_a_new_layer_is_one_node_though_it_gives_others_new_inputs_and_names() -> None:
    assert [row.partition(" at ")[0] for row in rows("layer", "pt2")] == [
        "node sigmoid: added, aten.sigmoid.default(x)"
    ]
    assert rows("layer", "pt2")[0].endswith("; taken by linear in place of x")
    (row,) = [row for row in rows("new constant", "pt2") if "taken" in row]
    assert row.startswith("node add: added, aten.add.Tensor(x, ")
    names = [change for change in diff("new constant", "pt2").changes if change.what == "names"]
    assert [(one.level, one.old, one.new) for one in names] == [
        (Level.IDS, "lift_fresh_copy", "lift_fresh_copy_1")
    ]


def test_a_new_layer_is_one_line_of_code() -> None:
    assert lines("layer", "scripted.pt") == ["+x = torch.sigmoid(x)"]
    assert lines("layer", "traced.pt")[1] == "+input = torch.sigmoid(x)"
    assert [row.partition(":")[0] for row in rows("layer", "traced.pt")] == ["method Net.forward"]
    names = [change for change in diff("layer", "traced.pt").changes if "names of" in change.what]
    assert [(one.level, one.what) for one in names] == [(Level.IDS, "names of variables")]


@pytest.mark.parametrize("form", FORMS[:4])
@pytest.mark.parametrize("edit", ["layer", "constant", "new constant", "attribute"])
def test_what_differs_has_its_name_in_the_old_file(edit: str, form: str) -> None:
    """Classes are mangled with other numbers in each file."""
    with archive.open(saved("base", form)) as old:
        names = {*units(old), *(methods(old)[1] if form.endswith("ptl") else ())}
    of_code = {"method", "function", "class", "bytecode"}
    found = [one.name for one in diff(edit, form).changes if one.what in of_code and one.status == "changed"]
    assert found or edit != "layer"
    assert names.issuperset(found)


def test_a_new_layer_gives_registers_other_numbers_which_are_not_told() -> None:
    (row,) = [row for row in rows("layer", "traced.ptl") if row.startswith("bytecode")]
    assert row == "bytecode Net.forward: instructions +7 −2"  # noqa: RUF001 (a minus sign)
    assert "+OP aten::sigmoid of 1 0" in lines("layer", "traced.ptl")


@pytest.mark.parametrize(
    ("form", "name"),
    [("traced.pt", "CONSTANTS.c0"), ("traced.ptl", "CONSTANTS.c0"), ("pt2", "lifted_tensor_0")],
)
def test_another_constant_is_one_tensor(form: str, name: str) -> None:
    (row,) = rows("constant", form)
    assert row.startswith(f"tensor {name}: 1 of 4 elements differ, 1 bit; max abs 0.5")


@pytest.mark.parametrize(("form", "name"), [("traced.pt", "CONSTANTS.c0"), ("pt2", "lifted_tensor_0")])
def test_a_new_constant_gives_others_new_numbers_which_are_ids(form: str, name: str) -> None:
    (tensor,) = [row for row in rows("new constant", form) if row.startswith("tensor")]
    where = r" at \S+net\.py:\d+" if form == "traced.pt" else ""  # the line that uses it
    assert re.fullmatch(rf"tensor {name}: added, float32 \[1\]{where}", tensor)
    (moved,) = [one for one in diff("new constant", form).changes if one.what == "numbers of constants"]
    assert (moved.level, moved.old) == (Level.IDS, name)


@pytest.mark.parametrize("form", ["scripted.pt", "scripted.ptl"])
def test_another_attribute_is_told_where_it_is(form: str) -> None:
    assert rows("attribute", form) == ["attribute one.k: 2.5 → 2.25", "attribute two.k: 2.5 → 2.25"]


def test_another_number_in_a_graph_is_told_by_node() -> None:
    found = [row.split(" at ")[0] for row in rows("attribute", "pt2")]
    assert found == ["node mul: aten.mul.Tensor(relu, 2.5)", "node mul_1: aten.mul.Tensor(relu_1, 2.5)"]


def test_another_activation_is_told_where_it_is_and_not_where_its_value_goes() -> None:
    assert [row.split(" at ")[0] for row in rows("activation", "pt2")] == [
        "node sigmoid: aten.relu.default(linear)",
        "node sigmoid_1: aten.relu.default(linear_1)",
    ]
    assert len(lines("activation", "scripted.pt")) == 2
    assert [line for line in lines("activation", "scripted.ptl") if "OP" in line] == [
        "-OP aten::relu of 1 0", "+OP aten::sigmoid of 1 0",
        "-OP aten::relu of 1 0", "+OP aten::sigmoid of 1 0",
    ]  # fmt: skip


def test_the_order_of_arguments_is_told() -> None:
    (row,) = rows("arguments", "pt2")
    assert "aten.sub.Tensor(add, b_shift)" in row
    assert "aten.sub.Tensor(b_shift, add)" in row
    assert lines("arguments", "traced.pt") == ["-return torch.sub(y, shift)", "+return torch.sub(shift, y)"]


@pytest.mark.parametrize("form", FORMS)
def test_another_dtype_is_told(form: str) -> None:
    found = rows("dtype", form)
    assert found[0] == "tensor shift: float32 [4] → float64 [4]"
    derived = [row for row in found[1:] if not row.startswith("program model.graph.tensor_values.")]
    assert derived == []


def test_a_new_submodule_is_told_with_its_tensors_and_nodes() -> None:
    found = rows("submodule", "pt2")
    assert {
        "tensor zero.lin.weight: added, float32 [4, 4]",
        "tensor zero.lin.bias: added, float32 [4]",
    } <= set(found)
    nodes = [row.split("(")[0] for row in found if row.startswith("node")]
    assert nodes == [
        "node linear: added, aten.linear.default", "node relu: added, aten.relu.default",
        "node mul: added, aten.mul.Tensor",
    ]  # fmt: skip
    assert not [row for row in found if "changed" in row or "→" in row]
    scripted = rows("submodule", "scripted.pt")
    assert next(row for row in scripted if row.startswith("attribute")).startswith("attribute zero: added")
    assert lines("submodule", "scripted.pt")[-1] == "+x = self.zero(x)"
