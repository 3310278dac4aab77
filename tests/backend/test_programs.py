"""Programs are lowered in parts: they compute what they did, whichever nodes the backend supports."""

from __future__ import annotations

import traceback
import warnings
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch", exc_type=ImportError)

import torch
from torch import nn

from archive.backend import (
    BackendError,
    LoweringError,
    lower,
)
from archive.backend.aten.backend import ATEN, Aten
from archive.backend.lower.codegen import UNAVAILABLE_WARNING
from archive.base.errors import ArchiveError
from tests.backend.exported_models import MODELS, made
from tests.backend.partitioned import (
    ROWS,
    Doubled,
    Everything,
    Failing,
    X,
    backend,
    calls,
    doubled,
    exported,
    kinds_of,
    loaded,
    running,
    same,
    supporting,
)
from tests.backend.test_exported_archives import PROGRAMS
from tests.support import commands
from tests.support.sampling import sampled

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]  # export warns of much


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
    assert 'partitioned.py", line' in place
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
