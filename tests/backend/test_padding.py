"""Sources of many branches get a comment, without which PyTorch copies them for each variable."""

from __future__ import annotations

import gc
import io

import pytest

import archive

pytest.importorskip("torch", exc_type=ImportError)

import torch
from torch import nn

from archive.backend import lower, lowered_archive
from archive.backend.lower.codegen import APART, LARGE, MOST_COPIED, padding

pytestmark = pytest.mark.torch
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
    model = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False).eval()
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
