"""``debug-archive symbolicate``."""

from __future__ import annotations

import os
import re
import sys
from itertools import takewhile
from os.path import exists
from typing import TYPE_CHECKING, Any, NamedTuple

import click

import archive
from archive.base.errors import ArchiveError, counted, one_line, several, shown
from archive.cli import options, printing
from archive.cli.asked import Asked
from archive.cli.files import note_left_out
from archive.cli.forms import MODEL_EXPLORER, ROW_FORMS, SARIF, facts_options
from archive.cli.handles import Lookups
from archive.cli.showing import showing
from archive.cli.status import Cause
from archive.debuginfo.symbolicate import Style
from archive.io.mapped import source_of
from archive.io.urls import is_url, name_of
from archive.page.shown import Shown
from archive.reader.recognition import PROGRAM_KINDS, READ_KINDS, FileKind, recognise

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from archive import Archive, Limits, Symbolication
    from archive.cli.handles import Position
    from archive.cli.status import ExitStatus
    from archive.failures.models.models import Model
    from archive.reader.lookups.nodes import ProgramNode
    from archive.render.symbolicate import Symbolications

HANDLE_CHAIN = re.compile(r"[0-9]{1,19}(,[0-9]{1,19})*")
"""Handles of 64 bits, never too long for ``int()``."""
EXECUTORCH = FileKind.EXECUTORCH
CODE_POSITION = re.compile(r"(?P<record>.+):(?P<byte>[0-9]{1,19})", re.DOTALL)


def _handles(words: Sequence[str], *, is_one: bool) -> list[list[int]]:
    """The handles of each argument after the files."""
    for value in words:
        if not HANDLE_CHAIN.fullmatch(value):
            if not is_one:
                why = f"{shown(value)} is neither a file nor a handle; with many models, give handles"
                raise click.BadParameter(why)
            wanted = "a handle like 42, handles like 1,26, or a log's {42}"
            wanted = f"a file, {wanted}" if value is words[0] else wanted
            raise click.BadParameter(f"expected {wanted}; found {shown(value)}")
    return [[int(number) for number in value.split(",")] for value in words]


def _is_file(word: str) -> bool:
    """Whether an argument is a file: a number is a handle, whatever files there are."""
    if HANDLE_CHAIN.fullmatch(word):
        return False
    return is_url(word) or exists(word)  # noqa: PTH110 (pathlib costs start-up)


def _has_nodes(file: str, limits: Limits, *, mapped: bool) -> bool:
    """Whether a file has nodes of exported programs, kernels of compiled models, or instructions."""
    recognised = recognise(source_of(file, mapped=mapped), limits=limits, look=False)
    if recognised.kind is FileKind.EXECUTORCH:
        return True
    if recognised.kind is FileKind.COMPANION:
        with archive.open(file, limits=limits, mapped=mapped) as opened:
            return bool(opened.programs or opened.compiled)
    if recognised.kind not in READ_KINDS:
        raise recognised.refusal(name_of(file))
    return recognised.kind in PROGRAM_KINDS


def _places(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> list[tuple[str, int]]:
    """Record and byte of each ``--at``."""
    places = []
    for value in values:
        place = CODE_POSITION.fullmatch(value)
        if not place:
            raise click.BadParameter(f"expected RECORD:BYTE like code/__torch__.py:301; found {shown(value)}")
        places.append((place["record"], int(place["byte"])))
    return places


@click.command("symbolicate")
@click.argument(
    "words",
    nargs=-1,
    metavar="[FILE]... [HANDLE|NODE|KERNEL|INSTRUCTION]...",
    shell_complete=options.completed_as_file,
)
@click.option(
    "--at",
    "places",
    multiple=True,
    metavar="RECORD:BYTE",
    callback=_places,
    help="Original source of a byte position in a generated code record.",
)
@options.companion_option("The debug info of FILE, where it was split off.", is_file=True)
@click.option(
    "--store",
    metavar="STORE",
    shell_complete=options.completed_as_file,
    help="The store that takes the place of FILEs: a folder, a bucket (s3://bucket/symbols), or a server's "
    "address like http://host:8080, whose companions are fetched as they are needed; several, separated by "
    f"blanks. Without FILEs, ${options.STORE_VARIABLE}.",
)
@click.option(
    "--log", "log", type=click.Path(dir_okay=False), help="The log, in the place of standard input."
)
@click.option(
    "--id",
    "ids",
    metavar="PATTERN",
    help="What names a model in the log: a regular expression whose first group is an archive id, the first "
    "ten digits of unique handles, or a serialization id.",
)
@click.option(
    "--model",
    "names",
    metavar="PATTERN",
    help="The same for the name of FILE, of the top module's class, or of a release, its label: "
    "'running model (\\w+)'.",
)
@options.top_option("Print the N most frequent causes, not the log; 0 for all.", "top", default=None)
@options.program_option
@click.option(
    "--style",
    type=click.Choice([style.value for style in Style]),
    default=Style.CURRENT.value,
    show_default=True,
    callback=lambda _, __, style: Style(style),
    help="Print errors as PyTorch 1.10 to 2.13 does, or as 1.9 does.",
)
@click.option(
    "--filter",
    "shipper",
    type=click.Choice(["rsyslog"]),
    help="Read a log shipper's records from standard input, and answer each with one line, as it asks: for "
    'rsyslog\'s mmexternal with interface.input="fulljson".',
)
@click.option(
    "--html",
    "page",
    metavar="HTML",
    type=click.Path(),
    help="Write a page of the causes, for a browser, in the place of the log.",
)
@options.source_option("On the page, show source text and paths, only base names of files, or neither.")
@options.force_option()
@options.no_map_option
@options.limit_option
@facts_options(*ROW_FORMS, MODEL_EXPLORER, sarif=True)
def command(words: tuple[str, ...], store: str | None, **given: Any) -> ExitStatus:  # noqa: ANN401 (as click gives them)
    """Print the model source of debug handles of FILE, an archive or a companion, as PyTorch would.

    A HANDLE is a number, whatever files there are: one of that name is ./42. Those of one delegated failure
    belong together, inner ones first: 1,26. Those of a log's line may be given as they are, in their
    braces: {126}. A NODE is the name of a node in an exported program (.pt2), with
    the graphs that it is in if it has a namesake. A KERNEL is one of a model that AOTInductor compiled, with
    its handle or without. In an ETRecord, an INSTRUCTION of ExecuTorch's (0:17) stands for the nodes that it
    was made of. A program of ExecuTorch (.pte) has the source of its instructions if ExecuTorch's option
    emit_stacktrace was on; otherwise the ETRecord has it.

    Without handles, a log is read from standard input and written with every failure explained. What Docker,
    Kubernetes, journald, syslog or logcat put around each line is put around new lines, too.

    With several FILEs or folders, each failure is explained by its own model: the one that its unique handles
    or a pattern name, or else the only one that nothing contradicts. A failure that may be of
    several stays as it is. An archive that was split and its companion are one model, in whatever folders
    they lie.

    With --sarif, each cause of explained failures is a result at the model's line, with its count: for
    editors, and for code scanners. A source file whose path ends like one below the current folder, or
    $GITHUB_WORKSPACE, is that one.

    An explanation may be 16 MiB long and take 262,144 steps; a step looks up a handle, or looks through
    4 KB of source. Those of a log together may be four times as long, and 256 bytes longer for each byte of
    the log; they may take sixteen times the steps, and four more for each byte. A note says which failures
    are left unexplained; --limit output=64M and --limit work=1M allow more.

    \b
    Examples:
      debug-archive symbolicate model.ptl 42
      debug-archive symbolicate model.ptl 1,26
      debug-archive symbolicate https://host/models/model.ptl 42
      debug-archive symbolicate model.ptl < report.log > explained.log
      debug-archive symbolicate small/ companions/ < app.log
      debug-archive symbolicate companions/ --log app.log.gz --top 20
      debug-archive symbolicate companions/ --log app.log.gz --html failures.html
      debug-archive symbolicate companions/ --log app.log.gz --sarif > app.sarif
      debug-archive symbolicate a.ptl --log a.log --format model-explorer > a.json
      debug-archive symbolicate --store http://host:8080 < app.log
      debug-archive symbolicate --store companions/ --filter rsyslog
      debug-archive symbolicate a.ptdbg b.ptdbg --model 'model=(\\w+)' < app.log
      debug-archive symbolicate model.pt --at code/__torch__.py:301
      debug-archive symbolicate model.pt2 linear_3 cond.true_graph_0/add
      debug-archive symbolicate compiled.pt2 cpp_fused_relu_0:2
      debug-archive symbolicate model.etrecord 0:17 forward/0:3
      debug-archive symbolicate model.etrecord --program model.pte 0:17
      debug-archive symbolicate model.pte 0:17
    """  # noqa: D301 (click reads the backspace)
    if store is None and all(map(HANDLE_CHAIN.fullmatch, words)):
        store = os.environ.get(options.STORE_VARIABLE)
    if not words and store is None:
        raise click.UsageError("give FILE, or --store STORE")
    files = [*takewhile(_is_file, words)] if store else [words[0], *takewhile(_is_file, words[1:])]
    wanted = words[len(files) :]
    if files and store:  # a store is one of the files
        files, store = [*files, store], None
    asked = Asked(files, wanted, store, **given)
    if asked.page is None and (asked.force or Shown(asked.show) is not Shown.FULL):
        raise click.UsageError("--source and --force are for --html: all else shows the source")
    if asked.companion is not None and not asked.is_one:
        raise click.UsageError("-c is for one FILE; of several, companions are FILEs, too. A log is --log")
    task = _task(asked)
    if any(asked.has(name) for name in task.refused):
        raise click.UsageError(task.why)
    if asked.program is not None and task is not NAMES:
        raise click.UsageError("--program is for instructions of an ETRecord")
    if showing.form in {SARIF, *ROW_FORMS, MODEL_EXPLORER} and task not in {LOG, QUOTED}:
        raise click.UsageError(f"--format {showing.form} is for logs: it has the causes of failures")
    if showing.form == MODEL_EXPLORER and (not asked.is_one or asked.ids or asked.names):
        raise click.UsageError("--format model-explorer is for the graph of one FILE, not --id and --model")
    return task.run(asked)


# --- tasks


class _Task(NamedTuple):
    """One of the things that the command does, and the options that it refuses, in words."""

    run: Callable[[Asked], ExitStatus]
    refused: Sequence[str] = ()
    why: str = ""


def _names(asked: Asked) -> ExitStatus:
    """Print the source of nodes, kernels and instructions."""
    (file,) = asked.files
    if recognise(source_of(file, mapped=asked.mapped), limits=asked.limits, look=False).kind is EXECUTORCH:
        if asked.companion is not None or asked.program is not None:
            raise click.UsageError("-c and --program are for an ETRecord, which is the FILE")
        from archive.cli.framed import print_framed  # noqa: PLC0415 (few files are programs)

        return print_framed(asked)
    from archive.cli.nodes import print_nodes  # noqa: PLC0415 (few files have nodes)

    return print_nodes(asked)


def _log(asked: Asked) -> ExitStatus:
    """Explain a log, or the records of a log shipper."""
    if asked.log is None and not asked.quoted and (sys.stdin is None or sys.stdin.isatty()):
        raise click.UsageError("give handles, --at RECORD:BYTE, --log FILE, or a log on standard input")
    from archive.cli.explain import answer_messages, explain_log  # noqa: PLC0415 (not needed for handles)

    return explain_log(asked) if asked.shipper is None else answer_messages(asked)


def _lookups(asked: Asked) -> ExitStatus:
    """Print the source of handles and of positions in generated code."""
    handles, unread = _handles(asked.wanted, is_one=asked.is_one), False
    if asked.is_one:
        model = asked.opened()
    else:
        model, unread = _answering(handles, asked)
    with model as opened:
        if opened.programs and _nodes_of(opened, handles) is not None:
            from archive.cli.nodes import print_nodes_of  # noqa: PLC0415 (few files have nodes)

            return max(print_nodes_of(opened, asked), Cause.UNREAD_MODEL.when(unread))
        answers = Lookups(opened, asked.style)
        symbolications = [answers.symbolication(chain) for chain in handles]
        positions = [answers.position(record, byte) for record, byte in asked.places]
        if asked.as_json:
            from archive.render.symbolicate import symbolication_facts  # noqa: PLC0415 (texts do without)

            texts = [None if position.span is None else answers.text(position) for position in positions]
            sources: Symbolications = {
                "file": opened.file,
                "symbolications": list(map(symbolication_facts, symbolications)),
                "positions": [
                    {"record": position.record, "byte": position.byte, "text": text}
                    for position, text in zip(positions, texts, strict=True)
                ],
            }
            printing.write_document(sources)
        else:
            _print_text(symbolications, positions, answers)
        is_unknown = _note_unknown(opened, symbolications, positions)
        return max(Cause.UNKNOWN.when(is_unknown), Cause.UNREAD_MODEL.when(unread))


OF_LOGS = ("log", "ids", "names", "top", "page")
ARE_FOR_LOGS = "--log, --id, --model, --top and --html are for logs"
NAMES = _Task(_names, (*OF_LOGS, "places"), f"{ARE_FOR_LOGS}, and --at is for TorchScript")
HANDLES = _Task(_lookups, OF_LOGS, ARE_FOR_LOGS)
LOG = _Task(_log)
QUOTED = _Task(_log, ("log", "places"), "handles in braces are a log: --log and --at do not go with them")
FILTERING = _Task(
    _log,
    ("wanted", "places", "as_json", "log", "top", "page"),
    "--filter answers a log shipper: it goes with FILEs, --store, --id, --model and --style",
)


def _task(asked: Asked) -> _Task:
    """What is done."""
    if asked.shipper is not None:
        return FILTERING
    if asked.quoted:
        return QUOTED
    are_handles = all(map(HANDLE_CHAIN.fullmatch, asked.wanted))
    if asked.is_one and not are_handles and _has_nodes(asked.files[0], asked.limits, mapped=asked.mapped):
        return NAMES
    return HANDLES if asked.wanted or asked.places else LOG


def _answering(handles: Sequence[Sequence[int]], asked: Asked) -> tuple[Archive, bool]:
    """The model of several whose handles are meant, and whether others could not be read.

    It is the one that unique handles name; else one of those that have the handles, if all say the same.

    Raises:
        ArchiveError: none has them, or those that do differ.
    """
    models = asked.models()
    named = models.named_by(handles)
    texts: dict[bytes, list[Model]] = {}
    if len(named) != 1:
        for model in named or models.all:
            if model.file not in models.unread:
                with models.noting_unread(model):
                    if text := _text_of(model, handles, asked):
                        texts.setdefault(text, []).append(model)
    printing.print_unread(models.unread)
    note_left_out(models.skipped)
    many, numbers = counted(len(models), "model"), " ".join(",".join(map(str, chain)) for chain in handles)
    if len(texts) > 1:
        files = several([one_line(same[0].file) for same in texts.values()])
        why = f"handle {numbers} has {len(texts):,} different sources in them, as in {files}"
        raise ArchiveError(f"{many}: {why}; give the FILE that failed")
    if not (named or texts):
        raise ArchiveError(f"none of {many} has handle {numbers}")
    (agreeing,) = texts.values() or [named[:1]]
    of = several([one_line(model.file) for model in agreeing])
    printing.note(f"of {of}" + (f": {len(agreeing):,} models agree" if len(agreeing) > 1 else ""))
    return agreeing[0].open(), bool(models.unread)


def _text_of(model: Model, handles: Sequence[Sequence[int]], asked: Asked) -> bytes:
    """What a model says of handles; b"" if it lacks one."""
    if not all(model.facts.may_have_handles("".join(map(str, chain))) for chain in handles):
        return b""
    with model.open() as opened:
        if opened.programs:
            found = _nodes_of(opened, handles) or [[]]
            texts = [node.text for nodes in found for node in nodes] if all(found) else []
            return "\0".join(texts).encode("utf-8", "surrogatepass")
        answers = [opened.symbolicate(chain, asked.style) for chain in handles]
        return b"" if any(answer.missing for answer in answers) else b"".join(map(bytes, answers))


def _nodes_of(opened: Archive, handles: Sequence[Sequence[int]]) -> list[list[ProgramNode]] | None:
    """The nodes of each failure in programs; None of programs that weren't lowered in parts."""
    from archive.reader.lookups.handles import lowered_sources  # noqa: PLC0415 (not for TorchScript)

    return lowered_sources(opened, handles)


def _print_text(
    symbolications: Sequence[Symbolication], positions: Sequence[Position], answers: Lookups
) -> None:
    """Print each source; several get a title and a following empty line each."""
    titled = len(symbolications) + len(positions) > 1
    for handle in symbolications:
        title = b"debug handle %b:\n" % ",".join(map(str, handle.handles)).encode() if titled else b""
        ends_line = titled or handle.missing  # what is printed for an unknown handle has no line end
        printing.write(title + answers.text(handle) + (b"\n" if ends_line else b""))
    for position in positions:
        title = f"{position.record}:{position.byte}:\n".encode() if titled else b""
        printing.write(title + answers.text(position) + (b"\n" if titled else b""))


def _note_unknown(
    opened: Archive, symbolications: Sequence[Symbolication], positions: Sequence[Position]
) -> bool:
    """Note the handles and positions without source; whether there are any."""
    missing = [handle for symbolication in symbolications for handle in symbolication.missing]
    if missing:
        from archive.render.symbolicate import why_missing  # noqa: PLC0415 (only then needed)

        printing.note(f"{opened.file} {why_missing(opened, missing)}")
    lost = [position for position in positions if position.span is None or position.span.source.is_null]
    for position in lost:
        record = opened.records.get(position.record)
        if record is not None and position.byte >= record.size:
            printing.note(f"{position.record} ends at byte {record.size}; {position.byte} is past it")
        else:
            printing.note(f"no source is recorded for {position.record}, byte {position.byte}")
    return bool(missing or lost)
