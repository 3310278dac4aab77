"""``debug-archive run``, as a user calls it."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", exc_type=ImportError)

import safetensors.numpy
import torch

from tests.support.commands import run, well
from tests.support.corpus import FIXTURES, KINDS, ORACLES
from tests.support.documents import file_of
from tests.values.models import form, made

pytestmark = [
    pytest.mark.torch,
    *(pytest.mark.filterwarnings(f"ignore::{kind}Warning") for kind in ("Deprecation", "Future", "User")),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model scripted and exported, one with a wrong weight, and its inputs in all kinds of files."""
    folder = tmp_path_factory.mktemp("values")
    model, x = made("looping")
    for name, kind in (("m.pt", "scripted"), ("m.pt2", "exported")):
        data = form(model, x, kind)
        assert isinstance(data, bytes)
        (folder / name).write_bytes(data)
    model.step.weight.data *= 1.02
    data = form(model, x, "scripted")
    assert isinstance(data, bytes)
    (folder / "wrong.pt").write_bytes(data)
    torch.save(x, folder / "tensor.pt")
    torch.save([x], folder / "list.pt")
    torch.save({"x": x}, folder / "named.pt")
    np.save(folder / "x.npy", x.numpy())
    np.savez(folder / "unnamed.npz", x.numpy())
    np.savez(folder / "named.npz", x=x.numpy())
    safetensors.numpy.save_file({"x": x.numpy()}, folder / "named.safetensors")
    torch.save({"x": object}, folder / "object.pt")
    return folder


FILES = ["tensor.pt", "list.pt", "named.pt", "x.npy", "unnamed.npz", "named.npz", "named.safetensors"]


@pytest.mark.parametrize("model", ["m.pt", "m.pt2"])
def test_inputs_of_each_kind_of_file_are_the_same(model: str, folder: Path) -> None:
    printed = {well("run", folder / model, "--input", folder / name).replace(name, "") for name in FILES}
    assert len(printed) == 1


def test_an_input_with_objects_is_refused_and_not_executed(folder: Path) -> None:
    done = run("run", folder / "m.pt", "--input", folder / "object.pt")
    assert done.returncode == 2
    assert b"object.pt: no inputs can be read from it" in done.stderr


@pytest.mark.parametrize(("mine", "base"), [("m.pt", "m.pt2"), ("m.pt2", "m.pt")])
@pytest.mark.parametrize("inputs", [(), ("--input", "random:7")])
def test_both_forms_run_with_the_same_inputs(
    mine: str, base: str, inputs: tuple[str, ...], folder: Path
) -> None:
    facts = file_of(run("run", folder / mine, "--base", folder / base, *inputs, "--json").stdout)
    assert facts["first"] is None
    assert facts["results"][0]["max_abs"] < 1e-6
    assert [each["operator"] for each in facts["pairs"]].count("aten::tanh") == 4


def test_the_first_line_beyond_the_tolerance_is_status_1(folder: Path) -> None:
    words = ("run", folder / "wrong.pt", "--base", folder / "m.pt", "--input", folder / "tensor.pt")
    done = run(*words)
    assert done.returncode == 1
    assert b"first line beyond the tolerance: " in done.stdout
    assert run(*words, "--tolerance", "1").returncode == 0
    first = file_of(run(*words, "--json").stdout)["first"]
    assert (Path(first["file"]).name, first["operator"], first["module"]) == (
        "models.py",
        "aten::linear",
        "step",
    )
    assert first["max_rel"] > 1e-5


def test_saved_values_are_those_of_the_run(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "values.safetensors"
    words = ("run", folder / "m.pt", "--input", folder / "tensor.pt", "--save", target)
    facts = file_of(well(*words, "--json"))
    saved = safetensors.numpy.load_file(target)
    assert list(saved) == [f"{each['number']:05}.{each['operator']}" for each in facts["operations"]]
    for each, value in zip(facts["operations"], saved.values(), strict=True):
        assert each["results"][0]["max"] == pytest.approx(float(value.max()))
    with safetensors.safe_open(target, "numpy") as opened:
        place = json.loads(opened.metadata()["00000.aten::linear"])
    assert place["module"] == "step"
    assert run(*words).returncode == 2  # nothing is replaced without --force


def test_a_watched_line_is_shown_each_time_it_ran(folder: Path) -> None:
    words = ("run", folder / "m.pt", "--input", folder / "tensor.pt")
    line = file_of(well(*words, "--json"))["operations"][0]["line"]
    shown = well(*words, "--watch", f"models.py:{line}")
    assert shown.count("tensor([[") == 8
    done = run(*words, "--watch", "other.py:1")
    assert done.returncode == 2
    assert b"no operation ran there" in done.stderr


def test_what_first_nan_says_is_so(folder: Path, tmp_path: Path) -> None:
    words = ("run", folder / "m.pt", "--input", tmp_path / "x.npy", "--first-nan")
    np.save(tmp_path / "x.npy", np.ones((3, 8), np.float32))
    assert b"no NaN in the results of 8 operations" in run(*words).stdout
    np.save(tmp_path / "x.npy", np.full((3, 8), np.nan, np.float32))
    done = run(*words)
    assert done.returncode == 1
    assert (
        b"no operation makes the first NaN: a weight or an input has it\nfirst line that got it: "
        in done.stdout
    )
    assert b"  input 0: float32[3x8]: no finite element, 24 NaN" in done.stdout
    assert not any(line.startswith(b"first NaN: ") for line in done.stdout.splitlines())
    facts = file_of(run(*words, "--json").stdout.decode())
    assert facts["first_nan"] is None
    assert [each["number"] for each in facts["operations"]] == [
        each["number"] for each in facts["reaching_nan"]
    ]


class Masked(torch.nn.Module):
    """The first NaNs are hidden, the last are returned."""

    def forward(self, x: torch.Tensor, hides: int) -> torch.Tensor:
        y = torch.log(x)
        y = torch.where(x > 0, y, torch.zeros_like(y))
        if hides == 1:
            return y
        return y * torch.sqrt(x)


@pytest.mark.parametrize("hides", [0, 1])
def test_the_first_nan_that_reaches_a_result_is_named(tmp_path: Path, hides: int) -> None:
    torch.jit.save(torch.jit.script(Masked()), tmp_path / "m.pt")
    np.save(tmp_path / "x.npy", np.array([1, -1], np.float32))
    words = (
        "run",
        tmp_path / "m.pt",
        "--input",
        tmp_path / "x.npy",
        "--input",
        str(hides),
        "--first-nan",
    )
    done, facts = run(*words), file_of(run(*words, "--json").stdout.decode())
    lines = done.stdout.decode().splitlines()
    assert done.returncode == 1
    assert lines[0].endswith("y = torch.log(x)")
    assert facts["first_nan"]["operator"] == "aten::log"
    reaching = [each["operator"] for each in facts["reaching_nan"]]
    assert reaching == ([] if hides else ["aten::sqrt"])
    if hides:
        assert "  no result of the model has it" in lines
    else:
        at = lines.index("  it reaches no result of the model")
        assert lines[at + 1].endswith("return y * torch.sqrt(x)")
        assert lines[at + 1].startswith("first NaN that reaches a result: ")


def test_elements_that_are_finite_in_only_one_are_infinitely_far_away(tmp_path: Path) -> None:
    for name, value in (("good", 1.0), ("bad", float("nan"))):
        layer = torch.nn.Linear(2, 2)
        torch.nn.init.constant_(layer.weight, 1.0)
        layer.weight.data[0, 0] = value
        torch.jit.save(torch.jit.script(layer.eval()), tmp_path / f"{name}.pt")
    words = ("run", tmp_path / "bad.pt", "--base", tmp_path / "good.pt", "--input", "2x2")
    done, facts = run(*words), file_of(run(*words, "--json").stdout.decode())
    assert b"result 0: max abs inf, max rel inf, SNR -inf dB, 2 finite in only one" in done.stdout
    (result,) = facts["results"]
    assert result == dict.fromkeys(["max_abs", "max_rel", "snr_db", "cosine", "mse", "mae"]) | {"odd": 2}
    assert facts["doubts"] == []


class Short(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.erf(torch.sin(x).cumsum(0)).floor()


class Long(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(torch.cos(x.softmax(-1)) * 2.0).exp()


def test_models_of_which_few_operations_belong_together_may_not_be_the_same(tmp_path: Path) -> None:
    for model in (Short(), Long()):
        torch.jit.save(torch.jit.script(model), tmp_path / f"{type(model).__name__}.pt")
    words = ("run", tmp_path / "Short.pt", "--base", tmp_path / "Long.pt", "--input", "2x2")
    (doubt,) = file_of(run(*words, "--json").stdout.decode())["doubts"]
    assert doubt == "they may not be of the same model: 0 of 4 and 0 of 5 operations have one in the other"
    assert f"doubtful: {doubt}\n".encode() in run(*words).stdout


@pytest.mark.parametrize("ending", [".npz", ".npy", ".pt"])
def test_nobody_is_advised_to_run_what_is_no_input(folder: Path, tmp_path: Path, ending: str) -> None:
    """PyTorch and NumPy take any bytes for a pickle, and say how it could be run all the same."""
    garbage, objects, module = (tmp_path / f"{name}{ending}" for name in ("garbage", "objects", "module"))
    garbage.write_bytes(b"garbage\n")
    if ending == ".pt":
        torch.save(argparse.Namespace(a=1), objects)
    elif ending == ".npy":
        np.save(objects, np.array([{}], dtype=object), allow_pickle=True)
    else:
        np.savez(objects, np.array([{}], dtype=object))
    module.write_bytes((KINDS / "module.pt").read_bytes())
    for file in (garbage, objects, module):
        done = run("run", folder / "m.pt", "--input", file)
        assert done.returncode == 2
        assert b": no inputs can be read from it: " in done.stderr
        for word in (b"pickle", b"weights_only", b"trust"):
            assert word not in done.stderr, done.stderr
    assert b"found a text file" in run("run", folder / "m.pt", "--input", garbage).stderr


def test_operations_without_a_line_are_noted(folder: Path, tmp_path: Path) -> None:
    well("split", folder / "m.pt", "-o", tmp_path / "small.pt", "-c", tmp_path / "m.ptdbg")
    words = ("run", tmp_path / "small.pt", "--input", folder / "tensor.pt")
    assert b"8 of 8 operations have no line in its debug info; -c gives a companion" in run(*words).stderr
    assert run(*words, "-c", tmp_path / "m.ptdbg").stderr == b""


@pytest.mark.parametrize("words", [("--watch", "a:1", "--json"), ("--watch", "a:1", "--first-nan")])
def test_options_that_exclude_each_other_are_refused(words: tuple[str, ...], folder: Path) -> None:
    assert run("run", folder / "m.pt", *words).returncode == 2


def test_the_table_has_each_operation_s_module_and_pytorch_s_warnings_are_not_shown(tmp_path: Path) -> None:
    model, x = made("transformer")
    quantised = torch.ao.quantization.quantize_dynamic(model, {torch.nn.Linear}, dtype=torch.qint8)
    for name, each in (("m.pt", model), ("q.pt", quantised)):
        data = form(each, x, "scripted")
        assert isinstance(data, bytes)
        (tmp_path / name).write_bytes(data)
    torch.save(x, tmp_path / "x.pt")
    words = ("run", tmp_path / "q.pt", "--base", tmp_path / "m.pt", "--input", tmp_path / "x.pt")
    done = run(*words, "--tolerance", "0.1")
    assert done.stderr == b""
    (row,) = [line.split() for line in done.stdout.decode().splitlines() if "blocks.1.attention.out" in line]
    assert row[1:4] == ["blocks.1.attention.out", "quantized::linear_dynamic", "aten::linear"]


def test_the_lines_of_a_norm_and_of_the_layer_that_it_is_folded_into_are_named(tmp_path: Path) -> None:
    model, x = made("convolutional")
    base = form(model, x, "scripted")
    model.layers[0].second.weight.data *= 1.02
    mine = form(model, x, "frozen")
    assert isinstance(base, bytes)
    assert isinstance(mine, bytes)
    (tmp_path / "base.pt").write_bytes(base)
    (tmp_path / "mine.pt").write_bytes(mine)
    torch.save(x, tmp_path / "x.pt")
    words = ("run", tmp_path / "mine.pt", "--base", tmp_path / "base.pt", "--input", tmp_path / "x.pt")
    printed = run(*words).stdout.decode()
    assert ": y = self.last_norm(y)\n" in printed
    assert "or where it is folded into: " in printed
    assert ": y = self.second(y)\n" in printed
    first = file_of(run(*words, "--json").stdout)["first"]
    assert first["layer"]["line"] == first["line"] - 1


@pytest.mark.parametrize("inputs", [[], ["--input", "4"]])
def test_an_error_shows_options_that_fit_this_file(inputs: list[str]) -> None:
    program = FIXTURES / "exported" / "decoder.pt2"
    said = run("run", ORACLES / "plain_stack.pt", *inputs).stderr.decode()
    assert "; it takes x: Tensor; a Tensor is given by its sizes and type, as in --input 2x3:float32" in said
    said = run("run", program, "--input", "4").stderr.decode()
    assert said.endswith(": --input 1x5:int64 --input 5:int64\n")
    options = said.rpartition(": ")[2].split()
    assert run("run", program, *options).returncode == 0
