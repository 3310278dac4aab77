"""``debug-archive store``: the companions of many models in one folder."""

from __future__ import annotations

import sys
from collections import Counter
from fnmatch import fnmatchcase
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

import click

from archive.app.sources import own_store, store_at
from archive.base.errors import ArchiveError, counted, one_line
from archive.batches.outcome import Outcome, OutcomeKind, attempt
from archive.cli import options, printing
from archive.cli.files import Row, files_argument
from archive.cli.forms import ROW_FORMS, facts_options
from archive.cli.reading import takes_reader
from archive.cli.status import Cause, ExitStatus, status_of
from archive.io.output import STANDARD_OUTPUT, replacing
from archive.io.urls import is_server
from archive.reader.recognition.kinds import FOLDER_KINDS
from archive.render.rows import VERIFY
from archive.render.store import (
    LISTED,
    added_line,
    added_total,
    cleaned_line,
    entries_table,
    entries_total,
    entry_facts,
    indistinct_text,
)
from archive.store.adding import MadeCompanion, NoDebugInfoError, made_of
from archive.store.folder import MOST_SECONDS, Waiting
from archive.store.indistinct import indistinct
from archive.store.store import Store

if TYPE_CHECKING:
    from archive import Limits
    from archive.batches.inputs import InputFile
    from archive.batches.outcome import Reading
    from archive.cli.reading import FileReader
    from archive.store.entries import Addition, AnyEntry, CompanionEntry
    from archive.store.stores import AnyStore

    _Result: TypeAlias = Addition[AnyEntry] | MadeCompanion | None


@click.group("store")
def command() -> None:
    """Keep the companions of many models in one folder, and find each by what a log says of it.

    A store keeps what companions have in common once: releases of one model take a fraction of their
    companions. Several processes may use one at once, and whatever ends a process, the store stays whole.
    `symbolicate STORE` explains a log of failures of all its models.

    \b
    Examples:
      debug-archive store add build/ --store symbols/
      debug-archive symbolicate symbols/ < app.log
      debug-archive store ls --store symbols/
      debug-archive store get 3f9a1234abcd -o model.ptdbg --store symbols/
    """  # noqa: D301 (click reads the backspace)


# --- options


def _own(_: click.Context, __: click.Parameter, path: str) -> str:
    """A store's folder or bucket, and no server's address."""
    if is_server(path):
        raise click.BadParameter(
            "this needs the store's folder or bucket; a server takes `store add` and `symbolicate`"
        )
    return path


store_option = click.option(
    "--store",
    "path",
    type=click.Path(file_okay=False),
    callback=_own,
    envvar=options.STORE_VARIABLE,
    required=True,
    metavar="STORE",
    shell_complete=options.completed_as_file,
    help=f"The store's folder, or its bucket like s3://bucket/symbols; by default ${options.STORE_VARIABLE}.",
)
added_store_option = click.option(
    "--store",
    "path",
    envvar=options.STORE_VARIABLE,
    required=True,
    metavar="STORE",
    shell_complete=options.completed_as_file,
    help="The store's folder, its bucket like s3://bucket/symbols, or the address of a server like "
    "http://host:8080, which asks for the token in $DEBUG_ARCHIVE_TOKEN; by default "
    f"${options.STORE_VARIABLE}.",
)
wait_option = click.option(
    "--wait",
    "waiting",
    type=click.FloatRange(0),
    default=MOST_SECONDS,
    show_default=True,
    metavar="SECONDS",
    callback=lambda _, __, seconds: Waiting(seconds, printing.note),
    help="How long to wait for another process that changes the store.",
)


# --- add

WITHOUT = "no debug info"
"""The outcome of an archive from which no companion can be made."""
FAILED = "failed"
"""The outcome of a file that is broken, refused or not there."""
MOST_HANDED = 1 << 20
"""Bytes of the largest plain form that a process hands on; a larger one is made once more."""


class _Adding(NamedTuple):
    path: str
    limits: Limits
    wait: float
    replace: bool
    label: str


@command.command("add")
@files_argument
@added_store_option
@wait_option
@options.label_option("What this release is called. A companion that is there already gets one more label.")
@options.force_option("Let a companion take the place of another of its archive id.")
@takes_reader(mapped=False)
def add(
    files: tuple[str, ...], *, path: str, waiting: Waiting, label: str, force: bool, reader: FileReader
) -> ExitStatus:
    """Add FILEs, companions or archives, and those in folders. The store is made if it doesn't exist.

    An archive is added as the companion that `split` makes of it; archives without debug info are counted
    and skipped. A companion that is there already stays as it is. One whose archive id or prefix of unique
    handles is taken by another is refused.

    A label tells releases of one file apart: `store ls`, failures and notes show it, and `store get
    model@1.4.2` finds it. A companion that `split --label` made has its own.

    $SOURCE_DATE_EPOCH, if it is set, is the time that is noted.

    \b
    Examples:
      debug-archive store add model.ptdbg --store symbols/
      debug-archive store add build/models/ --store symbols/
      debug-archive store add build/models/ --store symbols/ --label 1.4.2
      DEBUG_ARCHIVE_STORE=symbols/ debug-archive store add *.ptl
      debug-archive store add build/ --store https://symbols.example.com
    """  # noqa: D301 (click reads the backspace)
    files_to_add, limits = reader.listing(files, FOLDER_KINDS["store"]), reader.limits
    store = None if is_server(path) else own_store(path, create=True, limits=limits, waiting=waiting)
    folder = store if isinstance(store, Store) else None
    if folder is not None:
        with folder.folder.locked():
            pass  # so that a lock that is held is waited for once, and not for each file
    counts, taken = Counter[str](), set[str]()

    def row(reading: Reading[_Result]) -> Row:
        has_lines = False
        if folder is not None and isinstance(reading.facts, MadeCompanion):
            has_lines = bool(reading.facts.lines)
            add_made = partial(_add_made, made=reading.facts, store=folder, replace=force)
            reading = attempt(add_made, reading.job)
        name, addition = reading.job.label, cast("Addition[AnyEntry] | None", reading.facts)
        outcome = FAILED if reading.has_failed else addition.outcome if addition else WITHOUT
        counts[outcome] += 1
        facts = {"file": name, "outcome": outcome}
        if reading.has_failed:
            return Row(status_of(reading), facts | {"reason": reading.problem}, notes=[reading.problem])
        if addition is None:
            note = f"{name}: no debug info in it; skipped"
            return Row(facts=facts, notes=[] if files_to_add.searched else [note])
        if addition.outcome in {"added", "replaced"} and not has_lines:
            taken.add(addition.entry.archive_id)
        # The entry's own file is a name without its folder; `file` stands first, as for all files.
        added = facts | entry_facts(addition.entry) | {"file": name}
        return Row(facts=added, lines=[added_line(name, addition)])

    add_one = partial(_add, adding=_Adding(path, limits, waiting.most, force, label))
    do_one = add_one if folder is None else partial(_make, limits=limits, label=label)
    status = reader.several(files_to_add, do_one, "adding", row)
    if store is not None:
        with store:
            entries = store.entries()  # those of other processes are in the index, too
            for alike in indistinct(store, entries, taken):
                printing.note(indistinct_text(alike))
    if not reader.as_json:
        printing.write_line(added_total(counts))
    return status


def _make(file: InputFile, *, limits: Limits, label: str) -> MadeCompanion | None:
    """What is added of a file to a store's folder; None of an archive without debug info."""
    try:
        made = made_of(file.name, "", limits, label)
    except NoDebugInfoError:
        return None
    form = made.plain_form(limits)
    return made._replace(form=form) if len(form.data) <= MOST_HANDED else made


def _add_made(file: InputFile, *, made: MadeCompanion, store: Store, replace: bool) -> Reading[_Result]:
    """Add what was made of a file. One process does it for all: several would wait for each other."""
    return Outcome(file, OutcomeKind.DONE, facts=store.add(made, replace=replace))


def _add(file: InputFile, *, adding: _Adding) -> Addition[AnyEntry] | None:
    """Add a file; None of an archive without debug info."""
    try:
        store = _opened(adding.path, adding.limits, adding.wait)
        return store.add(file.name, replace=adding.replace, label=adding.label)
    except NoDebugInfoError:
        return None


@lru_cache(maxsize=1)
def _opened(path: str, limits: Limits, wait: float) -> AnyStore[Any]:
    """The store, opened once a process."""
    return store_at(path, limits=limits, waiting=Waiting(wait, printing.note))


# --- ls


@command.command("ls")
@click.argument("patterns", nargs=-1, metavar="[PATTERN]...")
@store_option
@options.limit_option
@facts_options(*ROW_FORMS)
def ls(patterns: tuple[str, ...], *, path: str, limits: Limits, as_json: bool) -> ExitStatus:
    """List the companions of a store: all, or those that a PATTERN fits.

    A PATTERN with * and ? is compared with archive id, that of the redacted archive where that has another
    one, prefix, top class, file name, and the labels of releases, by themselves or after the name.

    \b
    Examples:
      debug-archive store ls --store symbols/
      debug-archive store ls 'Ranker*' 3f9a* --store symbols/
      debug-archive store ls '*@1.4.*' --store symbols/
      debug-archive store ls --store symbols/ --format csv > symbols.csv
    """  # noqa: D301 (click reads the backspace)
    with own_store(path, limits=limits) as store:
        contents = store.listing()
    entries = [entry for entry in contents.entries if _fits(entry, patterns)]
    for why in contents.unread.values():
        printing.print_error(why)
    for other in contents.foreign:
        printing.note(f"{one_line(str(other))}: isn't a file of a store; ignored")
    if as_json:
        printing.write_document(*map(entry_facts, entries), text=LISTED)
    elif entries:
        printing.show([entries_table(entries)])
        printing.write_line("")
        printing.write_line(entries_total(entries, 0 if patterns else contents.bases))
    if patterns and not entries:
        printing.note(f"{path}: no companion fits {' or '.join(patterns)}")
    bad_store = Cause.BAD_STORE.when(contents.unread or contents.foreign)
    return max(bad_store, Cause.NO_COMPANION.when(patterns and not entries))


def _fits(entry: CompanionEntry, patterns: tuple[str, ...]) -> bool:
    """Whether one of the patterns fits, or no pattern is given."""
    facts = entry.facts
    ids = (facts.archive_id, facts.redacted_id, str(facts.prefix))
    words = (*ids, facts.top, facts.qualified_top, entry.file, entry.name, *entry.release_names)
    return not patterns or any(fnmatchcase(word, pattern) for pattern in patterns for word in words)


# --- get


@command.command("get")
@click.argument("word", metavar="ID")
@click.option("-o", "--output", "out", required=True, metavar="OUT", help="The file; - is standard output.")
@store_option
@options.force_option()
@options.limit_option
@facts_options()
def get(word: str, *, out: str, path: str, force: bool, limits: Limits, as_json: bool) -> ExitStatus:
    """Write a companion to a file, as it was added, to the byte.

    ID is an archive id or its beginning, the prefix of unique handles, or a name or a label, if only one
    companion has it: model@1.4.2 is the release 1.4.2 of model.

    \b
    Examples:
      debug-archive store get 3f9a1234abcd -o model.ptdbg --store symbols/
      debug-archive store get model@1.4.2 -o model.ptdbg --store symbols/
      debug-archive store get 2597103980 -o - --store symbols/ | sha256sum
    """  # noqa: D301 (click reads the backspace)
    if as_json and out == "-":
        raise click.UsageError("-o - writes the companion where --json writes facts: give a file")
    store = own_store(path, limits=limits)
    entry = store.one(word)
    data, is_exact = store.given_of(entry)
    if out != "-":
        with replacing(out, force=force) as file:
            file.write(data)
    elif sys.stdout.isatty():
        raise ArchiveError("refusing to write a binary companion to a terminal", file=STANDARD_OUTPUT)
    else:
        printing.write_file(data)
    if as_json:
        printing.write_document({"output": out, "exact": is_exact, **entry_facts(entry)})
    elif not is_exact:
        printing.note(f"{entry.name}: the facts that were added, compressed to other bytes")
    return ExitStatus.WELL


# --- check


@command.command("check")
@store_option
@options.limit_option
@facts_options(*ROW_FORMS)
def check(*, path: str, limits: Limits, as_json: bool) -> ExitStatus:
    """Read all of a store: each companion is whole and comes back to the byte, and the index agrees.

    An index that does not agree is rebuilt.
    """
    store = own_store(path, limits=limits)
    diagnostics = []
    for diagnostic in store.check():
        diagnostics.append(diagnostic)
        if not as_json:
            printing.write_line(f"{path}: {diagnostic.severity}: {diagnostic}")
    if as_json:
        printing.write_document({"file": path, "diagnostics": diagnostics}, text=VERIFY)
    elif not diagnostics:
        printing.write_line(f"{path}: {counted(len(store.entries()), 'companion')}, well")
    wrong = any(diagnostic.severity in {"error", "warning"} for diagnostic in diagnostics)
    return Cause.BAD_STORE.when(wrong)


# --- rm


@command.command("rm")
@click.argument("words", nargs=-1, required=True, metavar="ID...")
@store_option
@wait_option
@options.limit_option
@facts_options()
def rm(words: tuple[str, ...], *, path: str, waiting: Waiting, limits: Limits, as_json: bool) -> ExitStatus:
    """Remove companions. What others have in common with them stays until `gc`.

    ID is an archive id or its beginning, the prefix of unique handles, or a name or a label, if only one
    companion has it. A companion that cannot be read is removed by its whole archive id.
    """
    with own_store(path, limits=limits, waiting=waiting) as store:
        ids = [word if word in store.unread else store.one(word).key for word in words]
        ids = list(dict.fromkeys(ids))
        for archive_id in ids:
            store.remove(archive_id)
            if not as_json:
                printing.write_line(f"{archive_id} removed")
    if as_json:
        printing.write_document(*({"archive_id": archive_id, "outcome": "removed"} for archive_id in ids))
    return ExitStatus.WELL


# --- gc


@command.command("gc")
@store_option
@wait_option
@options.limit_option
@facts_options()
def gc(*, path: str, waiting: Waiting, limits: Limits, as_json: bool) -> ExitStatus:
    """Remove leftovers: those of removed companions and killed processes.

    Companions of one model that were added concurrently are re-stored as differences from each other.
    """
    with own_store(path, limits=limits, waiting=waiting) as store:
        cleaned = store.gc()
    if as_json:
        from archive.render.as_json import document_of  # noqa: PLC0415 (texts do without)

        printing.write_document({"file": path, **document_of(cleaned)})
    else:
        printing.write_line(f"{path}: {cleaned_line(cleaned)}")
    return ExitStatus.WELL
