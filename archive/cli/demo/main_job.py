"""The steps of ``debug-archive demo``: the main job, on an archive that lies beside this file.

``model.ptl`` is an archive that PyTorch 2.13 wrote; ``device.txt`` and ``source.txt`` are what its lite
interpreter printed about one failure, without and with the debug info: files of ``fixtures/oracles``. So
this needs neither PyTorch nor a checkout. Each claim is checked before it is printed.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import archive
from archive.cli.demo.claims import ClaimError, DemoStep, check, explained, handles_in, split_step, table
from archive.io.output import replacing
from archive.reader.recognition import FileKind
from archive.render.making import Sized, join_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive import Symbolication

MODEL_FILE, DEVICE_FILE, COMPANION_FILE, JOINED_FILE = "model.ptl", "device.ptl", "model.ptdbg", "joined.ptl"
LOG_FILE = "device.txt"
FILES = (MODEL_FILE, DEVICE_FILE, COMPANION_FILE, LOG_FILE, JOINED_FILE)
"""All that are made."""
SOURCE_FILE = "source.txt"
HERE = Path(__file__).parent
FAILURES = (ClaimError,)
"""Raised by steps that do not show what they claim."""


def steps(folder: Path, *, force: bool) -> Iterator[DemoStep]:
    """Do one step after the other, each when it is asked for."""
    for name in (MODEL_FILE, LOG_FILE):
        with replacing(folder / name, force=force) as out:
            out.write((HERE / name).read_bytes())
    yield _model(folder)
    # With the handles as they are, PyTorch prints of the small file what the log has.
    title = "The debug info split off (--handles keep), before it is shipped"
    yield split_step(folder, MODEL_FILE, DEVICE_FILE, COMPANION_FILE, title, handles="keep", force=force)
    yield _failure(folder)
    yield _explained(folder)
    yield _joined(folder, force=force)


def _model(folder: Path) -> DemoStep:
    """Say what the archive is."""
    path = folder / MODEL_FILE
    diagnostics = archive.verify(path)
    check(not diagnostics, f"{MODEL_FILE} is well")
    with archive.open(path) as opened:
        check(opened.recognised.kind is FileKind.LITE, f"{MODEL_FILE} is for the lite interpreter")
        handles = sum(_has_source(opened.symbolicate(handle)) for handle in opened.handles)
        account = archive.sizes(opened)
    text = (
        f"{MODEL_FILE} is for PyTorch's lite interpreter: {account.size:,} bytes,\n"
        f"{account.debug_bytes:,} of them debug info, which leads {handles:,} debug handles to source."
    )
    facts = {"path": str(path), "bytes": account.size, "debug": account.debug_bytes, "handles": handles}
    return DemoStep("model", "A model for a device", text, facts)


def _has_source(found: Symbolication) -> bool:
    """Whether a frame of a handle shows a line of the model."""
    return any(frame.range is not None and not frame.range.source.is_null for frame in found.frames)


def _failure(folder: Path) -> DemoStep:
    """Show what PyTorch printed about a failure of the small file."""
    said = (folder / LOG_FILE).read_text("utf-8")
    handles = handles_in(said)
    check("<--- HERE" not in said, f"PyTorch shows no source for {DEVICE_FILE}")
    check(handles, f"PyTorch names a handle for {DEVICE_FILE}")
    text = f"Without the debug info, PyTorch 2.13 printed this ({LOG_FILE}):\n\n{said.rstrip()}"
    facts: dict[str, object] = {"log": str(folder / LOG_FILE), "handles": handles, "text": said}
    return DemoStep("failure", f"{DEVICE_FILE} fails: a number is left", text, facts)


def _explained(folder: Path) -> DemoStep:
    """Explain that by the companion."""
    log = (folder / LOG_FILE).read_bytes()
    said = explained(folder / COMPANION_FILE, log)
    with archive.open(folder / COMPANION_FILE) as companion:
        found = companion.symbolicate(handles_in(log.decode()))
    same = said == (HERE / SOURCE_FILE).read_text("utf-8")
    check(same, f"{COMPANION_FILE} makes of it what PyTorch prints with the source at hand")
    check(not found.missing, f"{COMPANION_FILE} knows the handles")
    text = f"{said.rstrip()}\n\nThat is, to the byte, what PyTorch 2.13 printed for {MODEL_FILE}."
    facts = {"same_text": same, "module_hierarchy": found.module_hierarchy, "text": said}
    return DemoStep("explained", f"The same failure, explained by {COMPANION_FILE}", text, facts)


def _joined(folder: Path, *, force: bool) -> DemoStep:
    """Put both halves together again."""
    made = archive.join(folder / DEVICE_FILE, folder / COMPANION_FILE, folder / JOINED_FILE, force=force)
    same = (folder / JOINED_FILE).read_bytes() == (folder / MODEL_FILE).read_bytes()
    check(same and made.exact, f"{JOINED_FILE} is {MODEL_FILE}, byte for byte")
    names = (DEVICE_FILE, JOINED_FILE, COMPANION_FILE)
    sizes = [Sized(name, (folder / name).stat().st_size) for name in names]
    facts = asdict(made) | {"joined": str(folder / JOINED_FILE), "same_bytes": same}
    return DemoStep("joined", "Both halves joined again", table(join_text(made, *sizes)), facts)
