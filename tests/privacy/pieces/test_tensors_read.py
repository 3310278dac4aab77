"""A tensor whose bytes are those that were read before has what was found in them; any other is read."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archive.base import memory
from archive.base.limits import Limits
from archive.container.container import Container
from archive.container.write import new_member
from archive.privacy.leaks.findings import Allowed
from archive.privacy.pieces.tensors_read import FEWEST_BYTES, SHARE, TensorsRead
from archive.privacy.pieces.walker import Walker
from archive.privacy.redact.promises import judged
from archive.privacy.redact.proof import prove
from archive.privacy.redact.removed import Removed
from archive.privacy.redact.rules import Rules
from tests.support.sampling import examples
from tests.support.tampering import packed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.privacy.pieces.piece import FilePiece

PATH, OTHER = b"/home/annabel/models/net.py", b"/srv/berenike/models/net.py"
NUMBERS = np.random.default_rng(0).standard_normal(5_000, np.float32).tobytes()
TENSOR = NUMBERS[:9_000] + PATH + bytes(4) + NUMBERS[9_000:]


@contextmanager
def opened(tensor: bytes) -> Iterator[Container]:
    members = [new_member("data.pkl", b"\x80\x02)."), new_member("data/0", tensor, compress=False)]
    with Container.open(packed(members)) as container:
        yield container


def read(tensor: bytes, tensors: TensorsRead | None) -> FilePiece:
    """The piece that a tensor is, once its strings have been read."""
    with memory.charged(Limits().allowance(len(tensor))), opened(tensor) as container:
        for piece in Walker(deep=True, tensors=tensors).zip(container):
            if piece.record == "data/0":
                assert piece.strings.data
                found = piece
    return found


def test_the_same_bytes_are_not_read_twice() -> None:
    tensors = TensorsRead()
    strings = read(TENSOR, tensors).strings
    assert read(TENSOR, tensors).strings is strings
    assert read(bytes(4) + TENSOR, tensors).strings is not strings


@settings(max_examples=examples(200))
@given(at=st.integers(0, len(TENSOR)), more=st.integers(0, 40), put=st.sampled_from([b"", b"\x80", OTHER]))
def test_a_tensor_that_changed_is_read(at: int, more: int, put: bytes) -> None:
    changed = TENSOR[:at] + put + TENSOR[at + len(put) :] + bytes(more)
    tensors = TensorsRead()
    read(TENSOR, tensors)
    after, alone = read(changed, tensors), read(changed, None)
    assert after.strings.data == alone.strings.data
    assert np.array_equal(after.ascii_words, alone.ascii_words)  # type: ignore[arg-type]
    places = range(0, len(after.strings.data), 50)
    assert list(map(after.strings.place, places)) == list(map(alone.strings.place, places))


@pytest.mark.parametrize("planted", [OTHER, OTHER.decode().encode("utf-16-le")], ids=["utf-8", "utf-16"])
def test_the_proof_finds_what_came_into_a_tensor(planted: bytes) -> None:
    tensors = TensorsRead()
    read(TENSOR, tensors)
    removed, rules = Removed({OTHER}), Rules.of((), "publish")
    planted += bytes(4)
    with opened(TENSOR[:100] + planted + TENSOR[100 + len(planted) :]) as container:
        proof = prove(container, removed, tensors=tensors)
    assert proof.left["path", OTHER] == "data/0"
    assert {OTHER, PATH} <= judged(proof.finder, rules).left.keys()


def test_the_proof_finds_what_stayed_in_a_tensor() -> None:
    tensors = TensorsRead()
    read(TENSOR, tensors)
    with opened(TENSOR) as container:
        proof = prove(container, Removed({PATH, OTHER}), tensors=tensors)
    assert proof.left["path", PATH] == "data/0"
    assert not {text for _, text in proof.left} & {OTHER}
    found = {finding.data for finding in proof.finder.found(Allowed([])).findings}
    assert PATH in found


@pytest.mark.parametrize("allowed", [1 << 12, 1 << 20, 1 << 30])
def test_what_is_kept_takes_a_share_of_memory_and_of_the_tensor(allowed: int) -> None:
    allowance = Limits(memory=allowed).allowance(0)
    with memory.charged(allowance):
        tensors, texts = TensorsRead(), PATH * 1_000
    for tensor in (TENSOR, texts, b"\n".join([NUMBERS, *(PATH + b"%d" % at for at in range(300))])):
        before = allowance.taken
        read(tensor, tensors)
        assert allowance.taken - before <= len(tensor) // FEWEST_BYTES
    assert allowance.taken <= allowed // SHARE
    assert (allowance.taken > 0) == (allowed > 1 << 12)
