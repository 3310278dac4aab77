"""Lowered modules that are loaded, copied and frozen keep the way back to the model's source."""

from __future__ import annotations

import copy
import io
import pickle
from collections import Counter
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pytest

pytest.importorskip("torch", exc_type=ImportError)

import torch
import torch.jit.mobile
from torch import nn

import archive
from archive.backend import (
    BackendError,
    Delegate,
    Effectful,
    Link,
    LoweringError,
    load_archive,
    lower,
    lowered_archive,
    register_backend,
    unregister_backend,
)
from archive.check.verify import verify
from archive.formats.callstack_map import build_callstack_map, generation
from archive.formats.record_kinds import CALLSTACK_MAP
from archive.rewrite.split import split
from tests.backend.other_backend import PREPROCESS, Model, Tape
from tests.support.backend_models import Branching, Host, cases
from tests.support.corpus import FIXTURES
from tests.support.sampling import crossed
from tests.support.tampering import tampered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Copying = Callable[[torch.jit.ScriptModule], torch.jit.ScriptModule]

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore:Lite Interpreter is deprecated:DeprecationWarning"),
]
LITE = {".pt": False, ".ptl": True}
X, WIDE = torch.ones(2, 4), torch.ones(2, 5)
LINE = "return scaled(self.inner(x), 0.5)"


def explained(data: bytes) -> Counter[str]:
    """What all debug handles of an archive lead to."""
    with archive.open(data) as opened:
        assert [one for one in verify(opened) if one.severity != "note"] == []
        return Counter(str(opened.symbolicate(handle)) for handle in opened.handles)


def stock(data: bytes, *, lite: bool) -> Callable[..., object]:
    """The module of an archive in stock PyTorch."""
    load = torch.jit.mobile._load_for_lite_interpreter if lite else torch.jit.load
    module: Callable[..., object] = load(io.BytesIO(data))
    return module


def failure(module: Callable[..., object], *inputs: object) -> str:
    """The text that a call fails with, without C++ frames and blank lines."""
    with pytest.raises((RuntimeError, torch.jit.Error)) as caught:
        module(*inputs)
    return "\n".join(line for line in str(caught.value).splitlines() if line and "frame #" not in line)


@cache
def hosted(name: str) -> tuple[torch.jit.ScriptModule, dict[str, bytes]]:
    """A lowered model in another one, and its archives."""
    lowered = torch.jit.script(Host(lower(cases()[name].model, "aten")))
    return lowered, {ending: lowered_archive(lowered, lite=lite) for ending, lite in LITE.items()}


@pytest.mark.parametrize(("name", "before"), crossed(["mlp", "resnet"], LITE, most=2))
def test_what_is_loaded_is_saved_with_the_same_stacks_and_fails_with_the_same_text(
    name: str, before: str
) -> None:
    _, good, bad = cases()[name]
    lowered, first = hosted(name)
    loaded = load_archive(first[before])
    assert failure(loaded, bad) == failure(stock(first[before], lite=False), bad)
    assert torch.equal(loaded(good), lowered(good))
    for ending, lite in LITE.items():
        again = lowered_archive(loaded, lite=lite)
        assert explained(again) == explained(first[ending])
        assert failure(stock(again, lite=lite), bad) == failure(stock(first[ending], lite=lite), bad)
        assert lowered_archive(load_archive(again), lite=lite) == again, "a fixed point"


def test_traced_models_show_their_stacks_as_before() -> None:
    model, good, bad = cases()["mlp"]
    first = lowered_archive(lower(torch.jit.trace(model, good), "aten"))
    loaded = load_archive(first)
    assert failure(loaded, bad) == failure(stock(first, lite=False), bad)
    assert explained(lowered_archive(loaded)) == explained(first)


def test_a_loaded_module_may_be_part_of_a_larger_one_with_another() -> None:
    one, two = (
        load_archive(lowered_archive(lower(model, "aten"))) for model in (Branching(), nn.Linear(4, 4))
    )
    both = torch.jit.script(nn.Sequential(Host(two), lower(nn.Tanh(), "aten"), Host(two)))
    alone, together = lowered_archive(lower(nn.Linear(4, 4), "aten")), lowered_archive(both)
    assert sum((explained(alone) & explained(together)).values()) < len(explained(alone)), "weights differ"
    assert "aten::tanh" in str(explained(together))
    assert "return F.linear(input, self.weight, self.bias)" in failure(stock(together, lite=False), WIDE)
    delegate = Delegate.of(torch.jit.script(Host(two)))
    with pytest.raises(BackendError, match=r"F\.linear\(input"):
        delegate(WIDE)
    assert torch.equal(one(X)[0], Delegate.of(one)(X)[0])


class Sized(nn.Module):
    """A model that asks for a size: by an operation to which PyTorch gives no range."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + x.shape[0]


@pytest.mark.parametrize("lite", [False, True])
def test_an_operation_without_a_range_hinders_no_second_saving(lite: bool) -> None:  # noqa: FBT001
    first = load_archive(lowered_archive(lower(Sized(), "aten")))
    saved = lowered_archive(torch.jit.script(Host(first)), lite=lite)
    with archive.open(saved) as opened:
        texts = [str(opened.symbolicate(handle)) for handle in opened.handles]
    assert sum("return x + x.shape[0]" in text for text in texts) >= 2
    assert len(lowered_archive(load_archive(saved), lite=lite)) > 0


@pytest.fixture(params=Link)
def tape(request: pytest.FixtureRequest) -> Iterator[str]:
    link: Link = request.param
    yield register_backend("tape", preprocess=PREPROCESS[link], runtime=Tape, link=link).name
    unregister_backend("tape")


def test_each_link_is_loaded_again(tape: str) -> None:
    lowered = lower(Model(), tape)
    first, x = lowered_archive(lowered), torch.ones(3, 3)
    loaded = load_archive(first)
    assert torch.equal(loaded(x, x), lowered(x, x))
    assert explained(lowered_archive(loaded)) == explained(first)
    assert explained(lowered_archive(copy.deepcopy(loaded))) == explained(first)


def through_stock(module: torch.jit.ScriptModule) -> torch.jit.ScriptModule:
    buffer = io.BytesIO()
    torch.jit.save(module, buffer)
    buffer.seek(0)
    return torch.jit.load(buffer)


def switched(module: torch.jit.ScriptModule) -> torch.jit.ScriptModule:
    there: torch.jit.ScriptModule = module.to(torch.float32).train().eval()
    return there


COPYING: list[Copying] = [copy.deepcopy, copy.copy, torch.jit.freeze, through_stock, switched]


@pytest.mark.parametrize(
    ("copying", "again", "nested"),
    crossed(COPYING, [False, True], [False, True], most=8),
    ids=lambda value: getattr(value, "__name__", None),
)
def test_copies_know_the_model_s_source(copying: Copying, again: bool, nested: bool) -> None:  # noqa: FBT001
    lowered = lower(Branching().eval(), "aten")
    if again:
        lowered = load_archive(lowered_archive(lowered))
    module = torch.jit.script(nn.Sequential(lowered)).eval() if nested else lowered.eval()
    expected = module(X)
    copied = copying(module)
    assert torch.equal(copied(X)[0], expected[0])
    for lite in LITE.values():
        data = lowered_archive(copied, lite=lite)
        assert b"debug table" not in data
        text = failure(stock(data, lite=lite), WIDE)
        assert LINE in text
        assert "torch.ops.aten" not in text.partition("original code")[2 * (not lite)]


class Summing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("sum", torch.zeros(2, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.sum += x
        return self.sum + 0


def test_a_copy_shares_tensors_and_what_is_loaded_has_its_own() -> None:
    lowered = lower(torch.jit.script(Summing()), "aten")
    lowered(X)
    copied, loaded = copy.deepcopy(lowered), load_archive(lowered_archive(lowered))
    assert torch.equal(copied(X), X * 2)
    assert torch.equal(lowered(X), X * 3), "PyTorch copies a lowered module by its state"
    assert torch.equal(load_archive(lowered_archive(loaded))(X), loaded(X))


def test_what_pytorch_fuses_has_no_source_and_all_else_keeps_its_own() -> None:
    fused = torch.jit.optimize_for_inference(lower(Branching().eval(), "aten").eval())
    with archive.open(lowered_archive(fused, lite=True)) as opened:
        said = [str(opened.symbolicate(handle)) for method in opened.methods.values() for handle in method]
    products = {text for text in said if "aten::mul\n" in text}
    assert all(text.index(LINE) < text.index("return x * factor") for text in products)
    fused = [text for text in said if "aten::matmul\n" in text]
    assert products
    assert LINE not in "".join(fused), "PyTorch's own, as of a model that is not lowered"


def test_pickle_says_that_it_keeps_nothing() -> None:
    with pytest.raises(RuntimeError, match="does not have a __getstate__ method"):
        pickle.dumps(lower(nn.ReLU(), "aten"))


def test_a_split_archive_is_loaded_with_its_companion(tmp_path: Path) -> None:
    path, small, companion = (tmp_path / name for name in ("model.ptl", "small.ptl", "model.ptdbg"))
    path.write_bytes(lowered_archive(lower(Branching().eval(), "aten"), lite=True))
    split(path, small, companion)
    with pytest.raises(
        LoweringError, match="not what their debug handles lead to: give or join its companion"
    ):
        load_archive(small)
    loaded = load_archive(small, companion=companion)
    assert LINE in failure(stock(lowered_archive(loaded, lite=True), lite=True), WIDE)


def test_effects_are_kept() -> None:
    loaded = load_archive(lowered_archive(load_archive(FIXTURES / "effects" / "counting.pt")))
    first, again = Effectful.load(FIXTURES / "effects" / "counting.pt"), Effectful.of(loaded)
    for number in range(3):
        x = torch.full((2, 3), float(number))
        assert torch.equal(first(x), again(x))
    assert first.state.module.count == again.state.module.count


@pytest.mark.parametrize("release", ["1.4.0", "1.9.0", "2.13.0"])
def test_tracebacks_of_any_archive_have_the_calls_that_pytorch_does_not_find(release: str) -> None:
    path = FIXTURES / "releases" / f"torch-{release}" / "nested.pt"
    call = "h = self.first(x)"
    assert call in failure(load_archive(path), WIDE)
    assert (call in failure(torch.jit.load(path), WIDE)) == (release == "2.13.0")


def test_operations_that_share_the_tag_of_a_statement_are_refused() -> None:
    """As in archives of PyTorch's own lowering, where the operations of a line have one tag."""
    path = FIXTURES / "effects" / "counting.pt"
    with archive.open(path) as opened:
        table = opened.handle_table
        assert table is not None
        shared = replace(table, tag=np.full(len(table), table.tag.min()))
        record = build_callstack_map(shared, generation(table))
    with pytest.raises(LoweringError, match="does not distinguish the operations of a line"):
        load_archive(tampered(path, {CALLSTACK_MAP: record}))
