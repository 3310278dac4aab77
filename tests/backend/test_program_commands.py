"""The commands on programs that were lowered in parts, and runs and profiles of these."""

from __future__ import annotations

import io
import json
import traceback
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch", exc_type=ImportError)

import torch
from torch import nn

from archive.backend import (
    BackendError,
    lower,
    profile_program,
)
from archive.backend.values.running import run
from archive.base.errors import ArchiveError
from tests.backend.partitioned import (
    ROWS,
    Doubled,
    Everything,
    Failing,
    Silent,
    X,
    backend,
    calls,
    doubled,
    exported,
    loaded,
    same,
    supporting,
)
from tests.support import commands

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]  # export warns of much


def test_symbolicate_prints_the_source_of_a_handle(tmp_path: Path) -> None:
    target = tmp_path / "failing.pt2"
    torch.export.save(lower(exported(Failing(), torch.arange(3)), "aten"), target)
    by_handle, by_name = (commands.run("symbolicate", target, name) for name in ("1", "relu"))
    assert by_handle.returncode == 0
    assert b"return x.relu() + 1" in by_handle.stdout
    assert by_handle.stdout == by_name.stdout
    several = commands.run("symbolicate", target, "0", "2")
    assert several.stdout.count(b"Original traceback") == 2
    partition = commands.run("symbolicate", target, "debug_archive_delegate")
    assert partition.returncode == 0
    assert [line for line in partition.stdout.decode().splitlines() if line.startswith("node ")] == [
        f"node debug_archive_delegate.lowered_0/{name}:" for name in ("embedding", "relu", "add")
    ]
    unknown = commands.run("symbolicate", target, "17")
    assert unknown.returncode == 1
    assert b"no node '17'" in unknown.stderr


def test_inspect_names_the_backend_and_the_nodes_of_each_partition(tmp_path: Path) -> None:
    model, small, companion = tmp_path / "m.pt2", tmp_path / "s.pt2", tmp_path / "s.ptdbg"
    torch.export.save(lower(exported(Failing(), torch.arange(3)), "aten"), model)
    commands.well("split", model, "-o", small, "-c", companion)
    (facts,) = json.loads(commands.well("inspect", model, "--json"))["files"]
    assert facts["programs"]["model"]["lowered"] == {
        "lowered_0": {"backend": "aten", "nodes": {"embedding": 0, "relu": 1, "add": 2}}
    }
    printed = "\n".join(commands.well("inspect", file) for file in (model, small, companion))
    assert [line for line in printed.splitlines() if line.startswith("lowered ")] == [
        "lowered lowered_0: backend aten, nodes with handles embedding 0, relu 1, add 2",
        "lowered lowered_0: backend aten, handles of its nodes not in this file",
        "lowered lowered_0: backend (not recorded), nodes with handles embedding 0, relu 1, add 2",
    ]


def test_a_failed_operation_of_a_backend_is_at_its_line_and_no_matter_of_sizes(tmp_path: Path) -> None:
    target = tmp_path / "failing.pt2"
    torch.export.save(lower(exported(Failing(), torch.arange(3)), "aten"), target)
    with pytest.raises(ArchiveError) as caught:
        run(target, torch.tensor([1, 9, 2]))
    assert "model fails at " in str(caught.value)
    assert str(caught.value).endswith(": index out of range in self")
    assert ".py:" in str(caught.value)
    assert "takes" not in str(caught.value)


def test_a_log_of_a_split_program_is_explained_by_its_companion(tmp_path: Path) -> None:
    model, small, companion = tmp_path / "m.pt2", tmp_path / "s.pt2", tmp_path / "s.ptdbg"
    torch.export.save(lower(exported(Failing(), torch.arange(3)), "aten"), model)
    commands.well("split", model, "-o", small, "-c", companion)
    with pytest.raises(BackendError) as caught:
        torch.export.load(small).module()(torch.tensor([1, 9, 2]))
    log, other = tmp_path / "app.log", tmp_path / "other.log"
    log.write_text(f"ERROR {caught.value}\nnext\n", "utf-8")
    other.write_text(f"ERROR {caught.value}\n".replace("{0}", "{7}"), "utf-8")
    place = commands.well("symbolicate", model, "0").rstrip()
    expected = log.read_text("utf-8").replace(
        "Debug info for handle(s): debug_handles:{0}, was not found.", place
    )
    for files in ((model,), (small, "-c", companion), (companion,)):
        done = commands.run("symbolicate", *files, "--log", log)
        assert (done.returncode, done.stdout.decode()) == (0, expected)
        missing = commands.run("symbolicate", *files, "--log", other)
        assert missing.returncode == 1
        assert b"handles {7}: no lowered node of this archive has it" in missing.stderr
    alone = commands.run("symbolicate", small, "--log", log)
    assert (alone.returncode, alone.stdout) == (1, log.read_bytes())
    assert b"if `split` took them out, they are in the companion" in alone.stderr


def test_the_call_of_a_lowered_part_in_a_traceback_is_explained_by_its_handles(tmp_path: Path) -> None:
    model, log = tmp_path / "m.pt2", tmp_path / "app.log"
    torch.export.save(lower(exported(Failing(), torch.arange(3)), "aten"), model)
    small, companion = tmp_path / "s.pt2", tmp_path / "s.ptdbg"
    commands.well("split", model, "-o", small, "-c", companion)
    with pytest.raises(BackendError) as caught:
        torch.export.load(small).module()(torch.tensor([1, 9, 2]))
    text = "".join(traceback.format_exception(caught.value))
    assert "= torch.ops.higher_order.debug_archive_delegate(" in text
    log.write_text(f"ERROR {text}", "utf-8")
    done = commands.run("symbolicate", companion, "--log", log)
    assert (done.returncode, b"no source" in done.stderr) == (0, False)
    assert commands.well("symbolicate", model, "0").rstrip() in done.stdout.decode()


def test_the_commands_say_which_backend_is_unknown_and_how_they_know_it(tmp_path: Path) -> None:
    model = tmp_path / "m.pt2"
    with backend("unknown") as name:
        torch.export.save(lower(exported(nn.Linear(4, 4), X), name), model)
    for command in ("run", "profile"):
        done = commands.run(command, model)
        assert done.returncode == 2
        assert done.stderr.decode().startswith(
            f"debug-archive: {model}: Preprocessing function for backend unknown is not registered. "
            "no backend 'unknown'; available: aten, "
        )
        assert done.stderr.decode().endswith(
            "python -c 'import MODULE; from archive.cli import main; main()' …\n"
        )


def written(program: Any) -> bytes:  # noqa: ANN401
    """A program as PyTorch saves it."""
    file = io.BytesIO()
    torch.export.save(program, file)
    return file.getvalue()


def test_a_run_shows_all_operations_of_partitions_at_the_lines_of_the_model(tmp_path: Path) -> None:
    program = exported(Everything(), X, dynamic_shapes=(ROWS,)).run_decompositions({})
    model, small, companion = tmp_path / "m.pt2", tmp_path / "s.pt2", tmp_path / "s.ptdbg"
    model.write_bytes(written(lower(program, "aten")))
    commands.well("split", model, "-o", small, "-c", companion)
    given = torch.linspace(-1, 1, 20).view(5, 4)
    with (
        run(written(program), given) as base,
        run(model, given) as lowered,
        run(small, given, companion=companion) as joined,
        run(small, given) as bare,
    ):
        expected = Counter((each.op, each.line, each.results[0].digest) for each in base.operations)
        for found in (lowered, joined):
            assert expected == Counter(
                (each.op, each.line, each.results[0].digest) for each in found.operations
            )
            assert not found.unseen
            assert not found.diff(base).is_beyond
            assert len(found.diff(base).gaps) == len(base.diff(base).gaps)
        assert [each.op for each in bare.operations] == [each.op for each in lowered.operations]
        assert all(each.place.source is None for each in bare.operations)
        inside = [each for each in lowered.operations if "<debug_archive_delegate" in each.place.hierarchy]
        assert "aten::max" in {each.op for each in inside}


def test_a_run_shows_what_partitions_return_if_their_backend_records_no_values() -> None:
    program = exported(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.Sigmoid()), X)
    with (
        backend(runtime=Silent, supports=supporting("linear", "sigmoid")) as name,
        run(written(program), X) as base,
        run(written(lower(program, name)), X) as lowered,
    ):
        found = [(each.op, each.place.hierarchy, each.line) for each in lowered.operations]
        expected = [(each.op, each.line) for each in base.operations]
        assert [(op, line) for op, _, line in found] == [expected[number] for number in (0, 1, 3)]
        assert "<debug_archive_delegate" in found[0][1]
        assert lowered.unseen == {"lowered operations": 1}
        assert torch.equal(lowered.value(lowered.operations[-1]), base.value(base.operations[-1]))
        assert not lowered.diff(base).is_beyond
        assert len(lowered.diff(base).gaps) == 3


def test_a_profile_has_the_operations_of_backends_and_of_pytorch_at_their_lines() -> None:
    program = exported(Everything(), X, dynamic_shapes=(ROWS,))
    with backend(supports=supporting("linear", "relu", "max")) as name:
        file = io.BytesIO()
        torch.export.save(lower(program, name), file)
        found = profile_program(file.getvalue(), torch.ones(5, 4), runs=2)
        events = Counter((event.name, event.handle >= 0) for event in found.events)
        assert events["aten::linear", True] == 4
        assert events["aten::relu", True] == events["aten::max", True] == 2
        assert events["cond", False] == events["aten::linear", False] == 0
        summed = events["aten::add", False] + events["aten::sub", False]
        assert summed == 2 * 3  # of the buffer, the branch, and both results
        places = [event.place.source for event in found.events if event.name == "aten::linear"]
        lines = {place.text for place in places if place is not None}
        assert lines == {
            "y = torch.relu(self.first(x)).view(x.shape[0] * 2, 2)",
            "low, high = self.last(y.reshape(-1, 4)).max(dim=-1)",
        }
        with pytest.raises(ArchiveError, match=r"model fails with .*: Guard failed.*; it takes x"):
            profile_program(file.getvalue(), torch.ones(5, 3))


def test_a_part_whose_backend_records_nothing_is_one_event() -> None:
    program = exported(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), X)
    with backend(preprocess=doubled, runtime=Doubled, link="inline", supports=supporting("linear")) as name:
        found = profile_program(written(lower(program, name)), X)
        assert [event.name for event in found.events] == ["debug_archive_delegate", "aten::relu"]


def test_the_command_profiles_what_is_lowered_by_the_lines_of_the_model(tmp_path: Path) -> None:
    program = exported(Everything(), X, dynamic_shapes=(ROWS,))
    model, small, companion = tmp_path / "m.pt2", tmp_path / "s.pt2", tmp_path / "s.ptdbg"
    torch.export.save(lower(program, "aten"), model)
    commands.well("split", model, "-o", small, "-c", companion)
    found = {}
    for file, more in ((model, ()), (small, ("-c", companion))):
        done = commands.well("profile", file, *more, "--runs", "2", "--json")
        (found[file],) = json.loads(done)["files"]
    facts = found[model]
    assert (facts["backend"], facts["runs"], facts["peak_bytes"]) == ("exported program", 2, None)
    calls_of = {row["text"]: row["calls"] for row in facts["line"]}
    assert calls_of["y = torch.cond(y.sum() > 0, lambda z: z + 1, lambda z: z - 1, (y,))"] == 2 * 3
    assert {row["name"] for row in facts["module"]} >= {"top(Everything)", "first", "last"}
    assert {row["name"]: row["calls"] for row in found[small]["line"]} == {
        row["name"]: row["calls"] for row in facts["line"]
    }
    assert commands.run("profile", small).returncode == 1  # it has no lines


class Attending(nn.Module):
    """Attention as GPT-2 of transformers has it: its result is viewed as rows."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)
        return y.transpose(1, 2).reshape(2, 6, 16).view(-1, 16)


class Scaled(nn.Module):
    def forward(self, x: torch.Tensor, *, scale: float, shift: torch.Tensor) -> torch.Tensor:
        return x * scale + shift


def test_a_program_with_arguments_by_name_is_profiled() -> None:
    named = {"scale": 3.0, "shift": torch.ones(4)}
    program = torch.export.export(Scaled(), (X,), named)
    for each in (program, lower(program, "aten")):
        data = written(each)
        for inputs in ((), (X, 3.0, torch.ones(4))):
            profile = profile_program(data, *inputs, runs=2)
            assert Counter(row.name for row in profile.by_operator()) == {"aten::mul": 1, "aten::add": 1}
        for wrong in ((X,), (X, 3.0), (X, 3.0, torch.ones(4), X)):
            with pytest.raises(ArchiveError, match="it takes x, float32"):
                profile_program(data, *wrong)


def test_attention_is_lowered_that_pytorch_does_not_decompose() -> None:
    x = torch.linspace(-1, 1, 192).view(2, 6, 2, 8).transpose(1, 2)
    program = exported(Attending(), x)
    with pytest.raises(ValueError, match="Cannot view a tensor with shape"):  # a fault of PyTorch 2.13
        program.run_decompositions()
    lowered = lower(program, "aten")
    assert calls(lowered)
    assert same(loaded(lowered).module()(x), Attending()(x))
