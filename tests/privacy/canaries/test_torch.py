"""PyTorch loads redacted models with planted tokens, computes the same, and fails at the same lines."""

from __future__ import annotations

import re
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pytest

import archive
from archive.failures.explainer import explain
from tests.privacy.canaries.test_redacted import NAMED
from tests.support.scanner import TOKEN
from tests.support.tokens import FILES, planted_in

pytest.importorskip("torch", exc_type=ImportError)

from tests.support.running_canaries import called, failure
from tests.support.sampling import sampled

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.torch
OTHERS = {"checkpoint.pt", "compiled.pt2", "enums.ptl", "module.pt", "package.pt", "record.etrecord"}
"""Those that are no models, need a compiler, or are refused by PyTorch."""
RUN = [path for path in FILES if path.name not in OTHERS]
LINE = re.compile(r"line \d+|\.py\(\d+\)|debug_handle:-?\d+")


CODE = re.compile(r'  File "code/(?:.*\n)*?(?=  File|\n)|Module hierarchy:.*')


def without_code(text: str) -> str:
    """A failure without what tells names of generated code, which may be hashes."""
    return CODE.sub("", text)


WAYS = [
    *((path, {"preset": preset}) for path in RUN for preset in ("publish", "vendor")),
    *((path, {"preset": "publish", "names": "hash"}) for path in RUN if path in NAMED),
]


@pytest.mark.parametrize(
    ("path", "options"),
    sampled(WAYS, most=14, by=[itemgetter(0)]),
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_redacted_models_compute_the_same_and_fail_at_the_same_lines(
    path: Path, options: dict[str, Any], tmp_path: Path
) -> None:
    out = tmp_path / path.name
    archive.redact(path, out, tmp_path / "private.ptdbg", **options)
    assert called(out) == called(path)
    if path.name in {"lowered.pt", "enums.pt"}:
        return  # one's message has addresses, the other takes any width
    before, after = failure(path), failure(out)
    assert LINE.findall(after) == LINE.findall(before)
    gone = {one.token for one in planted_in(path) if one.goes in {"basename", "lines"}}
    assert gone.isdisjoint(one.decode() for one in TOKEN.findall(after.encode()))
    if path.suffix != ".pt2":  # without sample inputs PyTorch refuses a shape in other words
        with archive.open(out, companion=tmp_path / "private.ptdbg") as opened:
            explained = b"".join(explain(after.encode().splitlines(keepends=True), opened))
        assert without_code(explained.decode()) == without_code(before)
