"""``debug-archive digest``."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import click

import archive
from archive.base.errors import ArchiveError, counted, shown
from archive.base.mapped import read_whole, source_of
from archive.batches.reading import Listed, Listing, listing
from archive.cli import options, printing
from archive.cli.several import jobs_option, problem, reading, status_of
from archive.cli.status import Status
from archive.compare.digest import VERSIONS
from archive.compare.digest.lines import read, written
from archive.reader.recognition import OPENED_KINDS, FileKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive import Digest, Limits
    from archive.compare.digest import Of

KINDS = OPENED_KINDS | {FileKind.LFS}
"""The kinds of files in folders that have digests. A pointer stands for a model, perhaps: it is told."""
LINE = re.compile(r"(\\?)((?:(model|debug)-(\d+):)?[0-9a-f]{64}) [ *](.+)")
"""A line of a list: whether the name is escaped, the digest, what it is of, its version, the name."""


class Expected(NamedTuple):
    """A digest in a list."""

    of: Of
    value: str


@click.command("digest")
@click.argument("files", nargs=-1, metavar="[FILE]...", type=click.Path())
@click.option(
    "--of",
    type=click.Choice(["model", "debug", "file"]),
    default="model",
    show_default=True,
    help="What the digest is of: the model, the debug info in the file, or the file's bytes.",
)
@click.option("--parts", is_flag=True, help="The digests of all parts below that of the file.")
@click.option(
    "--check",
    "checked",
    type=click.Path(exists=True, dir_okay=False),
    help="Compare the files in a list that this command printed, or sha256sum, with their digests in it.",
)
@jobs_option
@options.no_map_option
@options.limit_option
@options.json_option()
def command(
    files: tuple[str, ...],
    *,
    of: Of,
    parts: bool,
    checked: str | None,
    jobs: int | None,
    mapped: bool,
    limits: Limits,
    as_json: bool,
) -> Status:
    """Print digests of models: equal where two files are the same model, whoever saved them.

    A model's digest is of its code, bytecode, values, graphs and tensors. Debug info does not count, nor do
    ids, names that a process made unique, the layout of the zip, or an embedded companion: so a model has one
    digest before and after `split`, `shrink` and `join`, and `diff` says "same model" of files that have one.
    Models of other code have other digests, even if they compute the same. Tensors count by dtype, shape,
    strides and elements.

    Exit status: 0 well, 1 a file has another digest than in the list, 2 a file cannot be read, 70 internal
    error.

    \b
    Examples:
      debug-archive digest model.pt
      debug-archive digest models/ > digests.txt
      debug-archive digest --check digests.txt
      debug-archive digest --parts checkpoint.pt
      debug-archive digest --of debug model.ptdbg
      debug-archive digest 'runs/**/*.pt' --json
    """  # noqa: D301 (click reads the backspace)
    if bool(files) == (checked is not None):
        raise click.UsageError("give files, or a list by --check")
    expected = _listed(checked) if checked else {}
    found = Listing([Listed(name, name) for name in expected], False, {}) if checked else None  # noqa: FBT003
    found = found or listing(files, kinds=KINDS, mapped=mapped)
    work = partial(_digest, of=of, expected=expected, limits=limits, mapped=mapped)
    return _run(found, work, jobs, expected, parts=parts, as_json=as_json)


def _digest(file: Listed, *, of: Of, expected: dict[str, Expected], limits: Limits, mapped: bool) -> Digest:
    wanted = expected[file.name].of if expected else of
    return archive.digest(source_of(file.name, mapped=mapped), of=wanted, limits=limits)


def _run(
    found: Listing,
    work: partial[Digest],
    jobs: int | None,
    expected: dict[str, Expected],
    *,
    parts: bool,
    as_json: bool,
) -> Status:
    statuses, json, wrong = {Status.WELL}, printing.JsonParts(), 0
    with reading(found, work, "hashing", jobs, as_json=as_json) as (lines, results):
        for result in results:
            statuses.add(status_of(result))
            digest, name = result.facts, result.file.label
            facts: dict[str, object] = {"file": name}
            if digest is None:
                lines.note(problem(result))
                facts["error"] = problem(result)
            else:
                facts |= {"of": digest.of, "digest": str(digest)} | ({"parts": digest.parts} if parts else {})
            if expected:
                same = digest is not None and str(digest) == expected[result.file.name].value
                wrong += digest is not None and not same
                facts["expected"], facts["same"] = expected[result.file.name].value, same
            if as_json:
                json.add([facts])
            elif expected:
                lines.write_line(f"{name}: {'OK' if facts['same'] else 'FAILED'}")
            elif digest is not None:
                for line in _lines(name, digest, parts=parts):
                    lines.write_line(line)
    if as_json:
        json.end()
    if wrong:
        printing.note(f"{counted(wrong, 'file')} of another digest than in the list")
    return max(*statuses, Status.FINDINGS if wrong else Status.WELL)


def _lines(name: str, digest: Digest, *, parts: bool) -> Sequence[str]:
    mark = "" if written(name) == name else "\\"
    head = f"{mark}{digest}  {written(name)}"
    return [head, *(f"{value}  {part}" for part, value in digest.parts.items())] if parts else [head]


def _listed(file: str) -> dict[str, Expected]:
    """The digests in a list, by file.

    Raises:
        ArchiveError: a line is none of a list, or there is none, or too many.
    """
    found: dict[str, Expected] = {}
    text = read_whole(file).decode("utf-8", "surrogateescape")
    for number, line in enumerate(text.split("\n"), 1):
        if not line:
            continue
        told = LINE.fullmatch(line)
        if not told:
            raise ArchiveError(
                file=file, place=f"line {number}", expected="a digest and a file", found=shown(line[:60])
            )
        escaped, value, kind, version, name = told.groups()
        of: Of = "model" if kind == "model" else "debug" if kind == "debug" else "file"
        if version and int(version) != VERSIONS[of]:
            raise ArchiveError(
                file=file,
                place=f"line {number}",
                expected=f"a digest of version {VERSIONS[of]}, {of}-{VERSIONS[of]}",
                found=f"{of}-{version}; make the list again",
            )
        found[read(name) if escaped else name] = Expected(of, value)
    if not found:
        raise ArchiveError("has no digests in it", file=file)
    return found
