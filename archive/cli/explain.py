"""The part of ``debug-archive symbolicate`` that explains logs."""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from select import select
from stat import S_ISCHR
from typing import TYPE_CHECKING

import archive
from archive.app.explaining import explainer_of
from archive.app.sources import models_at, models_in
from archive.base.errors import ArchiveError, counted
from archive.base.quick_dataclass import dataclass
from archive.cli import printing
from archive.cli.status import ExitStatus
from archive.failures.explainer import LogExplainer
from archive.failures.log.recoding import unpacked
from archive.failures.models.models import Models
from archive.failures.rsyslog import MessageFilter
from archive.io.output import replacing
from archive.reader.recognition import READ_KINDS
from archive.render.symbolicate import causes_facts, causes_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import BinaryIO

    from archive import Archive, Limits
    from archive.debuginfo.symbolicate import Style
    from archive.page.shown import Shown
    from archive.render.document_facts import LogCauses

PIECE = 1 << 16
"""Bytes of a log that are read at once, or fewer where no more have arrived."""
MOST_TEXTS = 16 << 20
"""Bytes of explanations that a page of causes may hold, one for each cause."""
PAUSE = 0.5
"""Seconds without a byte, after which a failure that may be complete is explained."""


@dataclass(frozen=True, slots=True)
class LogTask:
    """A log to be explained, and how.

    Attributes:
        file: its path; None for standard input.
        store: the store, by its folder or its server's address, whose models explain it; None for files.
        style: the release whose words are used.
        ids: the pattern of an id, or None.
        names: the pattern of a model's name, or None.
        top: how many causes are printed in the place of the log, 0 for all; None for the log.
        as_json: whether causes are printed as JSON.
        limits: what files and explanations may cost.
        mapped: whether the models' files are mapped.
        page: where a page of the causes is written, in the place of the log; None for none.
        shown: how much of the models' source the page shows.
        force: whether the page may replace a file.
    """

    file: str | None
    store: str | None
    style: Style
    ids: str | None
    names: str | None
    top: int | None
    as_json: bool
    limits: Limits
    mapped: bool
    page: str | None
    shown: Shown
    force: bool


def explain_log(log: LogTask, files: Sequence[str], companion: str | None, *, is_one: bool) -> ExitStatus:
    """Print a log with its failures explained, or their causes; or write a page of these.

    Args:
        log: the log.
        files: archives, companions, folders of some, stores and servers; none where the log has a store.
        companion: the companion of the only file, where it was split off; else None.
        is_one: whether the files are one model, and neither a folder nor a server.
    """
    broken: list[ArchiveError] = []
    with ExitStack() as stack:
        page = None if log.page is None else stack.enter_context(replacing(log.page, force=log.force))
        asked, new = _asked(log, files, companion, stack, is_one=is_one)
        models, explainer = asked if isinstance(asked, Models) else None, new()
        source = sys.stdin.buffer if log.file is None else stack.enter_context(_opened(log.file))
        if page is not None:
            explainer.causes.room = MOST_TEXTS
        for piece in explainer.explain(_arriving(source, broken)):
            if log.top is None and not log.as_json and page is None:
                printing.write(piece)
        if page is not None:
            from archive.page.failures import failures_page  # noqa: PLC0415 (few logs get a page)

            name = "standard input" if log.file is None else Path(log.file).name
            page.write(failures_page(explainer, asked, name, log.shown))
    if log.as_json:
        many = 1 if models is None else len(models)
        causes: LogCauses = {"file": log.file or "-", **causes_facts(explainer, log.top or None, many)}
        printing.write_document(causes)
    elif log.top is not None:
        printing.show(causes_text(explainer, log.top or None))
    printing.flush()
    status = _note_rest(explainer, models)
    for error in broken:
        raise error
    return status


def answer_messages(log: LogTask, files: Sequence[str], companion: str | None, *, is_one: bool) -> ExitStatus:
    """Answer the messages that rsyslog writes to standard input: arguments as of :func:`explain_log`."""
    with ExitStack() as stack:
        asked, new = _asked(log, files, companion, stack, is_one=is_one)
        new()  # patterns are refused before rsyslog's first message
        messages = MessageFilter(new, printing.note)
        for answer in messages.answers(sys.stdin.buffer):
            printing.write_file(answer)
            printing.flush()
        failures = counted(messages.explained + messages.unknown, "failure")
        unread = f", {counted(messages.unread, 'record')} not read" if messages.unread else ""
        printing.note(f"{failures}: {messages.explained:,} explained{unread}")
        is_whole = not messages.unread and not (isinstance(asked, Models) and asked.unread)
    return ExitStatus.WELL if is_whole and not messages.unknown else ExitStatus.FINDINGS


def _asked(
    log: LogTask, files: Sequence[str], companion: str | None, stack: ExitStack, *, is_one: bool
) -> tuple[Archive | Models, Callable[[], LogExplainer]]:
    """The model or models that explain a log, closed by the stack; and what makes an explainer of a log."""
    if is_one and not (log.ids or log.names):
        opened = stack.enter_context(
            archive.open(
                files[0], companion=companion, mapped=log.mapped, limits=log.limits, kinds=READ_KINDS
            )
        )
        return opened, partial(LogExplainer.of, opened, style=log.style)
    if log.store is None:
        models = models_in(files, companion=companion, limits=log.limits, mapped=log.mapped)
    else:
        models = models_at(log.store, limits=log.limits)
    stack.callback(models.close)
    return models, partial(
        explainer_of, models, ids=log.ids, names=log.names, style=log.style, limits=log.limits
    )


def _opened(file: str) -> BinaryIO:
    """A log by its path."""
    log = Path(file).open("rb")  # noqa: SIM115 (the caller closes it)
    if S_ISCHR(os.fstat(log.fileno()).st_mode) and not log.isatty() and not Path(file).samefile(os.devnull):
        log.close()
        raise ArchiveError("is a device, not a log file", file=file)
    return log


def _arriving(log: BinaryIO, broken: list[ArchiveError]) -> Iterator[bytes]:
    """A log in pieces as they arrive; what is explained is written before more is waited for.

    Args:
        log: the log.
        broken: takes the error that ends it, so that what is held back until then is written.
    """
    try:
        for piece in unpacked(_pieces(log)):
            yield piece
            printing.flush()
    except ArchiveError as error:
        broken.append(error)


def _pieces(log: BinaryIO) -> Iterator[bytes]:
    """The pieces of a log, as they arrive; an empty one where none does for a while."""
    read = getattr(log, "read1", log.read)
    while True:
        if not _has_arrived(log):
            yield b""
        piece = read(PIECE)
        if not piece:
            return
        yield piece


def _has_arrived(log: BinaryIO) -> bool:
    """Whether more of a log arrives soon; True where the system cannot say."""
    try:
        return bool(select([log], [], [], PAUSE)[0])
    except (OSError, ValueError):
        return True


def _note_rest(explainer: LogExplainer, models: Models | None) -> ExitStatus:
    """Note what is not explained, or not for certain; the status says whether there is some."""
    for line in [*explainer.notes, *([explainer.caveat] if explainer.caveat else [])]:
        printing.note(line)
    if models is None:
        return ExitStatus.FINDINGS if explainer.unknown else ExitStatus.WELL
    printing.tell_unread(models.unread)
    failures = explainer.explained + explainer.unknown
    rest = explainer.unknown - explainer.ambiguous
    printing.note(
        f"{counted(failures, 'failure')}, {counted(len(models), 'model')}: "
        f"{explainer.explained:,} explained, {explainer.ambiguous:,} ambiguous"
        + (f", {rest:,} of none of them" if rest else "")
    )
    return ExitStatus.FINDINGS if explainer.unknown or models.unread else ExitStatus.WELL
