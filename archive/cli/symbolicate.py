"""``debug-archive symbolicate``."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import click

import archive
from archive.base.errors import shown
from archive.cli import common
from archive.debuginfo.symbolicate import Style, TracebackFrame
from archive.report.as_json import symbolication_facts
from archive.report.runs import runs

if TYPE_CHECKING:
    from archive import Archive, Symbolication

HANDLE_CHAIN = re.compile(r"[0-9]{1,19}(,[0-9]{1,19})*")  # of 64 bits, and never too long for int()
CODE_POSITION = re.compile(r"(?P<record>.+):(?P<byte>[0-9]{1,19})", re.DOTALL)


def _chains(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> list[list[int]]:
    for value in values:
        if not HANDLE_CHAIN.fullmatch(value):
            raise click.BadParameter(f"expected a handle like 42, or handles like 1,26; found {shown(value)}")
    return [[int(number) for number in value.split(",")] for value in values]


def _places(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> list[tuple[str, int]]:
    places = []
    for value in values:
        place = CODE_POSITION.fullmatch(value)
        if not place:
            raise click.BadParameter(f"expected RECORD:BYTE like code/__torch__.py:301; found {shown(value)}")
        places.append((place["record"], int(place["byte"])))
    return places


@click.command("symbolicate")
@common.file_argument
@click.argument("handles", nargs=-1, metavar="[HANDLE]...", callback=_chains)
@click.option(
    "--at",
    "places",
    multiple=True,
    metavar="RECORD:BYTE",
    callback=_places,
    help="Original source of a byte position in a generated code record.",
)
@click.option(
    "-c",
    "--companion",
    type=click.Path(dir_okay=False),
    help="The debug info of FILE, where it was split off.",
)
@click.option(
    "--style",
    type=click.Choice([style.value for style in Style]),
    default=Style.CURRENT.value,
    show_default=True,
    help="Whose words: PyTorch 1.10 to 2.13, or 1.9.",
)
@common.as_json
def command(
    file: str,
    handles: list[list[int]],
    places: list[tuple[str, int]],
    companion: str | None,
    style: str,
    *,
    as_json: bool,
) -> None:
    """Print the model source behind debug handles of FILE, an archive or a companion, as PyTorch would.

    A HANDLE is a number; those of one delegated failure belong together, inner ones first: 1,26.
    Without handles, a log is read from standard input and written with every failure explained.

    \b
    Examples:
      debug-archive symbolicate model.ptl 42
      debug-archive symbolicate model.ptl 1,26
      debug-archive symbolicate model.ptl < report.log > explained.log
      debug-archive symbolicate model.ptdbg < report.log
      debug-archive symbolicate model.pt --at code/__torch__.py:301
    """  # noqa: D301 (click reads the backspace)
    if not handles and not places and sys.stdin.isatty():
        raise click.UsageError("give handles, --at RECORD:BYTE, or a log on standard input")
    with archive.open(file, companion=companion) as opened:
        if not handles and not places:
            sys.exit(_explain(opened, Style(style), as_json=as_json))
        found = [opened.symbolicate(chain, Style(style)) for chain in handles]
        frames = [(place, opened.locate(*place)) for place in places]
        if as_json:
            facts = [symbolication_facts(one) for one in found]
            spots = [
                {
                    "record": record,
                    "byte": byte,
                    "text": None if span is None else bytes(TracebackFrame(b"", span)),
                }
                for (record, byte), span in frames
            ]
            common.write_json({"symbolications": facts, "positions": spots})
        else:
            titled = len(found) + len(frames) > 1
            for one in found:
                title = b"debug handle %b:\n" % ",".join(map(str, one.handles)).encode()
                common.write((title if titled else b"") + bytes(one) + b"\n" * (titled or bool(one.missing)))
            for (record, byte), span in frames:
                title = f"{record}:{byte}:\n".encode() if titled else b""
                common.write(
                    title + (b"" if span is None else bytes(TracebackFrame(b"", span))) + b"\n" * titled
                )
        missing = [one for one in found if one.missing]
        if missing:
            common.note(_why_unknown(opened, missing))
        lost = [place for place, span in frames if span is None or span.source.is_null]
        for record, byte in lost:
            common.note(_why_lost(opened, record, byte))
        sys.exit(common.FINDINGS if missing or lost else 0)


def _why_lost(opened: Archive, record: str, byte: int) -> str:
    known = opened.records.get(record)
    if known is not None and byte >= known.size:
        return f"{record} ends at byte {known.size}; {byte} is behind it"
    return f"no source is recorded for {record}, byte {byte}"


def _why_unknown(opened: Archive, missing: list[Symbolication]) -> str:
    numbers = ", ".join(str(handle) for one in missing for handle in one.missing)
    if opened.handles:
        return f"{opened.file} has no debug handle {numbers}; it has {runs(list(opened.handles))}"
    from archive.reader.lacking import why_no_handles  # noqa: PLC0415 (only then needed)

    return f"{opened.file} has no debug handles: {why_no_handles(opened)}"


def _explain(opened: Archive, style: Style, *, as_json: bool) -> int:
    from archive.verbs.logs import Explainer  # noqa: PLC0415 (not needed for handles)

    if as_json:
        raise click.UsageError("--json is for handles and positions; a log stays a log")
    explainer = Explainer(opened, style=style)
    for piece in explainer.explain(sys.stdin.buffer):
        common.write(piece)
    sys.stdout.flush()
    for line in explainer.notes:
        common.note(line)
    if explainer.caveat:
        common.note(explainer.caveat)
    return common.FINDINGS if explainer.unknown else 0
