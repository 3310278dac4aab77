"""Signatures of ``forward``: later calls are the eager ones or refused, whatever they give or leave out."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

pytest.importorskip("torch", exc_type=ImportError)

import torch

from archive.backend import Effectful, lower, lowered_archive
from archive.effects import CaptureError, GuardError
from tests.effects.made_modules import Made, written
from tests.support.sampling import examples
from tests.support.strategies import patient

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.torch

X = torch.arange(3.0)
VALUES = (X, X, X + 1, 2, 2, 3, 2.5, True, None)
DEFAULTS = ("2", "2.5", "None", "True", "torch.neg", "doubled", "X")
MODEL = """
import torch
from torch import nn

X = torch.ones(3)


def doubled(x):
    return x * 2


def number(value):
    if value is None or value is True:
        return 7 if value is None else 3
    return value(X) if callable(value) else value


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.count = 0

    def forward({signature}):
        total = X
        {body}
        self.count += 1
        return total
"""


class Form(NamedTuple):
    """A signature, without ``self``: names, defaults of the last of them, and what of it is read."""

    places: list[str]
    only: int
    defaults: list[str]
    star: bool
    named: list[tuple[str, str]]
    stars: bool
    read: list[bool]

    @property
    def text(self) -> str:
        """The model's source."""
        required = len(self.places) - len(self.defaults)
        texts = [
            name if at < required else f"{name}={self.defaults[at - required]}"
            for at, name in enumerate(self.places)
        ]
        words = ["self", *texts[: self.only], *(["/"] if self.only else []), *texts[self.only :]]
        words += ["*args"] if self.star else ["*"] if self.named else []
        words += [f"{name}={default}" for name, default in self.named]
        words += ["**kwargs"] if self.stars else []
        body = [f"total = total * 2 + number({name})" for name in (*self.places, *dict(self.named))]
        body += ["for one in args: total = total * 3 + number(one)"] if self.star else []
        body += (
            ["for name in sorted(kwargs): total = total * 5 + len(name) + number(kwargs[name])"]
            if self.stars
            else []
        )
        kept = [line for line, is_read in zip(body, self.read, strict=False) if is_read]
        return MODEL.format(signature=", ".join(words), body="\n        ".join(kept))


@st.composite
def forms(draw: Callable[[st.SearchStrategy[Any]], Any]) -> Form:
    places = [f"p{at}" for at in range(draw(st.integers(0, 3)))]
    default = st.sampled_from(DEFAULTS)
    return Form(
        places,
        draw(st.integers(0, len(places))),
        draw(st.lists(default, max_size=len(places))),
        draw(st.booleans()),
        [(f"n{at}", one) for at, one in enumerate(draw(st.lists(default, max_size=2)))],
        draw(st.booleans()),
        draw(st.lists(st.sampled_from([True, True, True, False]), min_size=8, max_size=8)),
    )


def call(draw: Callable[[st.SearchStrategy[Any]], Any], form: Form, like: list[Any] | None) -> Any:  # noqa: ANN401
    """Arguments that a form takes: by place alone for an example, else near the example's."""
    value = st.sampled_from(VALUES)
    required = len(form.places) - len(form.defaults)
    given = draw(st.integers(required, len(form.places) + 2 * form.star))
    if like is None:
        return [draw(value) for _ in range(given)], {}
    inputs = [like[at] if at < len(like) and draw(st.booleans()) else draw(value) for at in range(given)]
    names = [*dict(form.named), *(["extra"] if form.stars else [])]
    named = {name: draw(value) for name in names if draw(st.integers(0, 3)) == 0}
    by_name = len(inputs) <= len(form.places) and draw(st.booleans())
    while by_name and len(inputs) > form.only:
        last = inputs.pop()
        named[form.places[len(inputs)]] = last
    return inputs, named


@given(form=forms(), data=st.data())
@settings(patient, max_examples=examples(40))
def test_later_calls_are_the_eager_ones_or_refused(form: Form, data: st.DataObject) -> None:
    with written(Made("signatures_made", form.text)) as module:
        example, _ = call(data.draw, form, None)
        try:
            archived = lowered_archive(
                lower(module.Model(), "aten", effects=True, example_inputs=tuple(example))
            )
        except CaptureError:
            reject()
        eager, loaded = module.Model(), Effectful.load(archived)
        assert torch.equal(eager(*example), loaded(*example))
        for _ in range(6):
            inputs, named = call(data.draw, form, example)
            try:
                found = loaded(*inputs, **named)
            except GuardError:
                continue
            expected = eager(*inputs, **named)
            assert (found.dtype, found.tolist()) == (expected.dtype, expected.tolist())
            assert loaded.state.module.count == eager.count


def test_what_the_example_leaves_out_is_guarded_at_the_line_that_reads_it() -> None:
    form = Form(
        ["p0", "p1"], 0, ["doubled"], star=True, named=[("n0", "torch.neg")], stars=True, read=[True] * 8
    )
    with written(Made("signatures_left_out", form.text)) as module:
        lowered = lower(module.Model(), "aten", effects=True, example_inputs=(X,))
        several = lower(module.Model(), "aten", effects=True, calls=[(X,), (X, X, X)])
        eager, loaded = module.Model(), Effectful.load(lowered_archive(several))
        for inputs in ((X,), (X, X, X), (X,)):
            assert torch.equal(loaded(*inputs), eager(*inputs))
        once = Effectful.load(lowered_archive(lowered))
    refused: list[tuple[tuple[Any, ...], dict[str, Any], str, str]] = [
        ((X, X), {}, r"expected type\(p1\) is LeftOut, found tensor", "number(p1)"),
        ((X,), {"n0": X}, r"expected type\(n0\) is LeftOut, found tensor", "number(n0)"),
        ((X,), {"extra": 2}, r"expected len\(kwargs\) == 0, found 1", "sorted(kwargs)"),
    ]
    for given_inputs, named, said, read in refused:
        with pytest.raises(GuardError, match=rf"{said}(.|\n)*{re.escape(read)}.*\n *~+ <--- HERE"):
            once(*given_inputs, **named)
        assert once.state.module.count == 0
    with pytest.raises(GuardError, match="as none of the 2 that were captured"):
        loaded(X, X, X, X)
