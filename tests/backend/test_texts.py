"""Texts in scripted modules, as TorchScript makes them, and ``None`` within named tuples."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("torch", exc_type=ImportError)

import torch
from torch import nn

from archive.backend import Delegate, lower
from tests.support.sampling import examples
from tests.support.strategies import patient

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


class Formatted(nn.Module):
    def forward(self, x: torch.Tensor, name: str) -> tuple[torch.Tensor, str]:
        said = "%d of %s" % (len(name), name)  # noqa: UP031 (TorchScript has its own operator for this)
        return x, said + "%s" % name  # noqa: UP031


def test_texts_are_formatted_by_tuples_and_by_values() -> None:
    lowered = lower(Formatted(), "aten")
    for runs in (lowered, Delegate.of(lowered)):
        assert runs(torch.ones(1), "abc")[1] == "3 of abcabc"


class Shown(nn.Module):
    def forward(self, x: float, text: str) -> list[str]:
        items = [str(x), f"{x} {text}", str([x, 2.0]), str((x,)), str({text: x}), str([text, text])]
        return items + ["%s" % x, str(len(text)), text[1:]]  # noqa: UP031, RUF005 (TorchScript)


@given(st.floats(), st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=4))
@settings(patient, max_examples=examples(50))
def test_texts_are_those_of_torchscript(x: float, text: str) -> None:
    text = f"a{text}"  # a slice within a letter is no text
    scripted, delegate = shown()
    assert delegate(x, text) == scripted(x, text)


@cache
def shown() -> tuple[torch.jit.ScriptModule, Delegate]:
    scripted = torch.jit.script(Shown())
    return scripted, Delegate.of(lower(scripted, "aten"))


class Measured(nn.Module):
    def forward(self, text: str) -> tuple[int, int, list[str]]:
        return len("Wörld"), len(text), list(text)


def test_letters_of_texts_are_bytes() -> None:
    scripted = torch.jit.script(Measured())
    lowered = lower(scripted, "aten")
    assert lowered("abc") == Delegate.of(lowered)("abc") == scripted("abc") == (6, 3, ["a", "b", "c"])


class Packed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.part = nn.GRU(3, 4, 2, bidirectional=True)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths)
        found, hidden = self.part(packed)
        return nn.utils.rnn.pad_packed_sequence(found, padding_value=-1.0)[0], hidden


def test_none_within_named_tuples_is_known() -> None:
    scripted = torch.jit.script(Packed().eval())
    lowered, given = lower(scripted, "aten"), (torch.randn(6, 2, 3), torch.tensor([6, 3]))
    for runs in (lowered, Delegate.of(lowered)):
        for one, other in zip(runs(*given), scripted(*given), strict=True):
            assert torch.equal(one, other)
