"""The bytes of tensors and blobs in a ``.pte`` are those that ExecuTorch's own ``size_analysis_tool`` counts.

The tool counts the tensors of a program, of each method by itself. A file has equal bytes once: weights of
two methods, and the zeros or ones of a norm. So the tool's sums may be larger than what is stored. It does
not count named data, in which XNNPACK's weights are.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

import archive
from archive.describe.sizes import View
from tests.support.executorch import program_file

SUFFIX = ".pte.sizes.json"
NETWORKS = sorted(path.name.removesuffix(SUFFIX) for path in program_file("mlp").parent.glob(f"*{SUFFIX}"))
STORED_ONCE = {"attention": 96, "cnn": 32, "twice": 144}
"""Bytes that the tool counts once more."""


@pytest.mark.parametrize("name", NETWORKS)
def test_tensors_and_blobs_take_what_executorchs_own_tool_counts(name: str) -> None:
    path = program_file(name)
    methods: dict[str, Any] = json.loads(path.with_suffix(SUFFIX).read_text("utf-8"))
    tensors = [(size, digest) for method in methods.values() for size, digest in method["tensors"]]
    once = sum(size for size, _ in {*tensors})
    assert sum(size for size, _ in tensors) - once == STORED_ONCE.get(name, 0)
    stored = {kind: size.stored for kind, size in archive.sizes(path).by(View.KIND).items()}
    assert stored.get("tensor", 0) == once
    assert stored.get("compiled model", 0) == sum(sum(method["blobs"]) for method in methods.values())
    assert sum(stored.values()) == path.stat().st_size
