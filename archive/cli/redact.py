"""``debug-archive redact``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from archive.base.errors import ArchiveError, ImpossibleError
from archive.batches.inputs import found, names_several
from archive.cli import making, printing
from archive.cli.making import VerbTexts
from archive.cli.options import companion_option
from archive.cli.reviewing import check_review, review_options
from archive.cli.status import Cause
from archive.io.places import resolved
from archive.io.urls import name_of
from archive.privacy.redact.result import AnyRedaction
from archive.reader.recognition import SAVED_KINDS, FileKind, listed_kind, recognise
from archive.reader.recognition.kinds import REDACTED_KINDS
from archive.render import redact as texts

if TYPE_CHECKING:
    from archive.cli.making import FileMaker
    from archive.cli.status import ExitStatus
    from archive.privacy.redact.rules import (
        IdChoice,
        NameChoice,
        PathChoice,
        Preset,
        SourceChoice,
        TimeChoice,
    )

REDACT = VerbTexts(
    "redact",
    "redacting",
    texts.redact_text,
    texts.redact_line,
    planned=texts.redact_plan_text,
    planned_line=texts.redact_plan_line,
)
COMPANION = VerbTexts(
    "redact_companion", "redacting", texts.companion_redaction_text, texts.alone_redaction_line
)
METADATA = VerbTexts(
    "redact_metadata", "redacting", texts.metadata_redaction_text, texts.alone_redaction_line
)
CHECKPOINT = VerbTexts(
    "redact_checkpoint", "redacting", texts.checkpoint_redaction_text, texts.alone_redaction_line
)
VERB_BY_KIND = {
    **dict.fromkeys(REDACTED_KINDS, REDACT),
    FileKind.COMPANION: COMPANION,
    FileKind.SAFETENSORS: METADATA,
}
"""How each kind is redacted; with --replace, what ``torch.save`` wrote is a ``CHECKPOINT``."""
NOT_REDACTED = {
    FileKind.GGUF: "`gguf-new-metadata`, of the package gguf, removes or changes keys and values",
    FileKind.ONNX: "take it out of what `onnx.load` gives, and `onnx.save` that",
    FileKind.EXECUTORCH: "make the program again; without `emit_stacktrace=True` it has no frames",
    FileKind.LEGACY: "load it, if you trust it, and `torch.save` it without: that makes a zip",
    FileKind.SHARDED: "redact the shards, each by itself; the index is a JSON text: change it there",
}
"""The way out where `redact` has none."""
OPTIONS = {"text": "source", "times": "time", "preset": "for", "maps": "map"}
"""Options of other names than their choices have."""
NO_COMPANION = "leave out -c: what is taken out is kept nowhere"
NEEDS_VALUES = (
    "give --replace VALUE=TEXT, without -c, for what `leaks` finds in its values; or give -c COMPANION with "
    "--for, --map, --paths or --source, without --replace, for the rest: the folder in the zip, say"
)
NEEDS_NONE = "leave out -c; OUT is one with other paths and fewer lines, to be given away"
NO_REVIEW = "--review is for models and checkpoints; leave it out for a companion"
NEEDS_COMPANION = "Missing -c COMPANION: the private file that will hold what is removed"


@click.command("redact")
@making.takes_files
@companion_option(
    "File for what is taken out, which stays with you; of several archives a folder. Needed, unless IN "
    "are companions themselves."
)
@click.option(
    "--for",
    "preset",
    type=click.Choice(["publish", "vendor"]),
    help="Choose for who gets OUT: everybody, or somebody who is to explain failures of the model. Other "
    "options change single choices.",
)
@click.option(
    "--map",
    "maps",
    multiple=True,
    metavar="OLD=NEW",
    help="Paths that begin with OLD begin with NEW. Repeatable; if several fit, the longest counts.",
)
@click.option(
    "--paths",
    type=click.Choice(["keep", "relative", "basename", "none"]),
    show_default="keep",
    help="Other paths: relative to site-packages, Python's library, or the folder that all others are in, of "
    "each home its own; without folders; or `?` for each.",
)
@click.option(
    "--source",
    "text",
    type=click.Choice(["keep", "lines", "none"]),
    show_default="keep",
    help="Lines of source text: all, those that a source range is on, without comments, or none. Others "
    "become blanks, so that lines and columns stay right.",
)
@click.option(
    "--names",
    type=click.Choice(["keep", "hash"]),
    show_default="keep",
    help="Names of classes, functions, attributes and variables of TorchScript, of classes and functions of "
    "programs: as they are, or hashes of those that neither callers nor PyTorch need. Source text goes, too.",
)
@click.option(
    "--ids",
    type=click.Choice(["keep", "anew"]),
    show_default="keep",
    help="Numbers by which exported programs name modules and graphs: as they were in the process that "
    "exported, or counted from 0.",
)
@click.option(
    "--inputs/--no-inputs",
    "inputs_",
    default=None,
    help="Keep sample inputs of exported programs, or not.  [default: keep]",
)
@click.option("--extra/--no-extra", default=None, help="Keep extra files, or not.  [default: keep]")
@click.option(
    "--replace",
    multiple=True,
    metavar="VALUE=TEXT",
    help="Of safetensors: VALUE becomes TEXT wherever it stands in metadata; of what `torch.save` wrote, in "
    "values and as a whole key. Repeatable.",
)
@click.option(
    "--time",
    "times",
    type=click.Choice(["keep", "none"]),
    show_default="none",
    help="Dates of records in the zip.",
)
@review_options(
    "Write OUT only if somebody has accepted in this file each of its texts that isn't a word of PyTorch, "
    "Python or a file format; add those that are new to it."
)
@click.option(
    "--partial",
    is_flag=True,
    help="Write OUT even if something is left, or cannot be searched; both are listed.",
)
@making.takes_maker
def command(
    *,
    preset: Preset | None,
    maps: tuple[str, ...],
    paths: PathChoice | None,
    text: SourceChoice | None,
    names: NameChoice | None,
    ids: IdChoice | None,
    inputs_: bool | None,
    extra: bool | None,
    replace: tuple[str, ...],
    times: TimeChoice | None,
    review: str | None,
    accept_names: bool,
    reviewer: str | None,
    partial: bool,
    maker: FileMaker,
) -> ExitStatus:
    """Take out of archives IN what reveals their builders, and prove that it is gone.

    \b
    --for publish   --paths basename --source none --ids anew --no-inputs
                    --no-extra
    --for vendor    --paths relative --source lines --no-inputs

    Both promise that no path of a machine, name of a user or host, address, URL or key is left anywhere.

    Paths and source text are those of TorchScript's source ranges, of exported programs (.pt2, ETRecords),
    and of the C++ code and debug sections of compiled models. Unless --paths is `keep`, the folder inside the
    zip, which has the name of the file that was saved, becomes `archive`. Companions inside of archives go.
    OUT is the same model; its failures name the same handles, files and lines as before, as far as these
    were kept.

    Then all of OUT is searched for each text that was taken out, and for what `leaks` found in IN and these
    options take out: as stored and inflated, in what is packed or encoded inside of records, in the encodings
    that are printed; and `leaks` reads OUT. If something is left, in a string of the model's code, say, its
    place is named, nothing is written, and the exit status is 1; with --partial, OUT is written, and the exit
    status is still 1. Paths of fewer than 5 bytes, lines of fewer than 8, and what is part of a path or line
    that stays are not looked for; lines that PyTorch's generated code has, too, are counted.

    --review FILE lists what is left in OUT and isn't a word of PyTorch, Python or a file format: names, keys
    and values, each once, and numbers that may be somebody's. Until all are accepted, new ones become rows of
    FILE, OUT isn't written, and the exit status is 1. Set `"accepted": true` in rows that may be published,
    with an editor or in the page of `report --review`; a line names the way out of others. The next release
    is asked for new texts only. FILE is for one model and its releases: rows of another one that nobody has
    accepted go.

    Names of classes, functions and attributes stay without --names, and so do generated code and strings that
    the model computes with.

    IN may be a companion, to be given to somebody who is to explain failures: without -c, OUT is one with
    other paths and fewer lines. It explains as much as these say, and no join gives IN again. With several,
    the manifest has the maps: keep it to yourself.

    IN may be safetensors, without -c: in their metadata, --map and --paths change paths, --replace changes
    what it names; with --for, members go that still reveal people and machines. Tensors and their names are
    the same to the byte. GGUF, ONNX and `torch.save` before PyTorch 1.6 are not redacted.

    IN may be a checkpoint or another file of `torch.save`, with --replace and without -c: VALUE becomes TEXT
    in values, and in keys that are VALUE as a whole. Names of classes, storages' ids and all else that
    loading needs stay, and so does every tensor; where VALUE stands in these, nothing is written.

    With COMPANION, `symbolicate` explains the logs of OUT by all that was taken out, and `join` gives IN.

    Several archives, a folder or a glob take folders for OUT and COMPANION. A second run goes on from
    COMPANION/manifest.jsonl, which has the maps, and the names of files.

    \b
    Examples:
      debug-archive redact model.ptl -o public.ptl -c private.ptdbg --for publish
      debug-archive redact m.pt2 -o public.pt2 -c p.ptdbg --map /home/ann/=src/
      debug-archive redact m.pt2 -o p.pt2 -c c.ptdbg --for publish --review r.json
      debug-archive redact models/ -o public/ -c private/ --for publish --dry-run
      debug-archive symbolicate public.ptl -c private.ptdbg < report.log
      debug-archive join public.ptl -c private.ptdbg -o model.ptl
      debug-archive redact model.ptdbg -o vendor.ptdbg --for vendor
      debug-archive redact in.safetensors -o out.safetensors --replace ann=someone
      debug-archive redact in.pt -o out.pt --replace /data/ann=data
      debug-archive redact in/ -o out/ -c private/ --paths relative --source lines
    """  # noqa: D301 (click reads the backspace)
    inputs, companion = maker.inputs, maker.companion
    check_review(review, inputs, accept_names=accept_names, reviewer=reviewer)
    if review is not None and maker.dry_run:
        raise click.UsageError("--dry-run writes nothing, and --review keeps its file up to date")
    looked = {} if review is None else {"review": review, "accept_names": accept_names, "reviewer": reviewer}
    choices = {"preset": preset, "maps": maps, "paths": paths, "text": text, "partial": partial}
    others = {"names": names, "ids": ids, "inputs": inputs_, "extra": extra, "times": times}
    file, kind = _deciding(maker, replaces=bool(replace))
    label = name_of(file)
    if kind in NOT_REDACTED:
        raise ArchiveError(f"{kind}: nothing is redacted in this kind: {NOT_REDACTED[kind]}", file=label)
    is_saved = bool(replace) and kind in SAVED_KINDS
    asks_nothing = not any((preset, maps, paths, text, *(one is not None for one in others.values())))
    if kind in SAVED_KINDS and not replace and (companion is None or asks_nothing):
        raise click.UsageError(f"{label} is what `torch.save` wrote: {NEEDS_VALUES}")
    if replace and kind is None and not names_several(file):
        raise recognise(file, limits=maker.limits).refusal(label)  # unless that says itself what is wrong
    if replace and not is_saved and kind is not FileKind.SAFETENSORS:
        raise click.UsageError("--replace is for metadata of safetensors, and for what `torch.save` wrote")
    if companion is not None and is_saved:
        raise click.UsageError(f"{label} is what `torch.save` wrote: {NEEDS_VALUES}")
    if companion is not None and kind is FileKind.SAFETENSORS:
        raise click.UsageError(f"{label} is safetensors: {NO_COMPANION}")
    try:
        if companion is None:
            if is_saved:
                why = "{} goes without --replace, in a run with -c COMPANION"
                _check_fit(why, preset=preset, maps=maps or None, paths=paths, text=text, **others)
                return maker.run(CHECKPOINT, replace=replace, partial=partial, **looked)
            if kind is FileKind.SAFETENSORS:
                _check_fit("safetensors have nothing that {} applies to", text=text, **others)
                asked = {"preset": preset, "maps": maps, "paths": paths, "replace": replace}
                return maker.run(METADATA, partial=partial, **asked, **looked)
            if any(choice is not None for choice in others.values()):
                raise click.UsageError(NEEDS_COMPANION)
            if looked:
                of_companion = kind is FileKind.COMPANION
                raise click.UsageError(NO_REVIEW if of_companion else NEEDS_COMPANION)
            try:
                return maker.run(COMPANION, **choices)
            except ArchiveError as problem:
                if problem.expected != "a companion":
                    raise
                raise click.UsageError(f"{problem.file} isn't a companion. {NEEDS_COMPANION}") from problem
        try:
            return maker.run(REDACT, **(choices | others | looked))
        except ArchiveError as problem:
            if len(inputs) > 1 or kind is not FileKind.COMPANION:
                raise
            raise click.UsageError(f"{label} is a companion: {NEEDS_NONE}") from problem
    except ImpossibleError as refusal:
        if not isinstance(refusal.facts, AnyRedaction):
            raise
        if not maker.as_json and not maker.dry_run:
            printing.show(texts.redact_refusal_text(refusal.facts), aside=True)
        printing.print_error(f"{refusal.file}: not clean, so nothing is written; --partial writes it anyway")
        return Cause.NOT_CLEAN.status


def _deciding(maker: FileMaker, *, replaces: bool) -> tuple[str, FileKind | None]:
    """The file that says how all are redacted, and its kind; None where none is of a kind that is redacted.

    Raises:
        UsageError: files are redacted in different ways.
    """
    kinds = _kinds(maker)
    if maker.companion is None and not kinds and all(map(names_several, maker.inputs)):
        raise ArchiveError("no file in it that is redacted", file=", ".join(map(name_of, maker.inputs)))
    deciding: dict[VerbTexts, str] = {}
    for file, kind in kinds.items():
        verb = CHECKPOINT if replaces and kind in SAVED_KINDS else VERB_BY_KIND.get(kind)
        if verb is not None:
            deciding.setdefault(verb, file)
    if len(deciding) > 1:
        named = " and ".join(map(name_of, list(deciding.values())[:2]))
        raise click.UsageError(
            f"{named} are redacted in different ways: give the files of each by themselves"
        )
    file = next(iter([*deciding.values(), *kinds]), maker.inputs[0])
    return file, kinds.get(file)


def _kinds(maker: FileMaker) -> dict[str, FileKind]:
    """The files that are given, and those that a search finds and some way of redacting takes, by name.

    With -c nothing is searched: there is one way for all that a search takes then.
    """
    inputs = [given for given in maker.inputs if maker.companion is None or not names_several(given)]
    kinds = {}
    for file in found(inputs, {resolved(maker.out)}):
        kind = listed_kind(file.name, limits=maker.limits, mapped=maker.mapped)
        if kind is not None and (kind in VERB_BY_KIND or not file.searched):
            kinds[file.name] = kind
    return kinds


def _check_fit(why: str, **choices: object) -> None:
    """Refuse options that are for other files, for a reason that names one of them."""
    given = next((name for name, choice in choices.items() if choice is not None), None)
    if given is not None:
        raise click.UsageError(why.format(f"--{OPTIONS.get(given, given)}"))
