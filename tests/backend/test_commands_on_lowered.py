"""Every command reads what a backend writes: handles in blobs are found, checked, completed and compared.

The models are those that the rules for backends and the table of models try: with control flow, state,
objects, several methods. Whoever writes another form of blob, or another version of a program, fails here.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("torch", exc_type=ImportError)

import torch

import archive
from archive.backend import DebugHandles, lower, lowered_archive
from archive.compare.sameness import Level
from archive.describe.inspect import inspect
from archive.formats import blob_programs
from archive.formats.record_kinds import DATA
from tests.backend import test_module_state, test_objects
from tests.support.backend_models import Branching, cases, oracle_models
from tests.support.commands import well
from tests.support.sampling import sampled
from tests.support.tampering import tampered
from tests.zoo.catalogue import SAMPLES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

DEMO = "backend_with_compiler_demo"
L = oracle_models()


def case_of(name: str) -> torch.nn.Module:
    return cases()[name].model


def sample_of(name: str) -> torch.nn.Module:
    return SAMPLES[name].build()[0].eval()


MODELS: dict[str, tuple[Callable[[], torch.nn.Module], str]] = {
    **{f"{name} in the demo": (getattr(L, name), DEMO) for name in ("A", "MultiLine")},
    **{name: (getattr(L, name), "aten") for name in ("A", "MultiLine")},
    **{name: (partial(case_of, name), "aten") for name in cases()},
    **{name: (case.model, "aten") for name, case in test_module_state.CASES.items()},
    "branching": (Branching, "aten"),
    "across": (test_objects.Across, "aten"),
    "in a loop": (test_objects.InLoop, "aten"),
    **{
        name: (partial(sample_of, name), "aten")
        for name, sample in SAMPLES.items()
        if sample.way == "scripted" and sample.package == "torch"
    },
}
STATEFUL = {*test_module_state.CASES, "across", "in a loop"}
TRIED = sampled(MODELS, 8, [lambda name: name in STATEFUL, lambda name: MODELS[name][1]])
FIRST, UNKNOWN = 4_000_000, 7_777_777
"""The first handle that is given out, and one that is not."""


@cache
def written(name: str) -> tuple[bytes, bytes, frozenset[int]]:
    """A module, lowered twice with one recorder; and the handles that it gave out.

    Their numbers are long, so that one may be put in another's place.
    """
    build, backend = MODELS[name]
    torch.manual_seed(0)
    module, recorder = build(), DebugHandles(FIRST)
    first = lowered_archive(lower(module, backend, recorder=recorder))
    given = frozenset(recorder.operations)
    return first, lowered_archive(lower(module, backend, recorder=recorder)), given


def handles_of(data: bytes) -> list[int]:
    with archive.open(data) as opened:
        (state,) = opened.lowered.values()
        assert state.unread == ""
        return list(map(int, state.handles))


def with_unknown(data: bytes) -> bytes:
    """The archive with a handle in its blob that nobody gave out."""
    known, other = (str(handle).encode() for handle in (handles_of(data)[0], UNKNOWN))
    return tampered(data, {DATA: lambda was: bytes(was).replace(known, other)})


@pytest.mark.parametrize("name", TRIED)
def test_the_handles_that_a_backend_gave_out_are_found(name: str) -> None:
    data, _, given = written(name)
    found = handles_of(data)
    assert found
    assert given.issuperset(found)
    with archive.open(data) as opened:
        assert [state.handles for state in inspect(opened).lowered.values()] == [found]
    assert {"note"}.issuperset(finding.severity for finding in archive.verify(data))


@pytest.mark.parametrize("name", TRIED)
def test_an_unknown_handle_is_an_error_and_migrate_gives_it_a_row(name: str, tmp_path: Path) -> None:
    data = with_unknown(written(name)[0])
    (said,) = (finding for finding in archive.verify(data) if finding.severity == "error")
    assert f"found {UNKNOWN}; PyTorch loads it, and nothing says what the operation is" in str(said)
    (tmp_path / "m.pt").write_bytes(data)
    archive.migrate(tmp_path / "m.pt", tmp_path / "new.pt", to="latest")
    assert {finding.severity for finding in archive.verify(tmp_path / "new.pt")} == {"note"}  # it has no name
    with archive.open(tmp_path / "new.pt") as opened:
        assert UNKNOWN in opened.handles


@pytest.mark.parametrize("name", [name for name in TRIED if MODELS[name][1] == "aten"])
def test_handles_that_a_process_counted_are_not_the_model(name: str) -> None:
    first, second, _ = written(name)
    assert set(handles_of(first)).isdisjoint(handles_of(second))
    rows = [row for row in archive.diff(first, second).changes if row.level is Level.MODEL]
    assert rows == []
    assert archive.digest(first) == archive.digest(second)


def test_programs_of_both_versions_are_among_them() -> None:
    assert {*test_module_state.CASES} <= STATEFUL < {*MODELS}
    beginnings = {version_of(written(name)[0]) for name in TRIED}
    assert beginnings == {None, *blob_programs.VERSIONS}


def version_of(data: bytes) -> int | None:
    with archive.open(data) as opened:
        (state,) = opened.lowered.values()
    beginning = blob_programs.BEGINNING.search(repr(state.processed))
    return None if beginning is None else int(beginning[1])


# --- versions that are not known


def later(data: bytes) -> bytes:
    return tampered(data, {DATA: lambda was: bytes(was).replace(b'{"version":1,', b'{"version":9,')})


def test_of_a_program_of_another_version_nothing_is_said_that_was_not_read(tmp_path: Path) -> None:
    data = later(written("mlp")[0])
    (tmp_path / "m.pt").write_bytes(data)
    unread = "a program of version 9, not 1 or 2"
    assert f"backend aten, {unread}, whose handles cannot be read, in its blob" in well(
        "inspect", tmp_path / "m.pt"
    )
    (said,) = archive.verify(data)
    assert said.severity == "warning"
    assert f"{unread} in lowered module '__loweredModule__'" in str(said)
    plan = archive.migrate(tmp_path / "m.pt", tmp_path / "new.pt", to="latest", dry_run=True).plan
    assert any("handles that it names are not added to the map" in remark for remark in plan.remarks)
