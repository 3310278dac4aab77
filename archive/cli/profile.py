"""``debug-archive profile``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import click

from archive.base.limits import DEFAULT_LIMITS
from archive.cli import options, printing
from archive.cli.forms import MODEL_EXPLORER, ROW_FORMS, facts_options
from archive.cli.inputs import input_value
from archive.cli.showing import showing
from archive.cli.status import Cause, ExitStatus
from archive.debuginfo.profiles.profile import writer_of
from archive.debuginfo.profiles.saved import compared, is_saved_profile, read_profile, saved_profile
from archive.debuginfo.profiles.timeline import RUNTIME_VIEWS, VIEWS
from archive.io.output import check_target
from archive.io.urls import name_of
from archive.reader.recognition import FileKind, recognise_for
from archive.reader.recognition.kinds import COMMAND_KINDS
from archive.render.profile import comparison_text, rows_text, run_text, runtime_notes
from archive.render.rows import PROFILE_KEYS, SAVED_KEYS, by_view, profile_changes

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from archive.base.limits import Limits
    from archive.debuginfo.profiles.profile import Profile
    from archive.debuginfo.profiles.saved import SavedProfile
    from archive.debuginfo.profiles.timeline import View

SOURCE: Final = "source"
NO_TEXT = (
    "The archive's debug info has no text of the lines that ran (traced models have call stacks): --by line."
)
ALL_ROWS = sys.maxsize


@click.command("profile")
@click.argument("file", type=click.Path(dir_okay=False))
@click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="SIZES|VALUE",
    help="An argument of the method: a tensor by its sizes and type (1x3x32x32, 16:int64; random floats, "
    "other types zeros), or a value as JSON (5, true, [1, 2]). May be repeated.",
)
@options.companion_option(
    "Its debug info, if that was split off; of an ETDump, the ETRecord of the program that ran.", is_file=True
)
@options.program_option
@click.option(
    "--method",
    show_default="forward; of an ETDump, what each run fits",
    help="The method to run, or that ran.",
)
@click.option(
    "--lite/--torchscript",
    "lite",
    default=None,
    show_default="lite, if the archive has bytecode and debug handles",
    help="What runs the model: PyTorch's lite interpreter, or TorchScript.",
)
@click.option("--runs", type=click.IntRange(min=1), show_default="1", help="How often it runs.")
@click.option(
    "--warmup",
    type=click.IntRange(min=0),
    show_default="2; of an ETDump, 0",
    help="Runs before, unobserved; of an ETDump, runs of each method that do not count.",
)
@click.option(
    "--tick-ns",
    type=click.FloatRange(min=0, min_open=True, max=1e9),
    show_default="1, as on Linux, Android and macOS",
    help="Nanoseconds of a tick of the device's clock, which an ETDump does not say.",
)
@click.option(
    "--by",
    "view",
    type=click.Choice([*VIEWS, *RUNTIME_VIEWS, SOURCE]),
    show_default="module; for an ETDump without its ETRecord, operator",
    help="What a row stands for; `source` shows the model's source with the times of each line. Instructions "
    "and delegates (backends) are ExecuTorch's.",
)
@options.top_option("Rows to show; 0 for all.")
@click.option(
    "--base",
    type=click.Path(dir_okay=False),
    metavar="JSON",
    help="Show what changed since this saved profile.",
)
@click.option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    type=click.Path(dir_okay=False),
    help="Write x.json (Chrome, Perfetto), x.speedscope.json, or x.folded (flamegraph.pl). May be repeated.",
)
@options.force_option()
@options.limit_option
@facts_options(*ROW_FORMS, MODEL_EXPLORER, words="Print the profile as JSON: the format of saved profiles.")
def command(
    file: str,
    base: str | None,
    view: View | Literal["source"] | None,
    rows: int,
    *,
    as_json: bool,
    **given: Any,  # noqa: ANN401 (as click gives them)
) -> ExitStatus:
    """Show the times and memory of a model's runs at its source: of a run in stock PyTorch, or ExecuTorch's.

    FILE is an archive, which PyTorch loads and runs: its code must be trusted. Times are those of
    torch.profiler, whose own work is part of them; memory is that of PyTorch's allocator.

    Or FILE is an exported program, lowered in parts or not, which PyTorch runs node by node: times only, by
    default with the sample inputs that it has.

    Or FILE is an ETDump, which ExecuTorch's runtime has written: nothing runs, and PyTorch is not needed. Or
    FILE is a profile that --json has printed before.

    \b
    Examples:
      debug-archive profile model.ptl --input 1x3x224x224
      debug-archive profile model.pt --input 8x16:int64 --by line --runs 10
      debug-archive profile model.pt --input 1x3x224x224 --by source
      debug-archive profile model.pt2 --by line --runs 10
      debug-archive profile small.ptl -c model.ptdbg --input 1x64 -o run.folded
      debug-archive profile model.ptl --input 1x64 -o run.speedscope.json
      debug-archive profile model.ptl --input 1x64 --runs 20 --json > before.json
      debug-archive profile model.ptl --input 1x64 --runs 20 --base before.json
      debug-archive profile m.ptl --input 1x64 --format model-explorer > time.json
      debug-archive profile after.json --base before.json --by line
      debug-archive profile run.etdp -c model.etrecord --by line
      debug-archive profile run.etdp -c m.etrecord --program model.pte --by line
      debug-archive profile run.etdp -c m.etrecord --warmup 1 -o r.speedscope.json
    """  # noqa: D301 (click reads the backspace)
    before = None if base is None else read_profile(base, base)
    run, refused, views, why = runner = SAVED if is_saved_profile(file) else _runner(file, given["limits"])
    if view in views or any(given[name] not in UNGIVEN for name in refused):
        raise click.UsageError(why)
    if showing.form == MODEL_EXPLORER and (runner is not ARCHIVE or view is not None or before is not None):
        raise click.UsageError(
            "--format model-explorer has the times of an archive's operations: without --base and --by, and "
            "not of an exported program, an ETDump or a saved profile"
        )
    if run is None:
        profile = read_profile(file, file)
        _show_saved(file, profile, before, view or profile.first_view, rows, as_json=as_json)
        return ExitStatus.WELL
    if view == SOURCE and (before is not None or showing.form in ROW_FORMS):
        raise click.UsageError("--by source is a listing, not rows, which --base compares and tables have")
    for output in given["outputs"]:  # refused before anything runs
        writer_of(output)
        check_target(output, force=given["force"])
    made, facts = run(file, view, given)
    for path in given["outputs"]:
        made.save(path, force=given["force"])
    is_lacking = made.unknown and (runner is not DUMP or given["companion"] is not None)
    if is_lacking:
        many = f"{made.unknown:,} of {len(made.events):,} operations have no debug info"
        printing.note(many + ("" if given["companion"] else "; -c gives a companion, if it was split off"))
    if runner is not DUMP:
        _note_lines(made)
    status = Cause.NO_DEBUG_INFO.when(is_lacking)
    if showing.form == MODEL_EXPLORER:
        from archive.render.node_data import NodeDataText, times  # noqa: PLC0415 (few ask for it)

        data = times(made, facts["runs"])
        printing.write_document({"file": name_of(file), "data": data}, text=NodeDataText())
    elif before is not None:
        shown = view or made.views[0]
        _show_saved(file, saved_profile(facts), before, shown, rows, as_json=as_json)
    elif as_json:
        shown = view or made.views[0]
        printing.write_document({"file": name_of(file), **facts}, text=by_view(shown, PROFILE_KEYS))
    elif view == SOURCE:
        printing.show_lines((line, "") for line in (made.listing() or NO_TEXT).split("\n"))
    else:
        printing.show(run_text(made, view or made.views[0], rows or ALL_ROWS))
    return status


def _note_lines(made: Profile) -> None:
    """Say how many operations of known modules have no line."""
    count = len(made.events)
    if made.without_line:
        many = f"{made.without_line:,} of {count:,} operations have no line"
        printing.note(f"{many} of the model in its debug info")
    if made.ambiguous:
        many = f"{made.ambiguous:,} of {count:,} operations may be of several lines"
        printing.note(f"{many}: the lite interpreter does not say of which; --torchscript may show it")


# --- what FILE may be


class Runner(NamedTuple):
    """What makes a profile of a kind of FILE, and what it refuses.

    Attributes:
        run: FILE, view and options → profile and facts; None for a saved profile, which is only shown.
        refused: options, by their names in Python.
        views: those of ``--by``.
        why: both in words.
    """

    run: Callable[[str, str | None, Mapping[str, Any]], tuple[Profile, dict[str, Any]]] | None
    refused: Collection[str]
    views: Collection[str]
    why: str


def _runner(file: str, limits: Limits) -> Runner:
    kind = recognise_for(file, COMMAND_KINDS["profile"], limits=limits).kind
    return {FileKind.ETDUMP: DUMP, FileKind.EXPORTED: PROGRAM}.get(kind, ARCHIVE)


def _run_dump(file: str, view: str | None, given: Mapping[str, Any]) -> tuple[Profile, dict[str, Any]]:
    from archive.describe.runtime.profile import profile_etdump  # noqa: PLC0415 (not for saved ones)

    companion, method = given["companion"], given["method"]
    if method is not None and companion is None:
        raise click.UsageError("--method is one of an ETRecord: -c")
    warmup, tick_ns = given["warmup"] or 0, given["tick_ns"] or 1
    if given["program"] is not None and companion is None:
        raise click.UsageError("--program is for an ETRecord: -c")
    made = profile_etdump(
        file,
        companion,
        program=given["program"],
        method=method,
        warmup=warmup,
        tick_ns=tick_ns,
        limits=given["limits"],
    )
    if view not in {None, *made.views}:
        raise click.UsageError(f"--by {view} needs the ETRecord of the program that ran: -c")
    for line in runtime_notes(made):
        printing.note(line)
    return made, made.facts()


def _run_archive(file: str, _: str | None, given: Mapping[str, Any]) -> tuple[Profile, dict[str, Any]]:
    with options.importing_pytorch("profile"):
        from archive.backend.stock.running import profile_archive  # noqa: PLC0415 (imports PyTorch)
    return _profiled(profile_archive, file, given, lite=given["lite"])


def _profiled(
    profile: Callable[..., Profile], file: str, given: Mapping[str, Any], **more: object
) -> tuple[Profile, dict[str, Any]]:
    """Profile runs in PyTorch."""
    runs, warmup = given["runs"] or 1, given["warmup"]
    made = profile(
        file,
        *map(input_value, given["inputs"]),
        companion=given["companion"],
        method=given["method"] or "forward",
        runs=runs,
        warmup=2 if warmup is None else warmup,
        **more,
    )
    return made, made.facts() | {"runs": runs}


def _run_program(file: str, _: str | None, given: Mapping[str, Any]) -> tuple[Profile, dict[str, Any]]:
    with options.importing_pytorch("profile"):
        from archive.backend.programs.profiling import profile_program  # noqa: PLC0415 (imports PyTorch)
    return _profiled(profile_program, file, given)


UNGIVEN = (None, (), DEFAULT_LIMITS)
SAVED = Runner(
    None,
    ["inputs", "outputs", "program"],
    [SOURCE],
    "a saved profile is shown as a table or compared, no more",
)
DUMP = Runner(
    _run_dump,
    ["inputs", "lite", "runs"],
    [SOURCE],
    "--input, --lite, --runs and --by source are not for ETDumps",
)
ARCHIVE = Runner(
    _run_archive,
    ["tick_ns", "limits", "program"],
    RUNTIME_VIEWS,
    "--tick-ns, --limit, --program and --by instruction or delegate are for ETDumps",
)
PROGRAM = Runner(
    _run_program,
    ["lite", "tick_ns", "limits", "program"],
    [*RUNTIME_VIEWS, SOURCE],
    "--lite, --tick-ns, --limit, --program and --by source, instruction or delegate are not for exported "
    "programs, which have the lines that ran, not the source around them",
)


# --- what is printed


def _show_saved(
    file: str, profile: SavedProfile, before: SavedProfile | None, view: str, rows: int, *, as_json: bool
) -> None:
    """Print a saved profile, or what changed since another one."""
    if before is None:
        shown, facts = (
            rows_text(profile, view, rows),
            {"total_ns": profile.total_ns, view: profile.rows_by(view)},
        )
        table = by_view(view, SAVED_KEYS)
    else:
        changes = compared(before, profile, view)
        shown = comparison_text(before, profile, changes, view, rows)
        facts = {"before_ns": before.total_ns, "after_ns": profile.total_ns, "changes": changes}
        table = profile_changes(view)
    if as_json:
        printing.write_document({"file": name_of(file), **facts}, text=table)
    else:
        printing.show(shown)
