"""Modules lowered ahead of time: equal to eager, in PyTorch's own form, refused with all that is wrong."""

from __future__ import annotations

import gc
import inspect
import io
import re
import warnings
from pathlib import Path
from typing import NamedTuple

import pytest

import archive

pytest.importorskip("torch", exc_type=ImportError)

import torch
from torch import nn

from archive.backend import LoweringError, lower, lowered_archive
from archive.backend.graph.inlining import inlined
from archive.backend.graph.range_finder import RangeFinder
from archive.backend.lower import codegen
from archive.backend.lower.codegen import APART, LARGE, MOST_COPIED, padding
from tests.support.backend_models import Block, Branching, Host, cases
from tests.support.torch_oracles import have_backends

pytestmark = pytest.mark.torch


class Pair(NamedTuple):
    a: torch.Tensor
    b: int


class Two(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y


class Numbers(torch.nn.Module):
    def forward(self, x: torch.Tensor, n: int) -> tuple[torch.Tensor, int]:
        return x + n, n


class One(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor]:
        return (x,)


class Nothing(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> None:  # noqa: ARG002
        return None


class Maybe(torch.nn.Module):
    def forward(self, x: torch.Tensor | None) -> torch.Tensor | None:
        return x


class Bare(torch.nn.Module):
    def forward(self) -> int:
        return 3


class Nested(torch.nn.Module):
    def forward(
        self, x: tuple[torch.Tensor, tuple[int, list[float]]]
    ) -> tuple[torch.Tensor, tuple[int, list[float]]]:
        return x


class Named(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Pair:
        return Pair(x, 1)


class Several(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x

    @torch.jit.export
    def other(self, d: dict[str, torch.Tensor], k: str) -> torch.Tensor:
        return d[k]


class Listed(torch.nn.Module):
    def forward(self, x: list[torch.Tensor]) -> list[torch.Tensor]:
        return x


class Words(torch.nn.Module):
    def forward(self, a: str, b: bool, c: float) -> tuple[str, bool, float]:  # noqa: FBT001
        return a, b, c


class Tables(torch.nn.Module):
    def forward(self, t: dict[str, list[tuple[int, torch.Tensor]]]) -> dict[int, bool]:
        return {len(t): True}


SIGNATURES = [Two, Numbers, One, Nothing, Maybe, Bare, Nested, Named, Several, Listed, Words, Tables]


OBJECTS = [
    codegen.block([f"def __create_{name}(self):", f"    self.__{name} = __torch__.torch.classes.{of}()"])
    for name, of in (
        ("backend", "__backends__.test_backend"),
        ("backend_debug_info", "backendutils.BackendDebugInfo"),
    )
]
"""What of PyTorch's own source makes objects of C++."""


def generated(module: torch.jit.ScriptModule) -> set[str]:
    """The sources of the methods that PyTorch's own lowering has made."""
    buffer = io.BytesIO()
    torch.jit.save(module, buffer)
    with archive.open(buffer.getvalue()) as opened:
        table = opened.range_table
        names = [name for name in table.names if "/jit/Lowered" in name]
        rows = [table.source_range(row) for name in names for row in table.rows(table.numbers[name])]
        return {str(row.source.text) for row in rows} - {""}


@pytest.mark.parametrize("model", SIGNATURES)
def test_generated_source_is_that_of_pytorch_s_own_lowering(model: type[torch.nn.Module]) -> None:
    have_backends()
    scripted = torch.jit.script(model())
    methods = ["forward", "other"] if model is Several else ["forward"]
    theirs = generated(torch._C._jit_to_backend("test_backend", scripted, dict.fromkeys(methods, "")))
    ours = {*OBJECTS, codegen.GET_STATE, codegen.SET_STATE.replace(codegen.STATE_PARAMETER, "state")}
    for name in methods:
        schema = scripted._c._get_method(name).schema
        ours |= {codegen.forwarding(name, schema), codegen.executing(name, schema)}
    inline = {
        text.replace("self.__backend.", "self.__") for text in theirs if "def __is_available" not in text
    }
    if model is Nothing:  # so that the lite interpreter shows the calls: see ``executing``
        assert len(inline - ours) == len(ours - inline) == 1
        assert all("assert isinstance(_0, NoneType)" in text for text in inline ^ ours)
        return
    assert inline == ours, "the backend's methods are the module's own"


@pytest.mark.parametrize("how", ["scripted", "traced"])
@pytest.mark.parametrize("name", cases())
def test_lowered_models_equal_the_models(name: str, how: str) -> None:
    model, good, _ = cases()[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", torch.jit.TracerWarning)
        module = (
            torch.jit.script(model) if how == "scripted" else torch.jit.trace(model, good, check_trace=False)
        )
    lowered = lower(module, "aten")
    with torch.no_grad():
        assert torch.allclose(lowered(good), module(good), atol=1e-6)
    assert lowered._c._type().annotation_str.startswith("torch.jit.LoweredWrapper.aten.__torch__.")


def test_branches_are_taken_as_the_arguments_say() -> None:
    model = Branching()
    lowered = lower(model, "aten")
    for x in (torch.ones(2, 4), torch.full((2, 4), 1e4), torch.full((2, 4), -1e4)):
        for double in (False, True):
            for theirs, ours in zip(model(x, double), lowered(x, double), strict=True):
                assert torch.equal(torch.as_tensor(theirs), torch.as_tensor(ours))
    assert torch.equal(lowered(torch.ones(1, 4))[0], model(torch.ones(1, 4))[0]), "the default is kept"


def test_the_model_is_left_as_it_is_and_shares_its_parameters() -> None:
    model = Block().eval()
    lowered = lower(model, "aten")
    x = torch.randn(1, 4, 6, 6)
    with torch.no_grad():
        model.second.weight.mul_(2)
        assert torch.allclose(lowered(x), model(x), atol=1e-6)


def test_what_is_put_on_the_wrapper_stays_on_it() -> None:
    lowered = lower(Block().eval(), "aten")
    lowered._c._register_attribute("later", torch._C.StringType.get(), "kept")
    buffer = io.BytesIO()
    torch.jit.save(lowered, buffer)
    buffer.seek(0)
    assert torch.jit.load(buffer).later == "kept"


@pytest.mark.parametrize("spec", [{}, {"forward": {}, 3: {}}, "forward", None.__class__], ids=repr)
def test_a_compile_spec_that_is_none_is_refused(spec: object) -> None:
    with pytest.raises(LoweringError, match="expected method_compile_spec to be a dict by method names"):
        lower(Block(), "aten", spec)  # type: ignore[call-overload]


def test_an_unknown_method_is_refused_in_pytorch_s_words() -> None:
    with pytest.raises(LoweringError, match=r"^Method 'nope' is not defined\.$"):
        lower(Block(), "aten", {"nope": {}})


class Unsupported(torch.nn.Module):
    def forward(self, x: torch.Tensor | int, y: torch.Tensor | int) -> int:
        if isinstance(x, int):
            return x
        return y if isinstance(y, int) else 0


class Appending(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts: list[torch.Tensor] = []
        parts.append(x)
        if x.dim() > 1:
            parts.append(x + len(parts))
        return torch.cat(parts)


def test_lists_that_are_changed_are_not_taken_for_constants() -> None:
    x = torch.ones(2, 3)
    assert torch.equal(lower(Appending(), "aten")(x), Appending()(x))


class InPlace(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y.add_(1)
        y[0].zero_()
        return y


def test_tensors_that_are_changed_in_place_stay_changed() -> None:
    x = torch.ones(2, 3)
    assert torch.equal(lower(InPlace(), "aten")(x), InPlace()(x))


def test_everything_that_is_not_supported_is_told_at_once_with_its_place() -> None:
    with pytest.raises(LoweringError) as caught:
        lower(Unsupported(), "aten")
    said = str(caught.value)
    assert said.count(" is not supported in this compiler. Source code: ") == 2
    assert said.count("The node of prim::isinstance is") == 2
    assert said.count("test_lowering.py") == 2


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)


def test_what_is_not_supported_in_a_module_of_pytorch_has_the_model_s_line_first() -> None:
    scripted = torch.jit.script(Layer())
    graph = inlined(scripted._c, "forward", RangeFinder.of(scripted._c))
    (operation,) = (each for each in graph.operations() if each.kind == "aten::linear")
    places = re.findall(r'File ".*?([^/\\]+)", line (\d+)', codegen.compile_error(operation))
    lines, first = inspect.getsourcelines(Layer.forward)
    assert places[0] == (Path(__file__).name, str(first + len(lines) - 1))
    assert [file for file, _ in places[1:]] == ["linear.py"]


OF_SEVERAL_LINES = ("prim::device", "prim::dtype", "prim::requires_grad", "prim::is_nested")
"""Attributes of tensors that PyTorch's functions for attention read on several lines."""


@pytest.mark.parametrize("name", cases())
def test_every_operation_has_its_place_and_the_calls_that_pytorch_records(name: str) -> None:
    """But for operations in branches and loops, for which PyTorch records no calls from outside of them."""
    model = cases()[name].model
    scripted = torch.jit.script(model)
    data = scripted._save_to_buffer_for_lite_interpreter(_save_mobile_debug_info=True)
    with archive.open(data) as opened:
        theirs = set()
        for entry in opened.handles.values():
            place = opened.range_table.with_tag(entry.tag)
            assert place is not None
            span = opened.range_table.source_range(place)
            calls = tuple(
                (str(call.module.instance), str(call.function)) for call in entry.stack if call.module
            )
            theirs.add((str(entry.op), str(span.source.filename), span.line, span.start, span.end, calls))
    ours = set()
    for operation in inlined(scripted._c, "forward", RangeFinder.of(scripted._c)).operations():
        own = operation.range
        assert own is not None or operation.kind in ("prim::Constant", *OF_SEVERAL_LINES)
        if own is not None and operation.kind in OF_SEVERAL_LINES:
            assert b"\n" not in bytes(own.source.text)[own.start : own.end], "one line, or none"
        if operation.kind.startswith("aten::") and own is not None:
            calls = tuple((str(call.instance), call.function) for call in operation.stack if call.type_name)
            ours.add((operation.kind, str(own.source.filename), own.line, own.start, own.end, calls))
    told = {one for one in theirs if one[0].startswith("aten::") and one[5]}
    assert len(told) > 1
    for op, *where, calls in theirs:
        # PyTorch's place of an attribute is its own text; here it may be the line that names the attribute.
        same = [mine for mine in ours if mine[0] == op and ([*mine[1:5]] == where or where[0] == "<string>")]
        ends = {mine[5][len(mine[5]) - len(calls) :] for mine in same}
        assert calls in ends or not op.startswith("aten::"), (op, where)


def test_a_host_is_scripted_around_a_lowered_module() -> None:
    model, good, _ = cases()["mlp"]
    host = torch.jit.script(Host(lower(model, "aten")))
    with torch.no_grad():
        assert torch.allclose(host(good), model(good) + 1, atol=1e-6)


# --- padding

BRANCH = b"    if x:\n" + b"        y = f(x)\n" * 100


def test_only_sources_that_pytorch_copies_often_are_made_large() -> None:
    assert padding(BRANCH, 4) == b""
    assert padding(b"    y = f(x)\n" * 20_000, 4) == b""
    source = BRANCH * 20
    assert 2_000 * len(source) > MOST_COPIED
    comment = padding(source, 4)
    assert comment.startswith(APART + b"#")
    assert len(source + comment) == LARGE
    assert padding(BRANCH * 400, 4) == b""


def test_models_of_several_attention_layers_load_in_little_memory() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 8, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    lowered = lower(model, "aten")
    assert gc.isenabled()
    data = lowered_archive(lowered)
    with archive.open(data) as opened:
        (code,) = (name for name in opened.records if "LoweredModule" in name and name.endswith(".py"))
        assert opened.records[code].size == LARGE
        assert opened.records[code].stored_size < LARGE // 8
        lines = bytes(opened.records[code].view()).splitlines()
    assert lines[-6:-1] == [lines[-6], b"", b"", b"", b""]
    x = torch.ones(1, 2, 8)
    with torch.no_grad():
        assert torch.equal(torch.jit.load(io.BytesIO(data))(x), lowered(x))
    assert {one.severity for one in archive.verify(io.BytesIO(data))} <= {"note"}
