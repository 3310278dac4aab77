"""What cannot be lowered, saved or run is refused in words, with its place; and what only looks so is not."""

from __future__ import annotations

import sys
import zipfile
from dataclasses import dataclass
from io import BytesIO
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pytest

pytest.importorskip("torch", exc_type=ImportError)

import torch
from torch import nn

from archive.backend import (
    Delegate,
    LoweringError,
    lower,
    lowered_archive,
    register_backend,
    save_lowered,
    unregister_backend,
)
from archive.backend.lower.codegen import CHANGES_STATE
from archive.base.errors import ArchiveError
from tests.backend.other_backend import Needy
from tests.support.backend_models import Host

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.torch
DEMO = "backend_with_compiler_demo"
X = torch.ones(2, 4)


class Counting(nn.Module):
    """Sets an attribute."""

    def __init__(self, *, counts: bool) -> None:
        super().__init__()
        self.counts = counts
        self.count = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.counts:
            self.count += 1
        return x + self.count


class Large(nn.Module):
    """Has a branch that is never taken, and could not be: a number that is none, a list that is too long."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = float("inf")
        self.length = 1 << 20

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.dim() > 9:
            return x * int(self.factor) + len([0] * self.length)
        return x * self.factor


class Opening(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with open("file"):  # noqa: PTH123 (a function that TorchScript does not know)
            return x


class OfNumpy(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + np.sum(x)


class WithElse(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        while bool(x.sum() > 0):
            x = x - 1
        else:  # noqa: PLW0120 (TorchScript does not know it)
            x = x + 1
        return x


class Adding(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor | None = None) -> torch.Tensor:
        return x + y


class Returning(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cuda.current_stream() + x


class Async(nn.Module):
    async def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


class Setting(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        seen = {1, 2}
        return x + len(seen)


@dataclass
class Made:
    number: int


class OfObject(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + Made(3).number


class Doubled(torch.autograd.Function):
    """Python that TorchScript calls, and cannot save."""

    @staticmethod
    def forward(_: object, x: torch.Tensor) -> torch.Tensor:
        return x * 2


class OfPython(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return Doubled.apply(x)


class WithoutForward(nn.Module):
    """Has nothing to script."""


class Remembering(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.last = x
        return x


class New(nn.Module):
    """Counts, and calls a method that TorchScript's tensors do not have."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return x + x.new_tensor([1.0])


class One(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)


class Other(nn.Module):
    """The same operations as those of ``One``, called from another line."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)


class Both(nn.Module):
    def __init__(self, first: nn.Module, second: nn.Module) -> None:
        super().__init__()
        self.first = first
        self.second = second

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x))


class PairOfMain(NamedTuple):
    first: torch.Tensor
    second: torch.Tensor


class Paired(nn.Module):
    def forward(self, pair: PairOfMain) -> torch.Tensor:
        return pair.first + pair.second


class Named(nn.Module):
    def forward(self, x: torch.Tensor, *, other: torch.Tensor) -> torch.Tensor:
        return x + other


class Plus(nn.Module):
    def __init__(self, number: float) -> None:
        super().__init__()
        self.number = number

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.number


class PlusGiven(nn.Module):
    def forward(self, x: torch.Tensor, number: int) -> torch.Tensor:
        return x + number


@pytest.mark.parametrize("given", [None, len, torch.jit.trace(torch.relu, (X,))])
def test_what_is_no_module_is_refused(given: object) -> None:
    with pytest.raises(LoweringError, match="expected a module or an exported program, found "):
        lower(given, "aten")


def test_without_scripting_nothing_is_lowered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.jit, "script", lambda module: module)  # as PYTORCH_JIT=0 has it
    with pytest.raises(LoweringError, match="PYTORCH_JIT=0"):
        lower(nn.ReLU(), "aten")


@pytest.mark.parametrize("backend", ["aten", DEMO])
def test_what_is_lowered_is_not_lowered_again(backend: str) -> None:
    lowered = lower(nn.ReLU(), "aten")
    with pytest.raises(LoweringError, match=r"^the module is lowered already"):
        lower(lowered, backend)
    with pytest.raises(LoweringError, match=r"^its part inner is lowered already"):
        lower(Host(lowered), backend)


@pytest.mark.parametrize(
    ("module", "reason", "line", "hint"),
    [
        (Opening(), "the function open is unknown", 'with open("file")', False),
        (
            OfNumpy(),
            "objects of the class numpy._ArrayFunctionDispatcher cannot be called",
            "class OfNumpy",
            False,
        ),
        (WithElse(), "this statement is unknown", "while bool(x.sum() > 0):", False),
        (Adding(), "aten::add.Tensor does not take these arguments: Expected a value", "return x + y", False),
        (Returning(), "cuda::current_stream", "return torch.cuda", False),  # builds for CUDA know it
        (Async(), "functions without a statement `def` are not supported", "async def forward", False),
        (Setting(), "expressions and statements of the kind Set aren't supported", "seen = {1, 2}", False),
        (OfObject(), "Made.__init__ has no source", "return x + Made(3).number", False),
        (Remembering(), "Tried to set nonexistent attribute: last", "self.last = x", True),
    ],
)
def test_what_torchscript_does_not_take_is_refused_at_its_line(
    module: nn.Module, reason: str, line: str, *, hint: bool
) -> None:
    with pytest.raises(LoweringError, match=r"^TorchScript does not take the module: ") as caught:
        lower(module, "aten")
    said = str(caught.value)
    assert reason in said.splitlines()[0]
    assert any(one.strip().startswith(line) for one in said.splitlines()[2:])
    assert said.splitlines()[1].startswith(f'  File "{__file__}", line ')
    assert " at 0x" not in said
    assert said.endswith(CHANGES_STATE) is hint


def test_a_backend_that_records_no_operations_says_what_its_runtime_lacks() -> None:
    register_backend("mute", preprocess=lambda *_: "", runtime=Needy)
    try:
        delegate = Delegate.of(lower(nn.ReLU(), "mute"))
        with (
            pytest.raises(LoweringError, match=r"its runtime has no attribute profiling"),
            delegate.recording(),
        ):
            pass
    finally:
        unregister_backend("mute")


class Parametrised(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x)


def test_parametrised_weights_are_refused_unless_they_are_traced() -> None:
    model = Parametrised()
    with pytest.raises(
        LoweringError, match=r"parametrised weights: inner\.weight\. .*\n.*\nclass Parametrised"
    ):
        lower(model, "aten")
    assert torch.allclose(lower(torch.jit.trace(model, (X,)), "aten")(X), model(X))
    nn.utils.parametrize.remove_parametrizations(model.inner, "weight")
    assert torch.allclose(lower(model, "aten")(X), model(X))


def test_python_that_pytorch_cannot_save_is_refused_at_its_line() -> None:
    with pytest.raises(
        LoweringError, match=r"does not save the module: the Python function Doubled"
    ) as caught:
        lower(OfPython(), "aten")
    assert "return Doubled.apply(x)" in str(caught.value)


def test_a_module_without_methods_is_refused_at_its_class() -> None:
    with pytest.raises(
        LoweringError, match=r"^WithoutForward has no method forward:\n.*\nclass WithoutForward"
    ):
        lower(WithoutForward(), "aten")


def test_a_module_without_source_is_refused() -> None:
    names: dict[str, type[nn.Module]] = {"Module": nn.Module}
    exec("class Typed(Module):\n    def forward(self, x):\n        return x\n", names)  # noqa: S102 (code without a file)
    with pytest.raises(LoweringError, match=r"^TorchScript does not take the module: Can't get source"):
        lower(names["Typed"](), "aten")


def test_what_torchscript_does_not_take_of_a_captured_graph_is_refused_at_the_models_line() -> None:
    with pytest.raises(LoweringError) as caught:
        lower(New(), "aten", effects=True, example_inputs=(X,))
    first, place, line = str(caught.value).splitlines()
    if sys.version_info < (3, 14):  # in 3.14 it is refused before TorchScript sees it
        assert first == (
            "TorchScript does not take what it computes: "
            "'Tensor' object has no attribute or method 'new_tensor'."
        )
    assert place.endswith(f"line {New.forward.__code__.co_firstlineno + 2}")
    assert line.strip() == "return x + x.new_tensor([1.0])"


def test_attributes_that_are_never_set_are_no_obstacle() -> None:
    assert torch.equal(lower(Counting(counts=False), "aten")(X), X)


def test_what_is_too_large_to_be_folded_is_left_to_run() -> None:
    lowered = lower(Large(), "aten")
    assert torch.equal(lowered(X), X * float("inf"))
    text, _ = lowered._c.getattr("__loweredModule__").getattr("__processed_module")
    assert len(text) < 10_000


def test_a_compile_spec_may_be_any_mapping() -> None:
    lowered = lower(nn.ReLU(), "aten", MappingProxyType({"forward": MappingProxyType({"level": 1})}))
    spec = lowered._c.getattr("__loweredModule__").getattr("__method_compile_spec")
    assert spec == {"forward": {"level": 1}}


def test_named_tuples_of_a_script_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PairOfMain, "__module__", "__main__")
    monkeypatch.setattr(sys.modules["__main__"], "PairOfMain", PairOfMain, raising=False)
    assert torch.equal(lower(Paired(), "aten")(PairOfMain(X, X)), X + X)


def test_the_same_operations_called_from_two_lines_have_two_handles(tmp_path: Path) -> None:
    both = torch.jit.script(Both(lower(One(), "aten"), lower(Other(), "aten")))
    save_lowered(both, tmp_path / "both.pt")
    for part in ("first", "second"):
        delegate = Delegate.load(tmp_path / "both.pt", part=part)
        with pytest.raises(RuntimeError, match=rf"top\({'One' if part == 'first' else 'Other'}\)") as caught:
            delegate(torch.ones(2, 5))
        assert "return self.inner(x)" in str(caught.value)


def test_a_module_that_is_not_scripted_is_not_saved(tmp_path: Path) -> None:
    with pytest.raises(LoweringError, match=r"expected a scripted module .* found a Host"):
        save_lowered(Host(lower(nn.ReLU(), "aten")), tmp_path / "host.pt")
    assert list(tmp_path.iterdir()) == []


def test_what_pytorch_cannot_save_is_a_lowering_error() -> None:
    lowered = lower(Named(), "aten")
    assert lowered_archive(lowered)
    with pytest.raises(LoweringError, match="PyTorch does not save it: Keyword-only arguments"):
        lowered_archive(lowered, lite=True)


def test_a_part_without_its_source_is_neither_saved_nor_run() -> None:
    lost = torch.jit.load(BytesIO(lowered_archive(lower(One(), "aten"))))
    said = r"read by torch\.jit\.load from a file of save_lowered.* read the file by load_archive"
    with pytest.raises(LoweringError, match=said):
        lowered_archive(torch.jit.script(Both(lower(nn.ReLU(), "aten"), lost)))
    with pytest.raises(LoweringError, match=said):
        Delegate.of(lost)


def test_a_delegate_is_recorded_once_at_a_time() -> None:
    delegate = Delegate.of(lower(nn.ReLU(), "aten"))
    with delegate.recording() as recording:
        with pytest.raises(LoweringError, match="recorded already"), delegate.recording():
            pass
        delegate(X)
    assert len(recording.operations) == 1


@pytest.mark.parametrize(
    ("record", "old", "new", "said"),
    [
        ("activation.py", b"return", b"return )", "PyTorch does not load it: expected "),
        ("activation.py", b"return", b"retur\xff", "PyTorch does not load it: 'utf-8' codec"),
        (
            "data.pkl",
            b'"version"',
            b'"versi\xff\xff"',
            "does not compile the state: UnicodeDecodeError: 'utf-8' codec",
        ),
    ],
)
def test_a_broken_archive_is_refused_with_what_is_wrong(
    record: str, old: bytes, new: bytes, said: str
) -> None:
    saved, made = BytesIO(lowered_archive(lower(nn.ReLU(), "aten"))), BytesIO()
    with zipfile.ZipFile(saved) as whole, zipfile.ZipFile(made, "w") as broken:
        for name in whole.namelist():
            data = whole.read(name)
            broken.writestr(name, data.replace(old, new) if name.endswith(f"/{record}") else data)
    with pytest.raises(ArchiveError) as caught:
        Delegate.load(made.getvalue())
    assert said in str(caught.value)


@pytest.mark.parametrize("number", [float("inf"), float("nan"), 1e-320])
def test_the_demo_refuses_numbers_that_torchscript_cannot_read(number: float) -> None:
    with pytest.raises(LoweringError, match=r"prim::GetAttr is not supported .*\n.*\n.*x \+ self\.number"):
        lower(Plus(number), DEMO)


def test_the_demo_refuses_arguments_that_are_no_tensors() -> None:
    with pytest.raises(LoweringError, match=r"aten::add is not supported .*\n.*\n.*x \+ number"):
        lower(PlusGiven(), DEMO)
