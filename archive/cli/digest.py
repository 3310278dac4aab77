"""``debug-archive digest``."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, cast

import click

import archive
from archive.base.errors import ArchiveError, counted, shown
from archive.batches.inputs import InputFile, OtherFiles
from archive.batches.reading import FoundFiles
from archive.cli import printing
from archive.cli.files import Row
from archive.cli.forms import ROW_FORMS
from archive.cli.reading import takes_reader
from archive.cli.status import Cause, status_of
from archive.compare.digest import VERSIONS
from archive.compare.digest.names import escaped_name, unescaped_name
from archive.io.mapped import read_whole, source_of
from archive.reader.recognition.kinds import FOLDER_KINDS
from archive.render.digest import parts_table
from archive.render.rows import DIGEST

if TYPE_CHECKING:
    from archive import Digest, Limits
    from archive.batches.outcome import Reading
    from archive.cli.reading import FileReader
    from archive.cli.status import ExitStatus
    from archive.compare.digest import Of
    from archive.render.documents import DigestFacts
    from archive.render.fitted_table import Printed

LINE = re.compile(r"(\\?)((?:(model|weights|debug)-(\d+):)?[0-9a-f]{64}) [ *](.+)")
"""A line of a list: whether the name is escaped, the digest, what it is of, its version, the name."""


class Expected(NamedTuple):
    """A digest in a list."""

    of: Of
    value: str


@click.command("digest")
@click.argument("files", nargs=-1, metavar="[FILE]...", type=click.Path())
@click.option(
    "--of",
    type=click.Choice(["model", "weights", "debug", "file"]),
    default="model",
    show_default=True,
    help="What to digest: the model, only its weights, the debug info in the file, or its bytes.",
)
@click.option(
    "--prefix",
    default="",
    help="For weights: what a wrapper put before their names, as `module.`. If some have it, only they "
    "count; if none has, all do.",
)
@click.option("--parts", is_flag=True, help="The digests of all parts below that of the file.")
@click.option(
    "--check",
    "checked",
    type=click.Path(exists=True, dir_okay=False),
    help="Compare the files in a list that this command printed, or sha256sum, with their digests in it.",
)
@takes_reader(*ROW_FORMS)
def command(
    files: tuple[str, ...], *, of: Of, prefix: str, parts: bool, checked: str | None, reader: FileReader
) -> ExitStatus:
    """Print digests of models: equal where two files are the same model, whoever saved them.

    A model's digest is of its code, bytecode, values, graphs and tensors. Debug info does not count, nor do
    ids, names that a process made unique, the layout of the zip, or an embedded companion: so a model has one
    digest before and after `split`, `shrink` and `join`, and `diff` says "same model" of files that have one.
    Models of other code have other digests, even if they compute the same. Tensors count by dtype, shape,
    strides and elements.

    `--of weights` is only about names, dtypes, shapes and elements: it is the same for a checkpoint, its
    safetensors, and the archive that was made of it, if names agree.

    \b
    Examples:
      debug-archive digest model.pt
      debug-archive digest models/ > digests.txt
      debug-archive digest --check digests.txt
      debug-archive digest --parts checkpoint.pt
      debug-archive digest --of weights c.pt model.safetensors --prefix module.
      debug-archive digest --of debug model.ptdbg
      debug-archive digest 'runs/**/*.pt' --json
    """  # noqa: D301 (click reads the backspace)
    if bool(files) == (checked is not None):
        raise click.UsageError("give files, or a list by --check")
    if prefix and of != "weights" and not checked:
        raise click.UsageError("--prefix is for digests of weights: --of weights")
    expected = _read_list(checked) if checked else {}
    if checked:
        listing = FoundFiles(
            [InputFile(name, name) for name in expected], searched=False, others=OtherFiles()
        )
    else:
        listing = reader.listing(files, FOLDER_KINDS["digest" if of == "model" else f"digest --of {of}"])
    wrong = 0

    def row(reading: Reading[Digest]) -> Row:
        nonlocal wrong
        digest, name = reading.facts, reading.job.label
        facts: DigestFacts = {"file": name}
        lines, notes = [], []
        on_terminal: Printed = []
        if digest is None:
            notes = [reading.problem]
            facts["error"] = notes[0]
        else:
            facts |= {"of": digest.of, "digest": str(digest)}
            if parts:
                facts["parts"] = digest.parts
            if digest.left_out:
                facts["left_out"] = digest.left_out
                without = counted(digest.left_out, "weight")
                notes = [f"{name}: {without} without the prefix {shown(prefix)} left out"]
            mark = "" if escaped_name(name) == name else "\\"
            lines = [f"{mark}{digest}  {escaped_name(name)}"]
            if parts:
                on_terminal = [*lines, parts_table(digest.parts), ""]
                lines += [f"{value}  {part}" for part, value in digest.parts.items()]
        if expected:
            value = expected[reading.job.name].value
            same = digest is not None and str(digest) == value
            wrong += digest is not None and not same
            facts |= {"expected": value, "same": same}
            lines, on_terminal = [f"{name}: {'OK' if same else 'FAILED'}"], []
        return Row(status_of(reading), facts, lines, notes=notes, on_terminal=on_terminal)

    work = partial(
        _digest, of=of, prefix=prefix, expected=expected, limits=reader.limits, mapped=reader.mapped
    )
    status = reader.several(listing, work, "hashing", row, text=DIGEST)
    if wrong:
        printing.note(f"{counted(wrong, 'file')} of another digest than in the list")
    return max(status, Cause.OTHER_DIGEST.when(wrong))


def _digest(
    file: InputFile, *, of: Of, prefix: str, expected: dict[str, Expected], limits: Limits, mapped: bool
) -> Digest:
    wanted = expected[file.name].of if expected else of
    source = source_of(file.name, mapped=mapped)
    return archive.digest(source, of=wanted, prefix=prefix if wanted == "weights" else "", limits=limits)


def _read_list(file: str) -> dict[str, Expected]:
    """The digests in a list, by file."""
    expected: dict[str, Expected] = {}
    text = read_whole(file).decode("utf-8", "surrogateescape")
    for number, line in enumerate(text.split("\n"), 1):
        if not line:
            continue
        parts = LINE.fullmatch(line)
        if not parts:
            raise ArchiveError(
                file=file, place=f"line {number}", expected="a digest and a file", found=shown(line[:60])
            )
        escaped, value, kind, version, name = parts.groups()
        of = cast("Of", kind or "file")
        if version and int(version) != VERSIONS[of]:
            raise ArchiveError(
                file=file,
                place=f"line {number}",
                expected=f"a digest of version {VERSIONS[of]}, {of}-{VERSIONS[of]}",
                found=f"{of}-{version}; make the list again",
            )
        expected[unescaped_name(name) if escaped else name] = Expected(of, value)
    if not expected:
        raise ArchiveError("has no digests in it", file=file)
    return expected
