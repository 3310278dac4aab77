"""What exported programs take and give when they are lowered, and what is refused, with the model's line."""

from __future__ import annotations

import inspect
import io
import re
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

pytest.importorskip("torch", exc_type=ImportError)

import torch
from torch import nn
from torch.utils import _pytree as pytree

from archive.backend import BackendError, Delegate, LoweringError, lower_to_torchscript, lowered_archive
from archive.backend.conformance import examine
from archive.backend.exported.aliases import USUAL
from archive.backend.exported.program import check_overloads
from archive.backend.exported.program import exported as program_of
from tests.backend.exported_models import made
from tests.support.sampling import sampled

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]  # export warns of much

X = torch.arange(6.0).view(2, 3)


class Model(nn.Module):
    """A model whose ``forward`` is a function of itself and of arguments."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.register_buffer("steps", torch.zeros(3))
        self.register_buffer("kept", torch.zeros(3), persistent=False)
        self.norm = nn.BatchNorm1d(3)

    def forward(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        return self.function(self, *args, **kwargs)


def exported(function: Callable[..., Any], *args: Any, **named: Any) -> Any:  # noqa: ANN401
    return torch.export.export(Model(function).eval(), args, named or None)


# --- refused


class Holding(nn.Module):
    kept: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("steps", torch.zeros(3))
        self.register_buffer("kept", torch.zeros(3), persistent=False)


class InPlace(Holding):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.steps.add_(1)  # line
        return x + self.steps


class InView(Holding):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.steps.view(1, 3)[0] = 2  # line
        return x + self.steps


class InPart(Holding):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.steps.chunk(3)[1].add_(1)  # line
        return x + self.steps


class Assigned(Holding):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.kept = self.kept + 1  # line
        return x + self.kept


class ArgumentChanged(Holding):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x.mul_(2)  # line
        return x + 1


class Branches(Holding):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))  # line


class SizedByValues(Holding):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x[x > 0].sum()  # line


class NumberOfTensor(Holding):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * x.sum().item()  # line


class Autocast(Holding):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return x @ x.T  # line


class ChangedWithoutGradients(Holding):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        with torch.no_grad():
            y.add_(1)  # line
        return y


IN_PLACE = "a tensor of the program, changes in place"
ONLY_WHEN_IT_RUNS = "a size, or a number, is only known when it runs"
REFUSED = [
    (InPlace, f"steps, {IN_PLACE}", "the buffer steps changes"),
    (InView, f"steps, {IN_PLACE}", "the buffer steps changes"),
    (InPart, f"steps, {IN_PLACE}", "the buffer steps changes"),
    (Assigned, f"kept, {IN_PLACE}", "the buffer kept changes"),
    (ArgumentChanged, "", "the argument x changes"),
    (Branches, "higher_order::cond is not supported", "higher_order::cond is not supported"),
    (SizedByValues, ONLY_WHEN_IT_RUNS, ONLY_WHEN_IT_RUNS),
    (NumberOfTensor, ONLY_WHEN_IT_RUNS, ONLY_WHEN_IT_RUNS),
    (Autocast, "higher_order::wrap_with_autocast is not supported", ""),
    (ChangedWithoutGradients, "a tensor is changed in place, without gradients", ""),
]


@pytest.mark.parametrize(("kind", "plain", "decomposed"), REFUSED)
def test_what_a_lowered_program_would_not_do_is_refused_at_its_line(
    kind: type[nn.Module], plain: str, decomposed: str
) -> None:
    lines, first = inspect.getsourcelines(kind)
    (at,) = (number for number, line in enumerate(lines, first) if line.endswith("# line\n"))
    program = torch.export.export(kind(), (X,))
    for way, reason in ((program, plain), (program.run_decompositions(), decomposed)):
        if not reason:
            lower_to_torchscript(way, "aten")
            continue
        with pytest.raises(LoweringError) as caught:
            lower_to_torchscript(way, "aten")
        said = str(caught.value)
        assert reason in said
        assert said.count("Source code:") == 1
        assert f'File "{__file__}", line {at}\n' in said
        ((marked, mark),) = re.findall(r"(.*)\n( *~+) <--- HERE", said)
        assert f"{marked}\n" == lines[at - first]
        assert mark.lstrip() == "~" * len(marked.strip())


def test_training_is_refused_at_each_buffer() -> None:
    model = nn.Sequential(nn.BatchNorm1d(3), nn.BatchNorm1d(3))
    with pytest.raises(LoweringError) as caught:
        lower_to_torchscript(torch.export.export(model, (X,)), "aten")
    for number in (0, 1):
        assert f"{number}.num_batches_tracked, {IN_PLACE}" in str(caught.value)


class Sized(nn.Module):
    def forward(self, x: torch.Tensor, count: int) -> tuple[torch.Tensor, int]:
        return x * count, x.shape[0]


def test_symbolic_sizes_are_refused_once() -> None:
    dynamic = torch.export.Dim.DYNAMIC
    program = torch.export.export(Sized(), (X, 3), dynamic_shapes={"x": {0: dynamic}, "count": dynamic})
    with pytest.raises(LoweringError) as caught:
        lower_to_torchscript(program, "aten")
    reason = "the argument {} is symbolic; export it without dynamic shapes"
    assert str(caught.value).splitlines() == [reason.format("x"), reason.format("count")]


@dataclass
class Held:
    x: torch.Tensor


torch.export.register_dataclass(Held)


class Picky:
    def __init__(self, x: torch.Tensor) -> None:
        self.x = x + x.sum()


def picky(leaves: Any, _: Any) -> Picky:  # noqa: ANN401
    return Picky(*leaves)


pytree.register_pytree_node(Picky, lambda held: ([held.x], None), picky, serialized_type_name="Picky")


@pytest.mark.parametrize(
    ("function", "arguments", "reason"),
    [
        (
            lambda _, held: held.x * 2,
            (Held(X),),
            "the parameter args_0: TorchScript has no type for an object of the class Held",
        ),
        (
            lambda _, x: Held(x * 2),
            (X,),
            "the result: TorchScript has no type for an object of the class Held",
        ),
        (
            lambda _, x: {"a": x * 2, "b": (x, x)},
            (X,),
            "the result: TorchScript has no dict of several types (Tensor, Tuple[Tensor, Tensor])",
        ),
        (
            lambda _, x: Picky(x * 2),
            (X,),
            "the result: TorchScript has no type for an object in it: 'int' object has no attribute 'sum'",
        ),
        (lambda _, x: [x * 2, 3], (X,), "the result: TorchScript has no list of several types (Tensor, int)"),
        (lambda _, x: {1.5: x * 2}, (X,), "the result: TorchScript has no dict of such keys"),
    ],
)
def test_parameters_and_results_without_a_type_in_torchscript_are_refused(
    function: Callable[..., Any], arguments: tuple[Any, ...], reason: str
) -> None:
    with pytest.raises(LoweringError) as caught:
        lower_to_torchscript(exported(function, *arguments), "aten")
    assert str(caught.value) == reason


def test_a_program_has_one_method() -> None:
    program = exported(lambda _, x: x * 2, X)
    with pytest.raises(LoweringError, match="Method 'other' is not defined"):
        lower_to_torchscript(program, "aten", {"other": {}})


# --- arguments and results


class Pair(NamedTuple):
    first: torch.Tensor
    second: torch.Tensor


@pytest.mark.parametrize(
    "function",
    [
        lambda _, x: (x, x * 2, x),
        lambda _, x: (x * 2,),
        lambda _, x: [x, x * 2],
        lambda _, x: {"a": x, "b": x * 2},
        lambda _, x: {1: (x, [x * 2])},
        lambda _, x: OrderedDict(a=x),
        lambda _, x: (x, None, 3, 2.5, "text", True),
        lambda self, x: (self.steps, self.norm.weight, x.shape[0]),
        lambda _, x: Pair(x, x + 1),
        lambda _, x: 1 - x,
        lambda _, x: torch.where(x > 0, 1.0, 0.5) + torch.where(x > 2, x, -1),
        lambda _, x: (x[:, None, torch.tensor([0, 2])], x.to(torch.float64), x.max(1).indices),
        lambda _, x: nn.functional.interpolate(x[None, None], size=(5, 5), mode="bilinear"),
        lambda _, x: x.to(memory_format=torch.contiguous_format) + torch.full((3,), 2, dtype=torch.int32),
    ],
)
def test_results_are_those_of_the_model(function: Callable[..., Any]) -> None:
    expected = function(Model(function).eval(), X)
    module = lower_to_torchscript(exported(function, X), "aten")
    if isinstance(expected, tuple):
        expected = tuple(expected)
    for found in (module(X), Delegate.of(module)(X)):
        torch.testing.assert_close(found, expected, rtol=0, atol=0) if not isinstance(
            expected, tuple
        ) else None
        if isinstance(expected, tuple):
            assert len(found) == len(expected)
            for item, other in zip(found, expected, strict=True):
                assert torch.equal(item, other) if isinstance(other, torch.Tensor) else item == other


def test_a_number_minus_a_tensor_stays_so_when_decomposed() -> None:
    program = exported(lambda _, x: 1 - x, X).run_decompositions()
    assert "aten.sub.Tensor](args = (1, %args_0)" in str(program.graph)
    assert torch.equal(lower_to_torchscript(program, "aten")(X), 1 - X)


@pytest.mark.parametrize(
    "function",
    [
        lambda _, x: (x > 0) & True,
        lambda _, x: torch.where(x > 0, True, False),  # noqa: FBT003
        lambda _, x: True + (x > 0),
        lambda _, x: torch.full_like(x, 1.0) * torch.full((3,), True),  # noqa: FBT003
    ],
)
def test_true_as_a_number_is_refused_where_1_makes_another_type(function: Callable[..., Any]) -> None:
    with pytest.raises(LoweringError, match="TorchScript has 1 and 0 for True and False"):
        lower_to_torchscript(exported(function, X), "aten")


@pytest.mark.parametrize(
    "function",
    [
        lambda _, x: (x > 0).masked_fill(x > 1, True),  # noqa: FBT003
        lambda _, x: torch.full_like(x > 0, True) ^ torch.full((3,), True, dtype=torch.bool),  # noqa: FBT003
        lambda _, x: (x > 0) == True,  # noqa: E712
        lambda _, x: x * True,
    ],
)
def test_true_as_a_number_is_1_elsewhere(function: Callable[..., Any]) -> None:
    expected = function(Model(function), X)
    found = lower_to_torchscript(exported(function, X), "aten")(X)
    assert found.dtype == expected.dtype
    assert torch.equal(found, expected)


BY_OTHER_NAMES: dict[str, tuple[Any, ...]] = {
    "clip": (0.0, 1.0),
    "clip_": (0.0, 1.0),
    "divide": (2,),
    "greater": (0,),
    "greater_equal": (0,),
    "less": (0,),
    "less_equal": (0,),
    "moveaxis": (0, 1),
    "multiply": (2.5,),
    "not_equal": (0,),
    "special_logsumexp": (0,),
    "subtract": (2,),
    "swapaxes": (0, 1),
    "swapdims": (0, 1),
    "true_divide": (2,),
}
"""Arguments behind a tensor."""


@pytest.mark.parametrize("name", sorted({*USUAL, "clip_"}))
def test_operators_by_their_other_names_are_lowered(name: str) -> None:
    operator = getattr(torch.ops.aten, name)
    if name in ("concat", "concatenate", "row_stack"):
        program = exported(lambda _, x: operator([x, x]), X)
    elif name == "ger":
        program = exported(lambda _, x: operator(x[0], x[1]), X)
    else:
        program = exported(lambda _, x: operator(x * 1, *BY_OTHER_NAMES.get(name, ())), X)
    assert f"aten.{name}." in str(program.graph)
    module = lower_to_torchscript(program, "aten")
    torch.testing.assert_close(module(X), program.module()(X), rtol=0, atol=0, equal_nan=True)


def test_another_overload_than_the_program_s_is_refused() -> None:
    program = exported(lambda _, x: x + x, X)
    graphs = program_of(program)[0].graphs
    lowered = lower_to_torchscript(program, "aten")._c.getattr("__loweredModule__")
    check_overloads(lowered, graphs)
    (added,) = (each for each in graphs["forward"].operations() if each.kind == "aten::add")
    added.schema = added.schema.replace("add.Tensor", "add.Scalar")
    with pytest.raises(LoweringError) as caught:
        check_overloads(lowered, graphs)
    said = "TorchScript takes aten::add.Tensor for these arguments, and not aten::add.Scalar. Source code: "
    assert str(caught.value) == f"{said}{added.shown}".rstrip()


def test_checks_that_torchscript_would_leave_out_are_refused() -> None:
    program = exported(lambda _, x: nn.functional.one_hot(x, 3), X.long()[0]).run_decompositions()
    with pytest.raises(
        LoweringError, match="TorchScript leaves out aten::_assert_async, which gives nothing"
    ):
        lower_to_torchscript(program, "aten")


def everything(
    _: Model,
    x: torch.Tensor,
    flag: bool,  # noqa: FBT001
    missing: None,
    *,
    d: dict[str, torch.Tensor],
    pair: tuple[Any, ...],
    many: list[torch.Tensor],
    **more: Any,  # noqa: ANN401
) -> torch.Tensor:
    assert missing is None
    return (x + 1 if flag else x) * d["a"] + d["b"] + pair[0] * many[0] + more["z"] * pair[1]


ONE = torch.ones(2)
ALIKE = (ONE, True, None)
NAMED: dict[str, Any] = {"d": {"a": ONE, "b": ONE}, "pair": (ONE, 2.5), "many": [ONE], "z": ONE}


@pytest.mark.parametrize(
    ("arguments", "named", "refusal"),
    [
        (ALIKE, {}, None),
        ((torch.ones(3), True, None), {}, "expected args_0 of size [2], as exported; found [3]"),
        ((ONE.long(), True, None), {}, "expected args_0 of torch.float32, as exported; found another type"),
        ((ONE, False, None), {}, "expected True for args_1, as exported; found False"),
        ((ONE, True, ONE), {}, "expected None for args_2, as exported; found a tensor"),
        (ALIKE, {"pair": (ONE, 2.0)}, "expected 2.5 for pair[1], as exported; found 2."),
        (ALIKE, {"many": [ONE, ONE]}, "expected many of length 1, as exported; found 2"),
        (
            ALIKE,
            {"d": {"a": ONE, "c": ONE}},
            "expected d with the keys [a, b], as exported; found [a, c]",
        ),
        (
            ALIKE,
            {"d": {"a": torch.ones(1), "b": ONE}},
            "expected d['a'] of size [2], as exported; found [1]",
        ),
    ],
)
def test_each_call_is_like_the_export_or_refused(
    arguments: tuple[Any, ...], named: dict[str, Any], refusal: str | None
) -> None:
    module = lower_to_torchscript(exported(everything, *ALIKE, **NAMED), "aten")
    loaded = torch.jit.load(io.BytesIO(lowered_archive(module)))
    given = {**NAMED, **named}
    if refusal is None:
        expected = everything(Model(everything), *arguments, **given)
        for run in (module, loaded, Delegate.of(module)):
            assert torch.equal(run(*arguments, **given), expected)
        return
    for run in (module, loaded):
        with pytest.raises(torch.jit.Error) as caught:
            run(*arguments, **given)
        assert str(caught.value).strip().splitlines()[-1] == f"builtins.Exception: {refusal}"
    with pytest.raises(BackendError) as refused:
        Delegate.of(module)(*arguments, **given)
    assert refused.value.message == refusal


def test_what_was_exported_by_name_is_given_by_name() -> None:
    program = torch.export.export(Subtract(), (), {"right": X, "left": X * 3})
    module = lower_to_torchscript(program, "aten")
    assert torch.equal(module(left=X * 3, right=X), X * 2)
    with pytest.raises(RuntimeError, match="takes 1 positional"):
        module(X * 3, X)
    with pytest.raises(LoweringError, match="Keyword-only arguments are not supported in mobile modules"):
        lowered_archive(module, lite=True)


class Subtract(nn.Module):
    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        return left - right


# --- rules of backends


@pytest.mark.parametrize("decomposed", sampled([False, True], most=1))
def test_aten_keeps_all_rules_with_an_exported_program(decomposed: bool) -> None:  # noqa: FBT001
    model, arguments = made("transformer")
    program = torch.export.export(model, arguments)
    too_large = (arguments[0] + 100, arguments[1])
    report = examine(
        "aten",
        program.run_decompositions() if decomposed else program,
        good=arguments,
        bad={"self.embedding(words)": too_large},
        unsupported={"x[x > 0].sum()  # line": torch.export.export(SizedByValues(), (X,))},
        elsewhere=False,
    )
    assert not report.findings


def test_the_demo_backend_takes_one() -> None:
    program = torch.export.export(Subtract(), (X, X))
    assert not examine("backend_with_compiler_demo", program, good=(X, X * 2), elsewhere=False).findings


def test_regions_without_gradients_give_none() -> None:
    def function(self: Model, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            factor = x.sum() * self.norm.weight
        return x * factor + self.norm.weight

    model = Model(function).eval()
    program = torch.export.export(model, (X,))
    assert "wrap_with_set_grad_enabled" in str(program.graph)
    assert not examine("aten", program, good=(X,), elsewhere=False).findings
    module = lower_to_torchscript(program, "aten")
    results = []
    for run in (model, module):
        given = X.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(run(given).sum(), given)
        results.append(gradient)
    assert torch.equal(*results)
