"""PyTorch 2.13, live: it loads what it refused, and prints what the archives' own releases printed."""

from __future__ import annotations

import io
import json
import re
from typing import TYPE_CHECKING

import pytest

import archive
from tests.support.corpus import RELEASES
from tests.support.migrations import MODERN, migrated
from tests.support.tampering import tampered

pytest.importorskip("torch", exc_type=ImportError)

import torch

from tests.support.sampling import crossed, sampled
from tests.support.torch_oracles import argument, called, clean, failure, have_backends, loaded

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.torch

PICKLED_MAP = "Pickled map must have four elements"
STALE = "object has no attribute or method 'preprocess'"
UNREADABLE = "Lite Interpreter version number does not match"
NESTED = {path for path in MODERN if path.parent.parent == RELEASES}
RESCUED = sorted(RELEASES.glob("torch-1.[678].0/lowered*.pt"))
ORIGINAL = "Traceback of TorchScript, original code"
HIERARCHY = re.compile(r"Module hierarchy:(.*)")
TRACEBACK = "Traceback of TorchScript (most recent call last):"


def refusal(path: Path) -> str:
    """What PyTorch says when it loads an archive; "" where it loads."""
    try:
        loaded(path)
    except RuntimeError as error:
        return str(error)
    return ""


def answers(path: Path) -> list[tuple[str, tuple[object, ...], str]]:
    """Calls that fail, and the text that the archive's own release failed with."""
    made = json.loads((path.parent / "made.json").read_text("utf-8"))
    (said,) = (one["oracle"] for one in made["files"] if one["file"] == path.name)
    errors = said.get("errors") or said.get("lite_errors") or []
    return [(one["method"], tuple(map(argument, one["args"])), one["error"]) for one in errors]


def written(path: Path, folder: Path, to: str = "latest") -> Path:
    target = folder / path.name
    target.write_bytes(migrated(path, to).data)
    return target


@pytest.mark.parametrize("release", sorted({path.parent.name for path in NESTED}))
def test_what_it_refused_loads_and_what_loaded_still_does(release: str, tmp_path: Path) -> None:
    have_backends()
    for path in sampled(sorted(path for path in NESTED if path.parent.name == release), most=2):
        before, after = refusal(path), refusal(written(path, tmp_path))
        if UNREADABLE in before:
            plan = archive.migrate(path, to="latest", dry_run=True).plan
            assert UNREADABLE in after
            assert any("reads 4 to 9" in remark for remark in plan.remarks)
        else:
            assert after == "", path
            rescued = bool(migrated(path, "latest").plan.rescues)
            assert rescued == (PICKLED_MAP in before or STALE in before), path


@pytest.mark.parametrize("model", ["nested", "traced", "unicode", "frozen", "lowered-host"])
def test_rescued_call_stacks_read_as_1_9_printed_them(model: str, tmp_path: Path) -> None:
    """But for style: 1.9 named no functions in the hierarchy and no operator, and one function alike."""
    have_backends()
    path = RELEASES / "torch-1.9.0" / f"{model}.ptl"
    assert PICKLED_MAP in refusal(path)
    for method, arguments, said in answers(path):
        now = failure(written(path, tmp_path), method, arguments)
        assert frames(now) == frames(said)
        assert now.partition(TRACEBACK)[0].splitlines()[0] == said.splitlines()[0].removeprefix(
            "RuntimeError: "
        )
        (old,), (new,) = HIERARCHY.findall(said), HIERARCHY.findall(now)
        modules = re.sub(r"::(<unknown>|FunctionName_UNKNOWN)", "", new)
        assert modules.startswith(old) or "UNKNOWN_TYPE" in old, model
        assert re.fullmatch(r"aten::\w+", new.rpartition(".")[2])


def frames(text: str) -> str:
    """The frames of a traceback; where 1.9 knew no function's name, 2.13 has another word for it."""
    return text.partition(TRACEBACK)[2].rstrip().replace("in <unknown>", "in FunctionName_UNKNOWN")


@pytest.mark.parametrize("path", RESCUED, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_rescued_lowered_modules_fail_as_their_own_release_printed(path: Path, tmp_path: Path) -> None:
    """But for the lines of the method that is gone, and where the backend's own message is another.

    PyTorch 1.6 and 1.7 took a call in generated code to begin elsewhere: there the model's lines count.
    """
    have_backends()
    for method, arguments, said in answers(path):
        now = failure(written(path, tmp_path), method, arguments)
        moved = re.sub(
            r'"code/torch/jit.py", line (\d+)',
            lambda found: f'"code/torch/jit.py", line {int(found[1]) + 7}',
            now,
        )
        before, after = said.removeprefix("RuntimeError: ").strip(), moved.strip()
        if path.name == "lowered.pt":
            before, after = (text.partition("\nRuntimeError: ")[0] for text in (before, after))
        if "host" in path.name and "torch-1.8.0" not in str(path):
            before, after = (text.partition(ORIGINAL)[2] for text in (before, after))
            assert '"/src/models.py", line ' in after
        assert after == before


@pytest.mark.parametrize(
    ("model", "release"),
    crossed(
        ["nested", "unicode", "traced"],
        ["1.4.0", "1.6.0", "1.8.0", "1.9.0", "1.11.0", "1.13.0", "2.1.0"],
        most=9,
    ),
)
def test_torchscript_prints_the_same_whatever_layout_it_reads(
    release: str, model: str, tmp_path: Path
) -> None:
    path = RELEASES / f"torch-{release}" / f"{model}.pt"
    targets = [to for to in ("1.8", "1.9", "2.13") if to != release[:-2]]
    for method, arguments, _ in answers(path):
        before = failure(path, method, arguments)
        for to in targets:
            assert failure(written(path, tmp_path, to), method, arguments) == before, to


@pytest.mark.parametrize(
    ("model", "release"),
    crossed(["nested", "unicode", "traced", "frozen"], ["1.10.0", "1.11.0", "2.0.0", "2.13.0"], most=6),
)
def test_the_lite_interpreter_prints_the_same(release: str, model: str, tmp_path: Path) -> None:
    path = RELEASES / f"torch-{release}" / f"{model}.ptl"
    for method, arguments, _ in answers(path):
        before = failure(path, method, arguments)
        for to in sampled(["1.10", "1.12", "2.13", "inline-rows", "string-table"], most=3):
            assert failure(written(path, tmp_path, to), method, arguments) == before, to


@pytest.mark.parametrize("release", ["1.7.0", "1.8.0"])
def test_module_paths_tell_module_and_operator(release: str, tmp_path: Path) -> None:
    path = RELEASES / f"torch-{release}" / "nested.ptl"
    target = written(path, tmp_path)
    with archive.open(target) as opened:
        for method, arguments, _ in answers(path):
            assert "Module hierarchy" not in failure(path, method, arguments)
            said = failure(target, method, arguments)
            assert "Module hierarchy:top(Stack)" in said
            handle = next(
                handle for handle in opened.handles if str(opened.symbolicate(handle)).strip() in said
            )
            assert opened.symbolicate(handle).module_hierarchy in said


@pytest.mark.parametrize(
    "path",
    sorted(RELEASES.glob("torch-1.[4-9]*/nested*.pt*")),
    ids=lambda path: f"{path.parent.name}-{path.name}",
)
def test_results_are_the_same(path: Path, tmp_path: Path) -> None:
    rows = (torch.arange(8).float().reshape(2, 4),)
    if UNREADABLE in refusal(path):
        return
    after = called(written(path, tmp_path), "forward", rows)
    assert isinstance(after, torch.Tensor)
    if not refusal(path):
        before = called(path, "forward", rows)
        assert isinstance(before, torch.Tensor)
        assert torch.equal(before, after)


def test_the_record_kept_aside_is_handed_out_as_an_extra_file() -> None:
    data = migrated(RELEASES / "torch-1.8.0" / "nested.pt", "latest").data
    extra = {"migrated.ptdbg": ""}
    torch.jit.load(io.BytesIO(data), _extra_files=extra)
    with archive.open(data) as opened:
        given: object = extra["migrated.ptdbg"]
        assert given == bytes(opened.records["extra/migrated.ptdbg"].view())


def test_with_the_old_code_it_is_refused_as_before(tmp_path: Path) -> None:
    """What the tests above rest on: these archives fail as they are."""
    have_backends()
    path = RELEASES / "torch-1.8.0" / "lowered.pt"
    assert STALE in refusal(path)
    target = tmp_path / "old.pt"
    target.write_bytes(tampered(migrated(path, "latest").data, {"code/torch/jit.py": path_code(path)}))
    assert STALE in clean(refusal(target))


def path_code(path: Path) -> bytes:
    with archive.open(path) as opened:
        return bytes(opened.records["code/torch/jit.py"].view())
