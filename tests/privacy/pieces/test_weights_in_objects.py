"""The weights that PyTorch links into the object of a compiled model are tensors: numbers, not texts."""

from __future__ import annotations

import io
import zipfile
from typing import TYPE_CHECKING

import numpy as np
import pytest

import archive
from archive.formats.elf.weights import weights_span
from tests.support.corpus import FIXTURES

if TYPE_CHECKING:
    from collections.abc import Callable

    from archive.privacy.leaks import LeakKind

PACKAGE = FIXTURES / "compiled" / "several.pt2"
BY_CHANCE = (b"C:\\ab\\cd", b"a@bc.de", b"~/a/b.py")
"""What some megabytes of random numbers have."""


def package(weights: Callable[[int], bytes]) -> tuple[bytes, list[tuple[str, int, int]]]:
    """The package with other weights in its object files, and where these lie in each."""
    made, spans = io.BytesIO(), []
    with zipfile.ZipFile(PACKAGE) as was, zipfile.ZipFile(made, "w") as out:
        for entry in was.infolist():
            data = was.read(entry)
            span = weights_span(memoryview(data))
            if span is not None:
                spans.append((entry.filename.partition("/")[2], *span))
                data = data[: span[0]] + weights(span[1] - span[0]) + data[span[1] :]
            out.writestr(entry, data)
    return made.getvalue(), spans


def padded(text: bytes) -> Callable[[int], bytes]:
    return lambda size: (b"\xfe\xfe" + text + b"\0").ljust(size, b"\xfe")


def found(data: bytes, *, deep: bool) -> set[tuple[LeakKind, str]]:
    return {(one.kind, one.text) for one in archive.leaks(data, deep=deep).findings}


@pytest.mark.parametrize("text", BY_CHANCE)
@pytest.mark.parametrize("deep", [False, True])
def test_what_random_weights_have_by_chance_is_no_finding(text: bytes, deep: bool) -> None:  # noqa: FBT001 (a case)
    plain, spans = package(lambda size: b"\xfe" * size)
    assert spans
    assert found(package(padded(text))[0], deep=deep) == found(plain, deep=deep)


def test_random_weights_make_no_finding() -> None:
    plain, _ = package(lambda size: b"\xfe" * size)
    random, _ = package(np.random.default_rng(0).bytes)
    assert found(random, deep=True) == found(plain, deep=True)


def test_long_texts_in_weights_are_found_in_depth_at_their_bytes() -> None:
    data, spans = package(padded(b"/home/ann/secret/model.py"))
    places = [one.places[0] for one in archive.leaks(data, deep=True).counted() if "secret" in one.text]
    name, start, _ = spans[0]
    assert [(place.record, place.byte) for place in places] == [(name, start + 2)]
    assert archive.leaks(data).passed_over >= sum(stop - start for _, start, stop in spans)
    assert not any("secret" in text for _, text in found(data, deep=False))
