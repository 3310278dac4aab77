"""The part of ``debug-archive symbolicate`` that explains logs."""

from __future__ import annotations

import os
import re
import sys
from contextlib import ExitStack
from functools import partial
from io import BytesIO
from pathlib import Path
from select import select
from stat import S_ISCHR
from typing import TYPE_CHECKING

from archive.app.explaining import explainer_of
from archive.base.errors import ArchiveError, counted, one_line, several
from archive.cli import printing
from archive.cli.ci import CAUSE_RULES, STANDARD_INPUT, cause_result
from archive.cli.files import note_left_out
from archive.cli.forms import MODEL_EXPLORER, SARIF
from archive.cli.showing import TEXT, showing
from archive.cli.status import Cause
from archive.failures.explainer import LogExplainer
from archive.failures.log.recoding import unpacked
from archive.failures.models.models import Models
from archive.failures.rsyslog import MessageFilter
from archive.io.output import replacing
from archive.io.urls import name_of
from archive.page.shown import Shown
from archive.reader.recognition import FileKind, Recognised, recognise
from archive.reader.recognition.kinds import LOG_KINDS, NO_MODEL_KINDS
from archive.render.rows import CAUSES
from archive.render.symbolicate import causes_facts, causes_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import BinaryIO

    from archive import Archive
    from archive.cli.asked import Asked
    from archive.cli.status import ExitStatus
    from archive.render.symbolicate import LogCauses

PIECE = 1 << 16
"""Bytes of a log that are read at once, or fewer where no more have arrived."""
MOST_TEXTS = 16 << 20
"""Bytes of explanations that a page of causes may hold, one for each cause."""
PAUSE = 0.5
"""Seconds without a byte, after which a failure that may be complete is explained."""
CONTROLS = re.compile(rb"[\0-\x07\v\x0e-\x1a\x1c-\x1f\x7f]")
"""Bytes that a text seldom has: only then it is asked what the log is, which takes 0.1 s."""
OF_NONE = "give the archive that failed or its companion, or a --store that has it"
AS_MODEL = "models are FILEs, and the log is standard input or --log LOG"
"""The way out for who gives a model in the place of a log."""


def explain_log(log: Asked) -> ExitStatus:
    """Print a log with its failures explained, or their causes; or write a page of these."""
    broken: list[ArchiveError] = []
    with ExitStack() as stack:
        page = None if log.page is None else stack.enter_context(replacing(log.page, force=log.force))
        asked, new = _models(log, stack)
        models, explainer = asked if isinstance(asked, Models) else None, new()
        source = _source(log, stack)
        if page is not None:
            explainer.causes.room = MOST_TEXTS
        for piece in explainer.explain(_arriving(source, log, broken)):
            if log.top is None and showing.form == TEXT and page is None:
                printing.write(piece)
        if page is not None:
            from archive.page.failures import failures_page  # noqa: PLC0415 (few logs get a page)

            name = STANDARD_INPUT if log.log is None else Path(log.log).name
            page.write(failures_page(explainer, asked, name, Shown(log.show)))
        if showing.form == MODEL_EXPLORER and not isinstance(asked, Models):
            _write_nodes(log, asked, explainer)
    if log.as_json and showing.form != MODEL_EXPLORER:
        many = 1 if models is None else len(models)
        causes: LogCauses = {"file": log.log or "-", **causes_facts(explainer, log.top or None, many)}
        printing.write_document(causes, text=CAUSES)
    elif showing.form == SARIF:
        file, groups = log.log or STANDARD_INPUT, explainer.causes.top(log.top or None)
        results = [cause_result(group, file) for group in groups]
        printing.write_sarif(CAUSE_RULES, results)
    elif log.top is not None:
        printing.show(causes_text(explainer, log.top or None))
    printing.flush()
    if not (broken or explainer.explained or explainer.unknown):
        size = counted(explainer.spending.read, "byte")
        asked_of = counted(1 if models is None else len(models), "model")
        printing.note(f"no failure to explain in {_name(log)} ({size}), {asked_of}")
    status = _note_rest(explainer, models, log.top or None)
    for error in broken:
        raise error
    return status


def _write_nodes(log: Asked, opened: Archive, explainer: LogExplainer) -> None:
    """Write how many failures are at each node of the model's graph."""
    from archive.app.model_explorer.failing import failures_at_nodes  # noqa: PLC0415 (few ask for it)
    from archive.render.node_data import NodeDataText, failure_counts  # noqa: PLC0415 (the same)

    counts = failures_at_nodes(opened, explainer.causes.top(log.top or None))
    if counts.elsewhere:
        many = counted(counts.elsewhere, "explained failure")
        printing.note(f"{many} at no operator of the graph")
    facts = {"file": log.log or "-", "data": failure_counts(counts.at_node)}
    printing.write_document(facts, text=NodeDataText())


def answer_messages(log: Asked) -> ExitStatus:
    """Answer the messages that rsyslog writes to standard input."""
    with ExitStack() as stack:
        asked, new = _models(log, stack)
        new()  # patterns are refused before rsyslog's first message
        messages = MessageFilter(new, printing.note)
        for answer in messages.answers(sys.stdin.buffer):
            printing.write_file(answer)
            printing.flush()
        failures = counted(messages.explained + messages.unknown, "failure")
        unread = f", {counted(messages.unread, 'record')} not read" if messages.unread else ""
        printing.note(f"{failures}: {messages.explained:,} explained{unread}")
        unread_models = isinstance(asked, Models) and asked.unread
    unread_model = Cause.UNREAD_MODEL.when(messages.unread or unread_models)
    return max(unread_model, Cause.UNEXPLAINED.when(messages.unknown))


def _models(log: Asked, stack: ExitStack) -> tuple[Archive | Models, Callable[[], LogExplainer]]:
    """The model or models that explain a log, closed by the stack; and what makes an explainer of a log."""
    if log.is_one and not (log.ids or log.names):
        opened = stack.enter_context(log.opened())
        return opened, partial(LogExplainer.of, opened, style=log.style)
    models = log.models()
    stack.callback(models.close)
    return models, partial(
        explainer_of, models, ids=log.ids, names=log.names, style=log.style, limits=log.limits
    )


def _name(log: Asked) -> str:
    """The log's name for messages."""
    if log.quoted:
        return " ".join(log.wanted)
    return STANDARD_INPUT if log.log is None else name_of(log.log)


def _source(log: Asked, stack: ExitStack) -> BinaryIO:
    """The log's bytes."""
    if log.quoted:
        return BytesIO(log.quoted)
    return sys.stdin.buffer if log.log is None else stack.enter_context(_opened(log.log))


def _opened(file: str) -> BinaryIO:
    """A log by its path."""
    log = Path(file).open("rb")  # noqa: SIM115 (the caller closes it)
    if S_ISCHR(os.fstat(log.fileno()).st_mode) and not log.isatty() and not Path(file).samefile(os.devnull):
        log.close()
        raise ArchiveError("is a device, not a log file", file=file)
    return log


def _arriving(log: BinaryIO, asked: Asked, broken: list[ArchiveError]) -> Iterator[bytes]:
    """A log in pieces as they arrive; what is explained is written before more is waited for.

    Args:
        log: the log.
        asked: for its name and limits.
        broken: takes the error that ends it, so that what is held back until then is written.
    """
    is_checked = False
    try:
        for piece in unpacked(_pieces(log)):
            if piece and not is_checked:
                is_checked = True
                _check_log(piece, asked)
            yield piece
            printing.flush()
    except ArchiveError as error:
        broken.append(error)


FIRST_PIECES = {FileKind.CUT, FileKind.LEGACY_TAR_PART}
"""What the first piece of a whole file looks like."""
UNSURE_KINDS = {FileKind.ZIP, FileKind.LEGACY_TAR_PART}
"""Kinds of files that aren't models, though a whole one or another of them may be."""


def _check_log(start: bytes, asked: Asked) -> None:
    """Refuse a model, or a packed file, in the place of a log, by its first bytes."""
    if not CONTROLS.search(start):
        return
    try:
        recognised = recognise(start, limits=asked.limits, look=False)
        if recognised.kind in FIRST_PIECES and asked.log is not None:
            whole = recognise(asked.log, limits=asked.limits, look=False)
            recognised = recognised if whole.kind is FileKind.GZIP else whole
    except ArchiveError:  # a zip that contradicts itself
        recognised = Recognised(FileKind.ZIP, "a broken zip")
    if recognised.kind not in LOG_KINDS:
        way = recognised.advice if recognised.kind in NO_MODEL_KINDS - UNSURE_KINDS else AS_MODEL
        raise ArchiveError(f"{recognised.what}, and not a log: {way}", file=_name(asked))


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


def _note_rest(explainer: LogExplainer, models: Models | None, most: int | None) -> ExitStatus:
    """Note what is not explained, or not for certain; the status says whether there is some.

    Args:
        most: how many notes there may be of failures; None for all.
    """
    for line in [*explainer.notes_of_most(most), *([explainer.caveat] if explainer.caveat else [])]:
        printing.note(line)
    if models is None:
        return Cause.UNEXPLAINED.when(explainer.unknown)
    printing.print_unread(models.unread)
    note_left_out(models.skipped)
    if models.programs:
        programs = counted(models.programs, "program")
        printing.note(
            f"passed over: {programs} of ExecuTorch (.pte); the ETRecords made with them have the source"
        )
    failures = explainer.explained + explainer.unknown
    rest = explainer.unknown - explainer.ambiguous - explainer.lacking - explainer.lineless
    if failures:
        printing.note(
            f"{counted(failures, 'failure')}, {counted(len(models), 'model')}: "
            f"{explainer.explained:,} explained{_by(explainer)}, {explainer.ambiguous:,} ambiguous"
            + (f", {explainer.lacking:,} of models without debug info" if explainer.lacking else "")
            + (f", {explainer.lineless:,} without a line" if explainer.lineless else "")
            + (f", {rest:,} of none of them; {OF_NONE}" if rest else "")
        )
    return max(Cause.UNEXPLAINED.when(explainer.unknown), Cause.UNREAD_MODEL.when(models.unread))


def _by(explainer: LogExplainer) -> str:
    """Words for the only model that explains failures, or for several that explain some alike."""
    models = {group.models for group in explainer.causes.top(None)}
    if len(models) == 1 and not explainer.causes.others:
        (files,) = models
        return f" by {several([*map(one_line, files)])}{', which agree' if len(files) > 1 else ''}"
    return f" ({explainer.agreed:,} by several models that agree)" if explainer.agreed else ""
