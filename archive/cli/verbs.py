"""``debug-archive split``, ``shrink``, ``join``, ``restore``, ``lite``, ``migrate`` and ``convert``.

Each has the options of the library's function of its name, by the names that this has for them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from archive.cli.making import (
    MAX_LEVEL,
    VerbTexts,
    handles_options,
    kinds_options,
    layout_option,
    max_option,
    takes_files,
    takes_maker,
)
from archive.cli.options import companion_option, importing_pytorch, label_option
from archive.render import making
from archive.render import migrate as migrating

if TYPE_CHECKING:
    from archive.cli.making import FileMaker
    from archive.cli.status import ExitStatus

SPLIT = VerbTexts("split", "splitting", making.split_text, making.split_line, back="join")
JOIN = VerbTexts("join", "joining", making.join_text, making.join_line, total=making.joined_total)
SHRINK = VerbTexts("shrink", "shrinking", making.shrink_text, making.size_line, back="restore")
RESTORE = VerbTexts("restore", "restoring", making.join_text, making.join_line, total=making.joined_total)
MIGRATE = VerbTexts(
    "migrate",
    "migrating",
    migrating.migration_text,
    migrating.migration_line,
    migrating.migration_facts,
    migrating.plan_text,
    migrating.plan_line,
)
LITE = VerbTexts("lite", "converting", making.lite_text, making.size_line)
CANONICALISE = VerbTexts("canonicalise", "converting", making.canonical_text, making.size_line)
CONVERT = VerbTexts("convert", "converting", making.convert_text, making.size_line)


def _check_max(layout: object, level: object) -> None:
    """Refuse ``--max`` where nothing is compressed."""
    if level == MAX_LEVEL and layout != "packed":
        raise click.UsageError("--max is for packed companions; a mapped one is not compressed")


@click.command("split")
@takes_files
@companion_option(
    "File for the debug info, which you don't ship; required where OUT is a folder.", "OUT.ptdbg"
)
@handles_options("unique")
@kinds_options
@layout_option(default="packed", show_default=True)
@max_option("level")
@click.option(
    "--fingerprints",
    is_flag=True,
    help="Let the companion have digests of generated code, 3 bytes a line: they show whether a log fits.",
)
@label_option("What this release is called; the companion has it, and stores show it.")
@takes_maker
def split(*, maker: FileMaker, **options: object) -> ExitStatus:
    """Take the debug info out of archives IN, each into a companion file.

    What is left is the same model. Debug handles stay in it, unless they are dropped, and become unique: 18
    digits that name the archive, too. In exported programs modules stay, which torch.export.unflatten needs.
    Compiled models lose what their loader does not need: C++ sources, the source of kernels, and of shared
    objects all that is never mapped, such as DWARF. ETRecords keep debug handles, by which ExecuTorch's
    Inspector finds nodes.

    A companion is read like an archive, by `symbolicate` and `inspect`. `join` makes one file of both again,
    with the handles it had.

    Several archives, a folder or a glob take folders for OUT and COMPANION. OUT then holds every archive:
    one without debug info is copied. A second run goes on from COMPANION/manifest.jsonl.

    \b
    Examples:
      debug-archive split model.ptl -o small.ptl -c model.ptdbg
      debug-archive symbolicate model.ptdbg < report.log
      debug-archive split model.pt2 -o small.pt2 -c model.ptdbg --drop modules
      debug-archive split models/ -o small/ -c companions/ --label 1.4.2
      debug-archive split 'models/**/*.ptl' -o small/ -c companions/ --dry-run
      debug-archive split s3://bucket/in/ -o s3://bucket/out/ -c s3://bucket/dbg/
    """  # noqa: D301 (click reads the backspace)
    _check_max(options["layout"], options["level"])
    return maker.run(SPLIT, **options)


@click.command("shrink")
@takes_files
@click.option(
    "--level",
    type=click.Choice(["compact", "embed"]),
    default="compact",
    show_default=True,
    help="How small; PyTorch reads the debug info of compact ones only.",
)
@handles_options("compact: keep; embed: drop")
@kinds_options
@max_option("strength")
@takes_maker
def shrink(*, maker: FileMaker, **options: object) -> ExitStatus:
    """Make archives IN smaller, each in one file, and compare it with IN before it is kept.

    Compact: the debug info is rewritten in fewer bytes, which mean the same to PyTorch.
    Embed: it becomes a companion inside of the archive, which only debug-archive reads; `restore` undoes it.
    In exported programs (.pt2) modules stay, too, which torch.export.unflatten needs.

    The last lines say whether PyTorch loads the file, or that this was not checked. For several files, a line
    each says what PyTorch is known to refuse; `verify` checks the rest.

    Several archives, a folder or a glob take a folder for OUT. A second run goes on from OUT.manifest.jsonl.

    \b
    Examples:
      debug-archive shrink model.ptl -o small.ptl
      debug-archive shrink model.ptl -o smaller.ptl --level embed --max
      debug-archive shrink model.pt2 -o small.pt2 --level embed --drop modules
      debug-archive shrink models/ -o small/ --jobs 4
    """  # noqa: D301 (click reads the backspace)
    if options["level"] == "compact":
        if options["handles"] == "drop":
            raise click.UsageError("compact archives keep their debug handles; `split` takes them out")
        if options["keep"] or options["drop"]:
            raise click.UsageError("compact archives keep all debug info; `split` takes it out")
        if options["strength"] == MAX_LEVEL:
            raise click.UsageError("--max is for --level embed")
    return maker.run(SHRINK, **options)


@click.command("join")
@takes_files
@companion_option("File or folder with the debug info.", "IN.ptdbg")
@takes_maker
def join(*, maker: FileMaker, **options: object) -> ExitStatus:
    """Put the debug info from companions back into archives IN: the reverse of `split`.

    Every record comes back to the byte; so does the whole file, if PyTorch wrote it.

    Several archives, a folder or a glob take folders for OUT and COMPANION. Archives that had no debug info
    are copied. A second run goes on from OUT.manifest.jsonl.

    \b
    Examples:
      debug-archive join small.ptl -c model.ptdbg -o model.ptl
      debug-archive join small/ -c companions/ -o models/
    """  # noqa: D301 (click reads the backspace)
    return maker.run(JOIN, **options)


@click.command("restore")
@takes_files
@takes_maker
def restore(*, maker: FileMaker, **options: object) -> ExitStatus:
    """Undo `shrink --level embed` for archives IN.

    Every record comes back to the byte; so does the whole file, if PyTorch wrote it.

    Several archives, a folder or a glob take a folder for OUT; archives without a companion in them are
    copied. A second run goes on from OUT.manifest.jsonl.

    \b
    Examples:
      debug-archive restore small.ptl -o model.ptl
      debug-archive restore small/ -o models/
    """  # noqa: D301 (click reads the backspace)
    return maker.run(RESTORE, **options)


@click.command("lite")
@takes_files
@takes_maker
def lite(*, maker: FileMaker, **options: object) -> ExitStatus:
    """Write TorchScript archives IN for the lite interpreter, with debug info.

    PyTorch's own way, to load and save, leaves calls out of call stacks: those of functions with short names,
    and most calls in archives of 1.9 and before. Here each operation has all of its calls, and a lowered
    archive keeps its debug handles. A model that was frozen before it was saved has no calls in its archive.

    Needs PyTorch, which loads IN: trust its code as with torch.jit.load.

    Several archives, a folder or a glob take a folder for OUT. A second run goes on from OUT.manifest.jsonl.

    \b
    Examples:
      debug-archive lite model.pt -o model.ptl
      debug-archive lite models/ -o lite/
    """  # noqa: D301 (click reads the backspace)
    with importing_pytorch("lite"):
        import archive.backend.lite  # noqa: F401, PLC0415 (imports PyTorch)
    return maker.run(LITE, **options)


@click.command("migrate")
@takes_files
@click.option(
    "--to",
    required=True,
    metavar="RELEASE",
    help="A PyTorch release (1.9, 2.13, latest), a layout of source ranges (pair-rows, inline-rows, "
    "string-table), or original: what it was before it was migrated.",
)
@click.option("--lossy", is_flag=True, help="Go on without what the target has no place for.")
@click.option(
    "--no-aside",
    "aside",
    flag_value=False,
    default=True,
    help="Don't keep the original in the archive; smaller, but it can't be restored exactly.",
)
@takes_maker
def migrate(*, maker: FileMaker, **options: object) -> ExitStatus:
    """Rewrite the debug info of archives IN as another PyTorch release writes and reads it.

    Source ranges, call stacks, handles and module paths are carried over, and what the target refuses is
    mended where rewriting records can mend it. What the target has no place for is listed, and needs --lossy.

    What an archive was is kept in it, in a record that PyTorch ignores: migrating it back gives the original,
    byte for byte.

    Several archives, a folder or a glob take a folder for OUT. A second run goes on from OUT.manifest.jsonl.

    \b
    Examples:
      debug-archive migrate old.ptl -o new.ptl --to latest
      debug-archive migrate new.ptl -o old.ptl --to 1.9 --dry-run
      debug-archive migrate models/ -o migrated/ --to 2.13 --jobs 4
    """  # noqa: D301 (click reads the backspace)
    return maker.run(MIGRATE, **options)


@click.command("convert")
@takes_files
@layout_option()
@click.option(
    "--canonical",
    is_flag=True,
    help="For exported programs: number the ids in them that differ from run to run by their first use.",
)
@max_option("level")
@takes_maker
def convert(
    *, maker: FileMaker, layout: str | None, canonical: bool, level: int, **options: object
) -> ExitStatus:
    """Write companions IN in another layout, or exported programs IN in canonical form.

    In another layout, the debug info stays the same. In canonical form, two exports of one model by one
    release of PyTorch are the same bytes, if they differ only in such ids. The archive id stays; `verify`
    checks if PyTorch loads the file.

    Several files, a folder or a glob take a folder for OUT. A second run goes on from OUT.manifest.jsonl.

    \b
    Examples:
      debug-archive convert model.ptdbg -o fast.ptdbg --layout mapped
      debug-archive convert companions/ -o small/ --layout packed --max
      debug-archive convert model.pt2 -o same.pt2 --canonical
    """  # noqa: D301 (click reads the backspace)
    if canonical == (layout is not None):
        raise click.UsageError("give --layout LAYOUT, or --canonical")
    if canonical:
        if level == MAX_LEVEL:
            raise click.UsageError("--max is for companions")
        return maker.run(CANONICALISE, **options)
    _check_max(layout, level)
    return maker.run(CONVERT, layout=layout, level=level, **options)
