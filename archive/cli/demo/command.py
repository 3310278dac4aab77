"""``debug-archive demo``."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from archive.base.errors import one_line
from archive.cli import options, printing
from archive.cli.forms import facts_options
from archive.cli.status import Cause
from archive.io.output import check_target

if TYPE_CHECKING:
    from types import ModuleType

    from archive.cli.status import ExitStatus
    from archive.render.documents import DemoFacts


@click.command("demo")
@click.option("--backend", is_flag=True, help="A part of a model lowered to a backend. Needs PyTorch.")
@click.option(
    "-o",
    "--output",
    "out",
    metavar="FOLDER",
    type=click.Path(file_okay=False, path_type=Path),
    show_default="a temporary one, removed at the end",
    help="Folder for the files that are made.",
)
@options.force_option()
@facts_options()
def command(*, backend: bool, out: Path | None, force: bool, as_json: bool) -> ExitStatus:
    """Show what this project does, on a small real model, step by step.

    A model is split into a small file for the device (device.ptl) and its debug info (model.ptdbg), which
    explains a failure of the small file as PyTorch does with the source at hand; both are joined again. This
    needs no PyTorch: what PyTorch printed comes with the model.

    --backend lowers a part of an image classifier, saves the model (host.ptl, host.pt), and runs it in stock
    PyTorch, in a process that cannot import this library. It fails with a bad image there, and here, at the
    model's own lines; a run is profiled (trace.json); and the debug info is split off (device.ptl,
    model.ptdbg), which then explains the numbers that are left.

    Each result and text is compared.

    \b
    Examples:
      debug-archive demo
      debug-archive demo --backend
      debug-archive demo --backend -o build/backend
      debug-archive demo --backend --json
    """  # noqa: D301 (click reads the backspace)
    shown = _backend_steps() if backend else _main_steps()
    with ExitStack() as stack:
        if out is None:
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="debug-archive-")))
        else:
            folder = out
            for name in shown.FILES:
                check_target(folder / name, force=force)
            folder.mkdir(parents=True, exist_ok=True)
        return _show(shown, folder, kept=out is not None, force=force, as_json=as_json)


def _main_steps() -> ModuleType:
    """The module with the steps of the main job."""
    from archive.cli.demo import main_job  # noqa: PLC0415 (--help does without)

    return main_job


def _backend_steps() -> ModuleType:
    """The module with the steps of ``--backend``."""
    with options.importing_pytorch("--backend"):
        from archive.cli.demo import backend_job  # noqa: PLC0415 (imports PyTorch)
    return backend_job


def _show(shown: ModuleType, folder: Path, *, kept: bool, force: bool, as_json: bool) -> ExitStatus:
    """Do all steps; print each as it is done, or the facts of all of them as JSON."""
    facts: dict[str, object] = {}
    seconds: dict[str, float] = {}
    problem = ""
    started = time.perf_counter()
    try:
        for number, step in enumerate(shown.steps(folder, force=force), 1):
            now = time.perf_counter()
            seconds[step.name], started = round(now - started, 3), now
            facts[step.name] = step.facts
            if not as_json:
                title = f"{number}. {step.title}"
                printing.write(f"{title}\n{'─' * len(title)}\n{step.text.rstrip()}\n\n".encode())
                printing.flush()
    except shown.FAILURES as error:
        problem = one_line(str(error))
    if as_json:
        document: DemoFacts = {
            "file": str(folder),
            "kept": kept,
            "steps": facts,
            "seconds": seconds,
            "problem": problem or None,
        }
        printing.write_document(document)
    elif not problem:
        where = f"are in {folder.absolute()}." if kept else "are removed; -o FOLDER keeps them."
        printing.write(
            f"All of it compared and true, in {sum(seconds.values()):.1f} s. The files {where}\n".encode()
        )
    if problem:
        printing.print_error(problem)
    return Cause.FALSE_CLAIM.when(problem)
