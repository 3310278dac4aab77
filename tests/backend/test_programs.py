"""Programs are lowered in parts: they compute what they did, whichever nodes the backend supports."""

from __future__ import annotations

import copy
import io
import json
import traceback
import warnings
from collections import Counter
from contextlib import contextmanager
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch", exc_type=ImportError)

import torch
from torch import nn
from torch.utils import _pytree as pytree

from archive.backend import (
    BackendError,
    LoweringError,
    lower,
    profile_program,
    register_backend,
    unregister_backend,
)
from archive.backend.aten.backend import ATEN, Aten
from archive.backend.lower.codegen import UNAVAILABLE_WARNING
from archive.backend.programs.delegates import delegate
from archive.backend.values.running import run
from archive.base.errors import ArchiveError
from tests.backend.exported_models import MODELS, made
from tests.backend.test_exported_archives import PROGRAMS
from tests.support import commands
from tests.support.sampling import sampled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]  # export warns of much

X = torch.linspace(-1, 1, 12).view(3, 4)
ROWS = {0: torch.export.Dim("rows")}


@contextmanager
def backend(name: str = "some", **given: Any) -> Iterator[str]:  # noqa: ANN401
    """The backend ``aten`` by another name, with other parts."""
    parts = {"preprocess": ATEN.preprocess, "runtime": ATEN.runtime, "link": ATEN.link}
    register_backend(name, **{**parts, **given})
    try:
        yield name
    finally:
        unregister_backend(name)


def supporting(*kinds: str) -> Callable[[torch.fx.Node], bool]:
    """Whether a node calls one of some operators."""
    return lambda node: str(node.target).split(".")[1] in kinds


def exported(model: nn.Module, *arguments: Any, **how: Any) -> Any:  # noqa: ANN401
    return torch.export.export(model.eval(), arguments, **how)


def loaded(program: Any) -> Any:  # noqa: ANN401
    """A program, saved and loaded by PyTorch."""
    file = io.BytesIO()
    torch.export.save(program, file)
    return torch.export.load(io.BytesIO(file.getvalue()))


def calls(program: Any) -> list[torch.fx.Node]:  # noqa: ANN401
    """The calls of backends in a program."""
    return [node for node in program.graph.nodes if node.target is delegate]


def kinds_of(graph: Any) -> list[str]:  # noqa: ANN401
    """The operators that a graph itself calls."""
    return [str(node.target).split(".")[1] for node in graph.nodes if "aten." in str(node.target)]


def running(program: Any) -> nn.Module:  # noqa: ANN401
    """A module of a program, whose tensors are its own."""
    return copy.deepcopy(program.module())


def same(found: object, expected: object) -> bool:
    leaves, others = pytree.tree_leaves(found), pytree.tree_leaves(expected)
    pairs = zip(leaves, others, strict=True)
    return all(
        torch.equal(one.nan_to_num(), two.nan_to_num()) if isinstance(one, torch.Tensor) else one == two
        for one, two in pairs
    )


class Everything(nn.Module):
    """Writes a buffer, has a condition, and a size that may vary."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.last = nn.Linear(4, 4)
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.count.add_(1)
        y = torch.relu(self.first(x)).view(x.shape[0] * 2, 2)
        y = torch.cond(y.sum() > 0, lambda z: z + 1, lambda z: z - 1, (y,))
        low, high = self.last(y.reshape(-1, 4)).max(dim=-1)
        return {"sum": (low + high) * self.count, "rows": y}


@pytest.mark.parametrize("seed", range(4))
def test_a_program_with_sizes_buffers_and_conditions_computes_the_same(seed: int) -> None:
    torch.manual_seed(0)
    program = exported(Everything(), X, dynamic_shapes=(ROWS,))
    chance = Random(seed)  # noqa: S311 (no secret)
    supported = {node.name: chance.random() < 0.6 for node in program.run_decompositions({}).graph.nodes}
    with backend(supports=lambda node: supported.get(node.name, False)) as name:
        lowered = lower(program, name)
        assert calls(lowered)
        ways = [*map(running, (program, lowered, loaded(lowered), lowered.run_decompositions({})))]
        for rows in (3, 7, 2, 3):
            expected, *found = (way(torch.linspace(-1, rows, 4 * rows).view(rows, 4)) for way in ways)
            assert all(same(each, expected) for each in found)
        assert [float(way.count) for way in ways] == [4.0] * 4
        with pytest.raises(AssertionError, match="Guard failed"):
            ways[1](torch.ones(3, 5))


@pytest.mark.parametrize("path", sampled(PROGRAMS, most=8), ids=lambda path: path.stem)
def test_programs_of_real_archives_compute_the_same_whichever_nodes_are_lowered(path: Path) -> None:
    program = torch.export.load(path)
    arguments, named = program.example_inputs
    torch.manual_seed(0)
    expected = running(program)(*arguments, **named)
    chance = Random(path.stem)  # noqa: S311 (no secret)
    for share in (0.3, 1):
        with backend(supports=lambda _, share=share: chance.random() < share) as name:
            try:
                lowered = lower(program, name)
            except LoweringError as error:
                assert "supports no operation" in str(error) or "Source code" in str(error)  # noqa: PT017
                continue
            for way in (lowered, loaded(lowered)):
                torch.manual_seed(0)
                assert same(running(way)(*arguments, **named), expected)


@pytest.mark.parametrize("model", MODELS)
def test_a_backend_without_supports_gets_what_its_preprocess_takes(model: str) -> None:
    module, arguments = made(model)
    program = torch.export.export(module, arguments)
    lowered = lower(program, "aten")
    assert len(calls(lowered)) == 1
    assert not kinds_of(lowered.graph)
    assert same(lowered.module()(*arguments), module(*arguments))


def no_relu(original: Any, spec: Any, handles: Any) -> Any:  # noqa: ANN401
    if any("relu" in operation.kind for operation in original.graphs["forward"].operations()):
        raise LoweringError("relu is not supported")
    return ATEN.preprocess(original, spec, handles)


def test_what_preprocess_refuses_runs_in_pytorch() -> None:
    program = exported(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)), X)
    with backend(preprocess=no_relu) as name:
        lowered = lower(program, name)
        assert len(calls(lowered)) == 2
        assert kinds_of(lowered.graph) == ["relu"]
        assert same(lowered.module()(X), program.module()(X))


def test_a_program_of_which_nothing_is_supported_is_refused() -> None:
    program = exported(nn.Linear(4, 4), X)
    with (
        backend(supports=lambda _: False) as name,
        pytest.raises(LoweringError, match="the backend some supports no operation of the program"),
    ):
        lower(program, name)


def test_where_preprocess_refuses_all_the_reason_of_the_first_is_given() -> None:
    def refusing(original: Any, *_: Any) -> Any:  # noqa: ANN401
        raise LoweringError("\n".join(each.kind for each in original.graphs["forward"].operations()))

    program = exported(nn.Sequential(nn.Sigmoid(), nn.ReLU()), X)
    with backend(preprocess=refusing) as name, pytest.raises(LoweringError) as caught:
        lower(program, name)
    assert str(caught.value) == (
        "the backend some supports no operation of the program; it refuses the first: aten::sigmoid"
    )


def test_what_is_supported_and_refused_together_is_an_error_with_its_line() -> None:
    program = exported(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), X)
    with (
        backend(preprocess=no_relu, supports=lambda _: True) as name,
        pytest.raises(LoweringError, match="relu is not supported"),
    ):
        lower(program, name)


class Blocks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Linear(4, 4)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(4, 4), nn.ReLU()) for _ in range(12))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return x


def test_paths_choose_modules() -> None:
    program = exported(Blocks(), X)
    lowered = lower(program, "aten", paths=["stem", "blocks.1"])  # and not blocks.10
    assert len(calls(lowered)) == 2
    assert len(kinds_of(lowered.graph)) == 25 - 3
    assert same(lowered.module()(X), program.module()(X))
    for paths in (["blok"], ["blocks.20"], "stem", []):
        with pytest.raises(LoweringError, match=r"part|path"):
            lower(program, "aten", paths=paths)


def test_a_second_backend_lowers_what_the_first_left_with_handles_of_its_own() -> None:
    program = exported(Blocks(), X)
    with backend("first", supports=supporting("linear")), backend("second", supports=supporting("relu")):
        both = lower(lower(program, "first"), "second")
        assert {node.kwargs["backend"] for node in calls(both)} == {"first", "second"}
        assert not kinds_of(both.graph)
        inner = [module for _, module in both.graph_module.named_children()]
        handles = [
            node.meta["custom"]["debug_handle"]
            for each in inner
            for node in each.graph.nodes
            if node.meta.get("custom")
        ]
        assert sorted(handles) == list(range(25))
        assert same(loaded(both).module()(X), program.module()(X))


# --- what must not move, and what must not be forgotten


def test_random_numbers_are_those_of_the_program() -> None:
    class Noisy(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.rand_like(x) * x + torch.nn.functional.dropout(x + 1, training=True)

    program = exported(Noisy(), X)
    lowered = lower(program, "aten")
    assert kinds_of(lowered.graph) == ["rand_like", "dropout"]
    torch.manual_seed(1)
    expected = program.module()(X)
    torch.manual_seed(1)
    assert same(lowered.module()(X), expected)


def test_arguments_that_change_are_changed() -> None:
    class Writing(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            x.mul_(2)
            return x + y

    program = exported(Writing(), X.clone(), X)
    lowered = loaded(lower(program, "aten"))
    given = X.clone()
    assert same(lowered.module()(given, X), X * 3)
    assert same(given, X * 2)


def test_a_partition_may_take_nothing() -> None:
    class Ranging(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.sin(x) + torch.arange(4)

    program = exported(Ranging(), X)
    with backend(supports=supporting("arange")) as name:
        lowered = lower(program, name)
        assert kinds_of(lowered.graph) == ["sin", "add"]
        assert same(loaded(lowered).module()(X), program.module()(X))
        assert same(loaded(lowered.run_decompositions()).module()(X), program.module()(X))


def test_weights_that_change_after_loading_are_compiled_again() -> None:
    program = exported(nn.Linear(4, 4), X)
    module = loaded(lower(program, "aten")).module()
    module(X)
    module.load_state_dict({"weight": torch.eye(4), "bias": torch.ones(4)})
    assert same(module(X), X + 1)
    with torch.no_grad():
        module.bias.zero_()
    assert same(module(X), X)


def test_gradients_are_those_of_the_program() -> None:
    program = exported(Blocks(), X)
    found = []
    for way in (program, loaded(lower(program, "aten"))):
        module = running(way)
        module(X).square().sum().backward()
        found.append({name: each.grad for name, each in module.named_parameters()})
    assert len(found[0]) == 26
    assert found[0].keys() == found[1].keys()
    assert all(same(found[1][name], grad) for name, grad in found[0].items())


def doubled(original: Any, *_: Any) -> Any:  # noqa: ANN401
    """A state without the weights themselves."""
    program = original.program
    held = {**program.state_dict, **program.constants}
    return {name: 2 * tensor.detach() for name, tensor in held.items()}


class Doubled:
    """Computes a linear layer twice as large."""

    last_handle = -1

    def is_available(self) -> bool:
        return True

    def compile(self, processed: Any, spec: Any) -> Any:  # noqa: ANN401
        return dict.fromkeys(spec, processed)

    def execute(self, handle: Any, inputs: list[Any]) -> list[Any]:  # noqa: ANN401
        return [nn.functional.linear(inputs[0], handle["0.weight"], handle["0.bias"])]


def test_weights_that_a_backend_makes_are_kept_and_those_that_nothing_takes_are_not() -> None:
    program = exported(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), X)
    with backend(preprocess=doubled, runtime=Doubled, link="inline", supports=supporting("linear")) as name:
        lowered = loaded(lower(program, name))
        assert not lowered.state_dict
        held = [each for each in lowered.constants.values() if each.dtype != torch.uint8]
        assert {tuple(each.shape) for each in held} == {(4, 4), (4,)}
        assert torch.allclose(lowered.module()(X), 2 * program.module()(X))


def test_tied_weights_stay_one_tensor() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.out = nn.Embedding(5, 4), nn.Linear(4, 5, bias=False)
            self.out.weight = self.embedding.weight

        def forward(self, words: torch.Tensor) -> torch.Tensor:
            return self.out(self.embedding(words))

    words = torch.arange(5)
    program = exported(Tied(), words)
    with backend(supports=supporting("linear")) as name:
        lowered = loaded(lower(program, name))
        assert [each.dtype for each in lowered.constants.values()] == [torch.uint8]
        assert same(lowered.module()(words), program.module()(words))


def test_the_program_itself_stays_as_it_is() -> None:
    program = exported(Everything(), X)
    before = str(program), sorted(program.state_dict)
    lower(program, "aten")
    assert (str(program), sorted(program.state_dict)) == before
    assert (
        lower(program, "aten").graph.python_code("self").src
        == lower(program, "aten").graph.python_code("self").src
    )


# --- failures


class Failing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(5, 4)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        x = self.table(words)
        return x.relu() + 1


def test_a_failing_operation_shows_the_model_s_line_and_its_handle(tmp_path: Path) -> None:
    program = loaded(lower(exported(Failing(), torch.arange(3)), "aten"))
    with pytest.raises(BackendError) as caught:
        program.module()(torch.tensor([1, 9, 2]))
    error = caught.value
    assert error.message == "index out of range in self"
    assert error.handles == (0,)
    assert error.module_hierarchy == "top(Failing)::<unknown>.table(Embedding)::forward.aten::embedding"
    assert max(map(len, traceback.format_exception(error))) < 2_000  # no state in it
    told, _, place = str(error).partition("\n\n")
    assert told == error.message
    assert place.splitlines()[0] == f"Module hierarchy:{error.module_hierarchy}"
    assert 'test_programs.py", line' in place
    torch.export.save(program, tmp_path / "m.pt2")
    printed = commands.well("symbolicate", tmp_path / "m.pt2", "0").splitlines()
    assert place.splitlines()[1:] == printed[1:]
    assert printed[1] == "Original traceback:"


def test_a_failing_operation_of_a_program_without_traces_names_its_handle() -> None:
    program = lower(exported(Failing(), torch.arange(3)), "aten")
    for module in program.graph_module.modules():
        for node in getattr(module, "graph", torch.fx.Graph()).nodes:
            node.meta.pop("custom", None)
    with pytest.raises(BackendError) as caught:
        program.module()(torch.tensor([1, 9, 2]))
    assert str(caught.value).endswith("Debug info for handle(s): debug_handles:{0}, was not found.")


class Away(Aten):
    """A runtime that may be unavailable."""

    here = True

    def is_available(self) -> bool:
        return self.here


def test_a_backend_that_is_not_available_warns_and_does_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    program = exported(Failing(), torch.arange(3))
    with backend(runtime=Away) as name:
        module = lower(program, name).module()
        module(torch.arange(3))
        monkeypatch.setattr(Away, "here", False)
        for each in (module, lower(program, name).module()):
            with pytest.raises(BackendError, match="Backend is not available"):
                each(torch.arange(3))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            lower(program, name)
        assert UNAVAILABLE_WARNING.format(name) in [str(each.message) for each in caught]


@pytest.mark.parametrize(
    ("state", "why"),
    [
        ('{"tuple": [{"dict": []}, {"dict": []}]}', "KeyError|forward|a text and tensors as state"),
        ("{", "a state as JSON"),
        ("[" * 100_000, "a state as JSON"),
        ('{"tensor": 7}', "a state with 2 tensors"),
        ("[1, 2]", "options of methods and a state, found list"),
        ('{"tuple": [{"dict": [["forward", {"dict": []}]]}, 3]}', "expected a text and tensors as state"),
        (
            '{"tuple": [{"dict": [["forward", {"dict": []}]]}, {"tuple": ["{}", []]}]}',
            "expected the fields version",
        ),
    ],
)
def test_a_state_of_another_release_is_refused(state: str, why: str) -> None:
    program = lower(exported(nn.Linear(4, 4), X), "aten")
    (name,) = (name for name, tensor in program.constants.items() if tensor.dtype == torch.uint8)
    program.constants[name] = torch.tensor(list(state.encode()), dtype=torch.uint8)
    with pytest.raises(ArchiveError, match=f"backend aten does not compile the state: .*({why})"):
        loaded(program).module()(X)


def test_a_state_without_a_text_is_refused() -> None:
    program = lower(exported(nn.Linear(4, 4), X), "aten")
    (name,) = (name for name, tensor in program.constants.items() if tensor.dtype == torch.uint8)
    program.constants[name] = torch.ones(3, dtype=torch.bfloat16)
    with pytest.raises(ArchiveError, match="a state with its text"):
        program.module()(X)


def test_a_backend_that_does_not_exist_is_named() -> None:
    with backend() as name:
        program = lower(exported(nn.Linear(4, 4), X), name)
    with pytest.raises(LoweringError, match="no backend 'some'"):
        program.module()(X)


class Silent(Doubled):
    """Runs what ``aten`` compiles, and records nothing."""

    def compile(self, processed: Any, spec: Any) -> Any:  # noqa: ANN401
        return Aten().compile(processed, spec)

    def execute(self, handle: Any, inputs: list[Any]) -> list[Any]:  # noqa: ANN401
        return Aten().execute(handle, inputs)


class Wrong(Doubled):
    """Gives too few results."""

    def execute(self, handle: Any, inputs: list[Any]) -> list[Any]:  # noqa: ANN401, ARG002
        return []


def test_a_backend_that_gives_other_results_is_refused() -> None:
    program = exported(nn.Sequential(nn.Linear(4, 4)), X)
    with backend(preprocess=doubled, runtime=Wrong, link="inline", supports=supporting("linear")) as name:
        module = lower(program, name).module()
        with pytest.raises(BackendError, match="expected 1 tensors of the backend, found nothing"):
            module(X)


def test_what_a_state_cannot_hold_is_refused() -> None:
    program = exported(nn.Linear(4, 4), X)
    with (
        backend(preprocess=lambda *_: object(), supports=supporting("linear")) as name,
        pytest.raises(LoweringError, match="no form for a constant of type object"),
    ):
        lower(program, name)


def test_what_only_modules_take_is_refused() -> None:
    program = exported(nn.Linear(4, 4), X)
    with pytest.raises(LoweringError, match="a program has its effects in its signature"):
        lower(program, "aten", effects=True)
    with pytest.raises(LoweringError, match="Method 'other' is not defined"):
        lower(program, "aten", {"other": {}})


# --- commands


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


def test_attention_is_lowered_that_pytorch_does_not_decompose() -> None:
    x = torch.linspace(-1, 1, 192).view(2, 6, 2, 8).transpose(1, 2)
    program = exported(Attending(), x)
    with pytest.raises(ValueError, match="Cannot view a tensor with shape"):  # a fault of PyTorch 2.13
        program.run_decompositions()
    lowered = lower(program, "aten")
    assert calls(lowered)
    assert same(loaded(lowered).module()(x), Attending()(x))
