"""``debug-archive inspect``."""

from __future__ import annotations

from contextlib import closing, nullcontext
from typing import TYPE_CHECKING, Any

import click

import archive
from archive.base.errors import one_line
from archive.cli import printing
from archive.cli.files import Row, files_argument, is_single, unread_row
from archive.cli.forms import ROW_FORMS
from archive.cli.reading import takes_reader
from archive.cli.status import ExitStatus
from archive.describe.inspect import inspect
from archive.describe.listing import listed
from archive.describe.runtime.blocks import inspect_etdump
from archive.describe.tensor_listing import listed_tensors
from archive.io.mapped import Mapped
from archive.io.urls import is_elsewhere
from archive.reader.recognition import READ_KINDS, TENSOR_KINDS, FileKind, recognise
from archive.reader.recognition.kinds import FOLDER_KINDS
from archive.render.inspect import contents_text, effects_lines
from archive.render.rows import INSPECT

if TYPE_CHECKING:
    from archive import Limits
    from archive.batches.outcome import Reading
    from archive.cli.reading import FileReader
    from archive.io.mapped import Source
    from archive.page.sources import SourcesFacts
    from archive.render.inspect import Contents

LISTED_KINDS = FOLDER_KINDS["inspect"]
"""The kinds of files in folders that JSON has."""


@click.command("inspect")
@files_argument
@click.option(
    "--effects",
    is_flag=True,
    help="Show what its methods change besides giving results, as Python; of one file.",
)
@click.option(
    "--source",
    "positions",
    is_flag=True,
    help="Print which byte of generated code comes from which byte of the model's source; with --json.",
)
@click.option(
    "--inventory",
    is_flag=True,
    help="Make an inventory also of one file, and in JSON.",
)
@click.option("--digest", is_flag=True, help="Mark files that are the same model; reads all bytes.")
@click.option("--leaks", is_flag=True, help="Count what `leaks` finds; reads all bytes.")
@click.option("--verify", is_flag=True, help="Count what `verify` finds; reads all bytes.")
@click.option(
    "--manifest",
    metavar="FILE.manifest.jsonl",
    type=click.Path(),
    help="Keep rows in this file, and read only files that have no row in it, or that have changed.",
)
@takes_reader(*ROW_FORMS)
def command(
    files: tuple[str, ...],
    *,
    effects: bool,
    positions: bool,
    inventory: bool,
    digest: bool,
    leaks: bool,
    verify: bool,
    manifest: str | None,
    reader: FileReader,
) -> ExitStatus:
    """Show what is in a file: records, layouts of debug records, rows, handles, sizes.

    A folder and several files give an inventory: a row for each file, and sums. JSON has all that is in each
    file, unless --inventory asks for rows; it does so for a single file, too. CSV and HTML of a single file
    have its records.

    A zip that isn't an archive is shown with its files, and the tensors in what torch.save wrote;
    safetensors, GGUF, ONNX and what torch.save wrote before PyTorch 1.6 with tensors and metadata; an ETDump
    with its blocks of events.

    An inventory lists for each file its kind, the releases that may have written it, versions, elements of
    tensors, bytes of weights, code and debug info, and which zip before it has the same directory. It reads
    no tensor, and at most 32 MiB of a remote file; so either of two such zips may be damaged. --digest,
    --leaks and --verify read all of each file. What was not looked for is empty, not 0.

    \b
    Examples:
      debug-archive inspect model.ptl
      debug-archive inspect model.ptl --json | jq '.files[].generations'
      debug-archive inspect model.ptl --effects
      debug-archive inspect model.ptl --json --source
      debug-archive inspect state_dict.pth
      debug-archive inspect s3://bucket/model.ptl
      debug-archive inspect models/ -j 8
      debug-archive inspect models/ --json | jq -r '.files[] | .file, .archive_id'
      debug-archive inspect models/ --json --inventory | jq .totals
      debug-archive inspect models/ --format csv --digest --leaks > models.csv
      debug-archive inspect s3://bucket/ --manifest b.jsonl --format html > b.html
    """  # noqa: D301 (click reads the backspace)
    asked = {"digest": digest, "leaks": leaks, "verify": verify}
    is_single_file, is_table = is_single(files), reader.form in ROW_FORMS
    is_json = reader.as_json and not is_table
    if effects and (inventory or is_table or not is_single_file):
        raise click.UsageError("--effects is of one file, and no table")
    if positions and (effects or inventory or not is_json):
        raise click.UsageError("--source goes with --json, and without --effects and --inventory")
    if inventory or not (is_single_file or is_json):
        from archive.cli.inventory import show_inventory  # noqa: PLC0415 (one run in many)

        return show_inventory(files, asked, manifest, reader)
    if manifest is not None or any(asked.values()):
        raise click.UsageError("--digest, --leaks, --verify and --manifest are of an inventory: --inventory")
    if positions:
        listing = reader.listing(files, READ_KINDS)
        return reader.several(listing, reader.of_bytes(_positions), "inspecting", _facts_row)
    if reader.as_json and not effects:
        listing = reader.listing(files, LISTED_KINDS)
        return reader.several(listing, reader.of_bytes(_contents), "inspecting", _facts_row, text=INSPECT)
    source, limits = reader.source(files[0]), reader.limits
    if effects:
        from archive.describe.effects import inspect_effects  # noqa: PLC0415 (only --effects needs it)

        with archive.open(source, limits=limits, kinds=READ_KINDS) as opened:
            side_effects = inspect_effects(opened)
            if reader.as_json:
                printing.write_document(side_effects)
            else:
                printing.show_lines((one_line(line), "") for line in effects_lines(side_effects))
        return ExitStatus.WELL
    printing.show(contents_text(_contents(source, limits=limits)))
    return ExitStatus.WELL


def _positions(source: Source, *, limits: Limits) -> SourcesFacts:
    """Source and generated code of an archive, and which byte of one is which of the other."""
    from archive.page.sources import ArchiveSources  # noqa: PLC0415 (only --source needs it)

    with archive.open(source, limits=limits, kinds=READ_KINDS) as opened:
        return ArchiveSources(opened).columns()


def _facts_row(reading: Reading[Any]) -> Row:
    return unread_row(reading) if reading.facts is None else Row(facts=reading.facts)


def _contents(source: Source, *, limits: Limits) -> Contents:
    """An inspection; for a file that isn't an archive, what it holds."""
    with nullcontext(source) if is_elsewhere(source) else closing(Mapped(source)) as file:
        recognised = recognise(file, look=False, limits=limits)
        if recognised.kind in TENSOR_KINDS:
            return listed_tensors(source, limits=limits)
        if recognised.kind is FileKind.ETDUMP:
            return inspect_etdump(source, limits=limits)
        if not recognised.is_archive and recognised.kind is not FileKind.COMPANION:
            return listed(file, limits=limits)
    with archive.open(source, limits=limits) as opened:
        return inspect(opened)
