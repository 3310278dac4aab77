"""Backends in ExecuTorch: partitions run as eager, and what they note leads to the model's lines.

Needs ExecuTorch, whose own lowering, reader and Inspector are the oracles.
"""

from __future__ import annotations

import io
import linecache
import re
import runpy
import warnings
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch", exc_type=ImportError)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pytest.importorskip("executorch.exir", reason="needs ExecuTorch", exc_type=ImportError)
    from executorch.devtools import Inspector
    from executorch.exir import to_edge_transform_and_lower
    from executorch.exir.delegate import executorch_call_delegate
    from executorch.extension.pybindings import portable_lib

    from archive.backend.executorch import FIRST_HANDLE, details

import torch

import archive
from archive import profile_etdump
from archive.backend import LoweringError, compile_error, find_backend, register_backend, unregister_backend
from archive.backend.aten.backend import Aten, preprocess
from archive.backend.exported.graphs import overload_of
from archive.reader.lookups.own_program import check_own
from tests.support.commands import called, well
from tests.support.etdumps import Block, Event, built
from tests.support.executorch import parsed
from tools.pages import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Arguments = tuple[Any, ...]

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]  # export and ExecuTorch warn of much

BACKEND = "aten"
OTHER = "other"
BATCH = torch.export.Dim("batch", min=1, max=8)


class Mlp(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 8), torch.nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.first(x))
        return self.second(y) * 2


class Cnn(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.max_pool2d(torch.relu(self.norm(self.conv(x))), 2).mean((2, 3))


class Attention(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attend, self.norm = torch.nn.MultiheadAttention(4, 2, batch_first=True), torch.nn.LayerNorm(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        left, right = self.norm(self.attend(x, x, x, need_weights=False)[0] + x).split(2, -1)
        return left @ right.transpose(1, 2)


class Sized(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x).reshape(x.shape[0] * 2, 2) + x.shape[0]


class Counter(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x.sum(0))
        return x * self.total


class Branches(torch.nn.Module):
    """Its weight is used in a branch and outside of it."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.linear(x))
        return torch.cond(x.sum() > 0, lambda z: z @ self.linear.weight, torch.cos, (y,))


class Apart(torch.nn.Module):
    """Two partitions around an operator that the backend does not take, and one weight in both."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.linear(x) + 1
        z = torch.sin(y)
        return self.linear(z) * 3


def inputs(*sizes: int) -> Arguments:
    return (torch.randn(sizes, generator=torch.Generator().manual_seed(0)),)


MODELS: dict[str, tuple[type[torch.nn.Module], Arguments, object]] = {
    "mlp": (Mlp, inputs(2, 4), None),
    "cnn": (Cnn, inputs(2, 3, 6, 6), None),
    "attention": (Attention, inputs(2, 3, 4), None),
    "dynamic": (Sized, inputs(3, 4), ({0: BATCH},)),
    "sizes that vary": (Mlp, inputs(2, 4), ({0: BATCH},)),
    "buffer": (Counter, inputs(2, 4), None),
    "branches": (Branches, inputs(2, 4), None),
    "apart": (Apart, inputs(2, 4), None),
}


def takes(node: torch.fx.Node) -> bool:
    """What the backend ``other`` says that it takes."""
    return "sin" not in node.name and "dim_order" not in node.name


def refusing(original: Any, spec: Any, generate_debug_handles: Any) -> Any:  # noqa: ANN401
    """Preprocess as ``aten`` does, without products."""
    operations = original.graphs["forward"].operations()
    refused = [compile_error(each) for each in operations if each.kind == "aten::mul"]
    if refused:
        raise LoweringError("\n".join(refused))
    return preprocess(original, spec, generate_debug_handles)


@pytest.fixture
def other() -> Iterator[Callable[..., None]]:
    """Registers the backend ``other``."""

    def register(preprocess: Any = preprocess, supports: Any = None) -> None:  # noqa: ANN401
        register_backend(OTHER, preprocess=preprocess, runtime=Aten, link="ahead of time", supports=supports)

    yield register
    unregister_backend(OTHER)


def made(name: str) -> torch.nn.Module:
    """A model, always with the same weights."""
    torch.manual_seed(0)
    return MODELS[name][0]().eval()


def exported(name: str) -> torch.export.ExportedProgram:
    _, arguments, sizes = MODELS[name]
    return torch.export.export(made(name), arguments, dynamic_shapes=sizes)


def lowered(programs: Any, backend: str = BACKEND, options: Any = None, *, record: bool = False) -> Any:  # noqa: ANN401
    """A program in ExecuTorch's edge dialect, parts of which are lowered."""
    partitioner = [details(backend, options).partitioner]
    return to_edge_transform_and_lower(programs, partitioner=partitioner, generate_etrecord=record)


def delegates(graph_module: torch.fx.GraphModule) -> list[Any]:
    """The lowered parts of a program and of its branches, in their order."""
    found = []
    for node in graph_module.graph.find_nodes(op="get_attr"):
        held = getattr(graph_module, node.target)
        found += [held] if hasattr(held, "processed_bytes") else delegates(held)
    return found


class Device(torch.fx.Interpreter):
    """Runs a program as a device does: its lowered parts by the backend's runtime, from their blobs."""

    def call_function(self, target: Any, args: Arguments, kwargs: dict[str, Any]) -> Any:  # noqa: ANN401
        if target is torch.ops.higher_order.cond:
            chosen, *branches, operands = args
            branch = branches[0] if chosen else branches[1]
            return Device(branch).run(*operands)
        if target is not executorch_call_delegate:
            return super().call_function(target, args, kwargs)
        part, *given = args
        runtime: Any = find_backend(part.backend_id).runtime()
        state = torch.load(io.BytesIO(part.processed_bytes))
        method = runtime.compile(state, {"forward": {"": ""}})["forward"]
        return runtime.execute(method, given)


def run(edge: Any, name: str, arguments: Arguments) -> Any:  # noqa: ANN401
    """The result of a call on a device."""
    program = edge.exported_program()
    held = {**program.constants, **program.state_dict, **made(name).state_dict()}
    own = [held[spec.target] for spec in program.graph_signature.input_specs if spec.target is not None]
    changes = len(program.graph_signature.buffers_to_mutate)
    return Device(program.graph_module).run(*own, *arguments)[changes]


@pytest.mark.parametrize("name", MODELS)
def test_partitions_run_from_their_blobs_as_the_eager_model(name: str) -> None:
    _, arguments, _ = MODELS[name]
    edge = lowered(exported(name))
    parts = delegates(edge.exported_program().graph_module)
    torch.testing.assert_close(run(edge, name, arguments), made(name)(*arguments))
    (method,) = parsed(edge.to_executorch().buffer).methods
    assert method.backend_calls[BACKEND] == len(parts) > 0


@pytest.mark.parametrize(
    ("name", "arguments"), [("dynamic", inputs(5, 4)), ("sizes that vary", inputs(7, 4))]
)
def test_other_sizes_within_the_bounds_run_from_the_same_blobs(name: str, arguments: Arguments) -> None:
    torch.testing.assert_close(run(lowered(exported(name)), name, arguments), made(name)(*arguments))


@pytest.fixture
def tape() -> Iterator[str]:
    """The example of a backend for programs."""
    runpy.run_path(str(ROOT / "examples" / "backends" / "tape.py"))
    yield "tape"
    unregister_backend("tape")


@pytest.mark.parametrize("name", ["mlp", "attention", "sizes that vary", "branches"])
def test_the_example_of_a_backend_for_programs_runs_in_executorch(name: str, tape: str) -> None:
    _, arguments, _ = MODELS[name]
    edge = lowered(exported(name), tape)
    parts = delegates(edge.exported_program().graph_module)
    torch.testing.assert_close(run(edge, name, arguments), made(name)(*arguments))
    (method,) = parsed(edge.to_executorch().buffer).methods
    assert method.backend_calls[tape] == len(parts) > 0
    for part in parts:
        nodes = {node.name: node for node in part.original_module.graph.nodes if node.op == "call_function"}
        steps = torch.load(io.BytesIO(part.processed_bytes))["steps"]
        handles = [step[-1] for step in steps]
        assert min(handles) >= FIRST_HANDLE
        found = [part.meta["debug_handle_map"][handle] for handle in handles]
        assert found == [(node.meta["debug_handle"],) for node in nodes.values()]


@pytest.mark.parametrize("name", MODELS)
def test_each_handle_leads_to_the_node_of_its_operation(name: str, other: Callable[..., None]) -> None:
    seen: dict[int, str] = {}

    def noting(original: Any, spec: Any, generate_debug_handles: Any) -> Any:  # noqa: ANN401
        def noted(graph: Any) -> Any:  # noqa: ANN401
            handles = generate_debug_handles(graph)
            seen.update({handle: operation.kind for operation, handle in handles.items()})
            return handles

        return preprocess(original, spec, noted)

    other(noting)
    parts = delegates(lowered(exported(name), OTHER).exported_program().graph_module)
    assert parts
    for part in parts:
        seen.clear()
        handles = details(OTHER).details.preprocess(part.original_module, []).debug_handle_map
        assert handles == part.meta["debug_handle_map"]
        assert len({len(str(handle)) for handle in (*handles, FIRST_HANDLE)}) == 1
        ran = {(seen[handle], node) for handle, (node,) in handles.items() if "aten::" in seen[handle]}
        nodes = [node for node in part.original_module.graph.nodes if overload_of(node.target)]
        expected = {(overload_of(node.target)._schema.name, node.meta["debug_handle"]) for node in nodes}
        assert {one for one in ran if one[0] != "aten::__getitem__"} == expected


def test_a_model_lowered_twice_is_the_same_file() -> None:
    first, second = (lowered(exported("mlp")).to_executorch().buffer for _ in range(2))
    assert first == second


def test_the_loader_of_c_reads_a_state_that_is_no_text() -> None:
    (part,) = delegates(lowered(exported("mlp")).exported_program().graph_module)
    text, tensors = torch._C._pickle_load_obj(part.processed_bytes)
    assert text.startswith('{"version"')
    assert [tuple(tensor.shape) for tensor in tensors] == [(8, 4), (8,), (4, 8), (4,)]


# --- what is lowered


def test_supports_decides_and_the_rest_stays(other: Callable[..., None]) -> None:
    other(supports=takes)
    edge = lowered(exported("apart"), OTHER, record=True)
    assert len(delegates(edge.exported_program().graph_module)) == 2
    torch.testing.assert_close(run(edge, "apart", inputs(2, 4)), made("apart")(*inputs(2, 4)))
    (method,) = parsed(edge.to_executorch().buffer).methods
    assert method.operator_calls == {"aten::sin.out": 1, "dim_order_ops::_to_dim_order_copy.out": 2}
    assert method.backend_calls == {OTHER: 2}


def test_without_supports_what_preprocess_refuses_stays(other: Callable[..., None]) -> None:
    other(refusing)
    (method,) = parsed(lowered(exported("mlp"), OTHER).to_executorch().buffer).methods
    assert "aten::mul.out" in method.operator_calls
    assert not {"aten::addmm.out", "aten::relu.out"} & {*method.operator_calls}


def test_a_backend_that_takes_nothing_leaves_the_program_alone(other: Callable[..., None]) -> None:
    other(supports=lambda _: False)
    plain = to_edge_transform_and_lower(exported("mlp")).to_executorch().buffer
    assert lowered(exported("mlp"), OTHER).to_executorch().buffer == plain


def test_what_a_partition_has_and_preprocess_refuses_is_shown_at_its_line(other: Callable[..., None]) -> None:
    other(refusing, supports=lambda _: True)
    with pytest.raises(LoweringError) as refused:
        lowered(exported("mlp"), OTHER)
    said = str(refused.value)
    assert said.startswith("The node of aten::mul is not supported in this compiler. Source code: ")
    line = "return self.second(y) * 2"
    assert f"{line}\n        {'~' * len(line)} <--- HERE" in said


def test_options_are_the_compile_specs(other: Callable[..., None]) -> None:
    seen = []

    def noting(original: Any, spec: Any, generate_debug_handles: Any) -> Any:  # noqa: ANN401
        seen.append(spec)
        return preprocess(original, spec, generate_debug_handles)

    other(noting, supports=takes)
    edge = lowered(exported("mlp"), OTHER, {"precision": "größte"})
    assert seen == [{"forward": {"precision": "größte"}}]
    (method,) = parsed(edge.to_executorch().buffer).methods
    assert [blob.specs for blob in method.blobs] == [("precision",)]


def test_methods_are_lowered_each_by_itself() -> None:
    programs = {"forward": exported("mlp"), "look": exported("attention")}
    edge = lowered(programs, record=True)
    program = edge.to_executorch()
    assert [(each.name, {*each.backend_calls}) for each in parsed(program.buffer).methods] == [
        ("forward", {BACKEND}),
        ("look", {BACKEND}),
    ]
    for method, name in (("forward", "mlp"), ("look", "attention")):
        alone = lowered(exported(name)).exported_program().graph_module
        parts = delegates(edge.exported_program(method).graph_module)
        assert [part.processed_bytes for part in parts] == [part.processed_bytes for part in delegates(alone)]


@pytest.mark.parametrize(("state", "blob"), [("é", "é".encode()), (b"\x00\xff", b"\x00\xff")])
def test_texts_and_bytes_are_the_blob(state: object, blob: bytes, other: Callable[..., None]) -> None:
    other(lambda *_: state)
    data = lowered(exported("mlp"), OTHER).to_executorch().buffer
    (method,) = parsed(data).methods
    ((start, end),) = (each.span for each in method.blobs)
    assert data[start:end] == blob


def test_names_are_checked(other: Callable[..., None]) -> None:
    with pytest.raises(LoweringError, match="is not registered"):
        details(OTHER)
    other()
    assert details(OTHER).details is details(OTHER).details
    register_backend("Inspected", preprocess=preprocess, runtime=Aten)
    try:
        taken = type("Inspected", details(OTHER).details.__mro__[1:2], {"preprocess": None})
        with pytest.raises(LoweringError, match="another backend by the name Inspected"):
            details("Inspected")
        assert taken.__name__ == "Inspected"
    finally:
        unregister_backend("Inspected")


def test_executorchs_runtime_asks_for_the_backends_own() -> None:
    program = lowered(exported("mlp")).to_executorch()
    module = portable_lib._load_for_executorch_from_buffer(program.buffer)
    with pytest.raises(RuntimeError, match="error: 0x20"):  # its log says: Backend aten is not registered
        module.run_method("forward", inputs(2, 4))


# --- at the model's source


def test_what_the_backend_notes_is_at_its_node_as_the_inspector_has_it(
    tmp_path: Path, other: Callable[..., None]
) -> None:
    other(supports=takes)
    program = lowered(exported("apart"), OTHER, record=True).to_executorch()
    record, pte, dump = (tmp_path / f"apart.{ending}" for ending in ("etrecord", "pte", "etdp"))
    program.get_etrecord().save(record)
    pte.write_bytes(program.buffer)
    with archive.open(record) as opened:
        instructions = opened.instructions["forward"]
    (method,) = parsed(program.buffer).methods
    events = []
    for number, instruction in instructions.items():  # as the backend's runtime would note each operation
        at = 1000 * number
        if instruction.delegate:
            noted = enumerate(instruction.delegate.events, at)
            events += [Event(None, 0, number, place, place + 1, int(handle)) for place, handle in noted]
            events.append(Event("DELEGATE_CALL", 0, number, at, at + 500))
        else:
            operator = method.callee(method.instructions[number]).partition("::")[2]
            events.append(Event(f"native_call_{operator}", 0, number, at, at + 9))
            events.append(Event("OPERATOR_CALL", 0, number, at, at + 9))
    dump.write_bytes(built([Block(events)]))
    profile = profile_etdump(dump, record, program=pte)
    ours = {(each.place.instruction, each.name): each.place for each in profile.events}
    inspector = Inspector(etdump_path=str(dump), etrecord=str(record))
    theirs = [event for block in inspector.event_blocks for event in block.events]
    own = [event for event in theirs if event.delegate_debug_identifier is not None]
    assert len(own) > 10  # among which one could be part of another
    for event in own:
        place = ours[f"forward/0:{event._instruction_id}", str(event.delegate_debug_identifier)]
        (trace,) = {text.rpartition(f'File "{__file__}", line ')[2] for text in event.stack_traces.values()}
        assert str(place.source) == f"{__file__}:{trace.partition(',')[0]}"
    lines = [
        linecache.getline(__file__, int(row.name.rpartition(":")[2])).strip() for row in profile.by_line()
    ]
    assert sorted(lines) == ["return self.linear(z) * 3", "y = self.linear(x) + 1", "z = torch.sin(y)"]


@pytest.mark.parametrize("name", ["buffer", "dynamic", "apart"])
def test_a_record_is_of_the_program_that_it_was_made_with(name: str, tmp_path: Path) -> None:
    program = lowered(exported(name), record=True).to_executorch()
    program.get_etrecord().save(tmp_path / "m.etrecord")
    (tmp_path / "m.pte").write_bytes(program.buffer)
    kinds = {archive.FileKind.EXECUTORCH}
    with (
        archive.open(tmp_path / "m.etrecord") as record,
        archive.open(tmp_path / "m.pte", kinds=kinds) as own,
    ):
        assert {*check_own(record, own).methods} == {"forward"}


def test_the_commands_read_what_was_lowered(tmp_path: Path) -> None:
    program = lowered(exported("mlp"), record=True).to_executorch()
    record, pte = tmp_path / "mlp.etrecord", tmp_path / "mlp.pte"
    program.get_etrecord().save(record)
    pte.write_bytes(program.buffer)
    (method,) = parsed(program.buffer).methods
    (blob,) = method.blobs
    assert f"blobs/0.{BACKEND}   {blob.span[1] - blob.span[0]:,}" in well("inspect", pte)
    (number,) = (at for at, one in enumerate(method.instructions) if method.callee(one) == BACKEND)
    shown = called("symbolicate", record, "--program", pte, f"0:{number}").stdout
    for line in ("y = torch.relu(self.first(x))", "return self.second(y) * 2"):
        assert line in shown


# --- the page


def blocks(kind: str) -> list[str]:
    page = Path(__file__).parents[2] / "docs" / "how-to" / "executorch-backends.md"
    return re.findall(rf"^```{kind}\n(.*?)^```", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], object]]:
    """Runs the page's program in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    (program,) = blocks("python")
    Path("model.py").write_text(program, "utf-8")
    yield partial(runpy.run_path, str(Path("model.py")))
    unregister_backend("chain")


def chain(supports: Any = None) -> None:  # noqa: ANN401
    example = Path(__file__).parents[2] / "examples" / "chain_backend" / "chain_backend.py"
    made = runpy.run_path(str(example))["CHAIN"]
    register_backend("chain", preprocess=made.preprocess, runtime=made.runtime, supports=supports)


def test_the_program_of_the_page_makes_what_it_shows(written: Callable[[], object]) -> None:
    chain()
    written()
    command, *lines = blocks("text")[0].splitlines()
    assert command == "$ debug-archive inspect model.etrecord | grep -A 3 instructions"
    assert "\n".join(lines) in well("inspect", "model.etrecord")
    assert well("verify", "model.pte").startswith("model.pte: well: ")


def test_what_preprocess_refuses_is_what_the_page_shows(written: Callable[[], object]) -> None:
    chain(supports=lambda _: True)
    with pytest.raises(LoweringError) as refused:
        written()
    assert f"archive.base.errors.LoweringError: {refused.value}".rstrip() == blocks("text")[1].rstrip()
