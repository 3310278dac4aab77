"""An archive that nobody here made, through every command: silero-vad's voice detector (MIT).

``make`` installs its package without what it depends on, and nothing of it is imported.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

import archive
from archive.check.verify import verify
from tests.support.commands import row, size, told, well
from tests.support.sampling import sampled
from tests.support.scanner import holds

CODE = "code/__torch__/vad/model/vad_annotator.py"
TARGETS = sampled(["1.3", "1.9", "1.12", "latest", "inline-rows", "string-table"], most=2)
CALLS = [(512, 16000), (512, 16000), (256, 8000), (256, 8000)]
"""Samples and sample rates that the model takes; it keeps a state from one to the next of the same rate."""

SAME = {"join", "restore"}
"""What gives the file itself again."""


@cache
def silero() -> Path:
    """The archive, found without an import of the package."""
    spec = find_spec("silero_vad")
    assert spec is not None, "silero-vad is not installed: `make test` does, by constraints.txt"
    assert spec.submodule_search_locations is not None
    (path,) = Path(spec.submodule_search_locations[0], "data").glob("*.jit")
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """What each command that writes makes of it."""
    folder = tmp_path_factory.mktemp("silero")
    paths = {
        name: folder / f"{name}.jit" for name in ("split", "join", "compact", "embed", "restore", *TARGETS)
    }
    well("split", silero(), "-o", paths["split"], "-c", folder / "silero.ptdbg")
    well("join", paths["split"], "-c", folder / "silero.ptdbg", "-o", paths["join"])
    well("shrink", silero(), "-o", paths["compact"])
    well("shrink", silero(), "-o", paths["embed"], "--level", "embed")
    well("restore", paths["embed"], "-o", paths["restore"])
    for target in TARGETS:
        well("migrate", silero(), "-o", paths[target], "--to", target)
    return paths


def test_it_is_inspected() -> None:
    said = well("inspect", silero())
    assert "top module VADRNNJITMerge\nof PyTorch 2.1 or later, as all 6 signs say\n" in said
    assert "1,365 source ranges in 131 sources, 0 debug handles\n" in said


def test_every_byte_is_accounted_for() -> None:
    assert row(well("sizes", silero()), "total")[0] == size(silero())


def test_it_is_well_and_so_is_all_that_is_made_of_it(made: dict[str, Path]) -> None:
    assert verify(silero()) == []
    for name in made.keys() - SAME:
        findings = verify(made[name])
        assert [str(one) for one in findings if one.severity != "note"] == [], name
        assert len(findings) <= 3, name


def test_the_way_back_is_the_file_to_the_byte(made: dict[str, Path], tmp_path: Path) -> None:
    assert made["join"].read_bytes() == made["restore"].read_bytes() == silero().read_bytes()
    for name in (*TARGETS, "join"):
        back = tmp_path / f"{name}.jit"
        well("migrate", made[name], "-o", back, "--to", "original")
        assert back.read_bytes() == silero().read_bytes(), name


def test_places_in_its_code_lead_to_the_same_source_whatever_was_made_of_it(made: dict[str, Path]) -> None:
    with archive.open(silero()) as opened:
        at = bytes(opened.records[CODE].view()).index(b'ops.prim.RaiseException("Input audio chunk')
    expected = well("symbolicate", silero(), "--at", f"{CODE}:{at}")
    assert '            raise ValueError("Input audio chunk is too short")\n' in expected
    for name, path in made.items():
        more = ["-c", path.with_name("silero.ptdbg")] if name == "split" else []
        assert well("symbolicate", path, "--at", f"{CODE}:{at}", *more) == expected, name


def test_migrations_tell_what_prints_otherwise() -> None:
    rows = 'source ranges of no file lose a line `File "", line …` in what PyTorch prints, rows: 7'
    for to in TARGETS:
        plan = told("migrate", silero(), "--to", to, "--dry-run", "-o", "x")["plan"]
        assert isinstance(plan, dict)
        assert plan["remarks"] == ([rows] if to in {"1.3", "1.9", "inline-rows"} else []), to


def test_what_it_tells_of_its_builders_goes(tmp_path: Path) -> None:
    people = {one.text for one in archive.leaks(silero()).findings if one.kind is archive.LeakKind.USER}
    assert people == {"keras"}
    out, private = tmp_path / "public.jit", tmp_path / "private.ptdbg"
    well("redact", silero(), "-o", out, "-c", private, "--for", "publish")
    assert archive.leaks(out).counted() == []
    assert [
        one for one in ("keras", "adamnsandle", "/opt/conda", "nvme1") if holds(out.read_bytes(), one)
    ] == []
    well("join", out, "-c", private, "-o", tmp_path / "back.jit")
    assert (tmp_path / "back.jit").read_bytes() == silero().read_bytes()


@pytest.mark.torch
def test_pytorch_computes_and_shows_the_same_of_all_that_is_made_of_it(made: dict[str, Path]) -> None:
    torch = pytest.importorskip("torch", exc_type=ImportError)

    def outcome(path: Path) -> tuple[list[float], str]:
        """What the model computes, and fails with."""
        model = torch.jit.load(str(path))
        waves = [(torch.sin(torch.arange(samples) / 9.0)[None], rate) for samples, rate in CALLS]
        results = [model(*wave).item() for wave in waves]
        with pytest.raises(torch.jit.Error) as raised:
            model(torch.zeros(1, 100), 16000)
        return results, str(raised.value)

    expected, failure = outcome(silero())
    assert len(set(expected)) == 4
    assert 'raise ValueError("Input audio chunk is too short")' in failure
    for name in made.keys() - SAME:
        results, other = outcome(made[name])
        assert results == expected, name
        if name in {"split", "embed"}:
            assert "original code" not in other, name
        else:
            assert other == failure, name
