"""What a worker does for a request: explain a log, look up handles, keep a companion.

Requests are hostile until proved otherwise: here they are unpacked, parsed and matched, in a process that can
be killed. Only short facts go back; answers are written to files.

A worker keeps the models of a store: it opens each once, and again when the store has changed.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from functools import cached_property, wraps
from http import HTTPStatus
from io import BytesIO
from typing import TYPE_CHECKING, Annotated, NamedTuple, ParamSpec, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import from_json

from archive.app.explaining import explainer_of
from archive.app.sources import models_of, own_store
from archive.base.errors import ArchiveError, ExhaustedError, LimitError, one_line
from archive.base.json_text import check_values
from archive.base.problems import NO_SPACE
from archive.debuginfo.symbolicate import Style
from archive.failures.log.recoding import unpacked
from archive.io.mapped import FileInMemory
from archive.page.failures import failures_page
from archive.page.report import report
from archive.page.shown import Shown
from archive.reader.recognition import REPORTED_KINDS, recognise
from archive.render.as_json import as_json
from archive.render.symbolicate import causes_facts, handle_facts
from archive.server import html
from archive.server.example import example_of
from archive.server.forms import FormError, fields_of
from archive.server.problems import HttpProblem, Reason, busy, full_disk
from archive.server.settings import (
    EXCERPT_BYTES,
    INFLATED_A_BYTE,
    LEAST_INFLATED,
    LONGEST_DETAIL,
    LONGEST_PATTERN,
    MOST_HANDLES,
    MOST_VALUES,
)
from archive.store.adding import TakenError, made_of
from archive.store.entries import entry_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path
    from typing import Any, BinaryIO

    from archive.failures.explainer import LogExplainer
    from archive.failures.models.models import Models
    from archive.server.forms import FormField
    from archive.store.stores import OwnStore


# --- requests in JSON

Handle = Annotated[int, Field(ge=0, lt=1 << 63)]
Pattern = Annotated[str, Field(max_length=LONGEST_PATTERN)]
ABOUT_IDS = (
    "A pattern of what names a model in the log: an archive id, handle prefix or serialization id. The first "
    "group of this regular expression is the id, or all that it finds."
)
ABOUT_NAMES = "The same for the name of a file, of the top module's class, or the label of a release."


class LogRequest(BaseModel):
    """A log to be explained."""

    model_config = ConfigDict(extra="forbid")

    log: Annotated[str, Field(description="The log.")]
    id: Annotated[Pattern | None, Field(description=ABOUT_IDS)] = None
    model: Annotated[Pattern | None, Field(description=ABOUT_NAMES)] = None
    top: Annotated[
        Annotated[int, Field(ge=1)] | None,
        Field(description="How many causes the answer has; all if it is left out."),
    ] = None


class HandlesRequest(BaseModel):
    """Handles to be looked up."""

    model_config = ConfigDict(extra="forbid")

    handles: Annotated[
        list[Handle],
        Field(
            min_length=1,
            max_length=MOST_HANDLES,
            description="Those of one failure, inner ones first; numbers, or strings of digits.",
        ),
    ]
    archive: Annotated[
        Annotated[str, Field(min_length=1, max_length=LONGEST_PATTERN)] | None,
        Field(
            description="The archive id or eight or more of its first digits, the handle prefix, or the "
            "serialization id; unique handles name their archive themselves."
        ),
    ] = None


# --- shelf


class UnreadableError(ArchiveError):
    """A store that cannot be read, for now or for good."""


class Shelf:
    """The models of a store."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._models: Models | None = None
        self._kept: list[tuple[str, tuple[str, ...], int]] = []

    @cached_property
    def store(self) -> OwnStore[Any]:
        """The store."""
        return own_store(self._path)

    @contextmanager
    def models(self) -> Iterator[Models]:
        """The models as they are now, for the time of a request."""
        try:
            kept = [(entry.digest, entry.labels, entry.kept_size) for entry in self.store.entries()]
            if self._models is None or kept != self._kept:
                self.close()
                self._models, self._kept = models_of(self.store), kept
            models = self._models
        except (ArchiveError, OSError) as error:
            raise UnreadableError(str(error)) from error
        try:
            yield models
        finally:
            if models.unread:  # for now, or for good: the next request asks again
                self.close()

    def close(self) -> None:
        """Close all models."""
        if self._models is not None:
            self._models.close()
            self._models = None


# --- work

P = ParamSpec("P")
ResultT = TypeVar("ResultT")

PIECE = 1 << 16
"""Bytes of a body that are read at once."""
WANTED = 'expected {"log": …} or {"handles": …}; send a log as it is as text/plain'


class Explained(NamedTuple):
    """What was done with a log: ``ambiguous`` failures may be of several models, ``unknown`` ones of none.

    Attributes:
        notes: how many there are: the answer in JSON has their texts.
    """

    models: int
    explained: int
    ambiguous: int
    unknown: int
    notes: int


class Sent(NamedTuple):
    """What a client says of a companion."""

    name: str
    root: str
    serialization_id: str
    replace: bool
    label: str


class _Worker:
    """What a worker keeps between requests; ``most`` bounds an inflated log, and an answer."""

    def __init__(self, store: str, most: int) -> None:
        self.shelf = Shelf(store)
        self.most = most


_worker: _Worker


def prepare(store: str, most: int) -> None:
    """Prepare this process to work."""
    global _worker  # noqa: PLW0603 (a worker's own state, which pebble's initializer makes)
    _worker = _Worker(store, most)
    # So that the first request finds it made; each request gets an error of its own.
    with suppress(UnreadableError), _worker.shelf.models() as models:
        _ = models.by_id


def _refusing(work: Callable[P, ResultT]) -> Callable[P, ResultT | HttpProblem]:
    """Work whose errors become refusals: not every error can be pickled."""

    @wraps(work)
    def refusing(*arguments: P.args, **named: P.kwargs) -> ResultT | HttpProblem:
        try:
            return work(*arguments, **named)
        except HttpProblem as problem:
            return problem
        except Exception as error:  # noqa: BLE001 (the boundary of the process)
            return _refused(error)

    return refusing


def _refused(error: Exception) -> HttpProblem:
    match error:
        case MemoryError() | RecursionError() | ExhaustedError():
            status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE
            detail = "the request needs more memory than a worker may use; send the log in parts"
        case LimitError():
            bound = f"{error.resource} is limited to {error.limit:,}, found {error.actual:,}"
            status, detail = HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"{bound}; send the log in parts"
        case UnreadableError():
            return busy(Reason.STORE, one_line(str(error))[:LONGEST_DETAIL])
        case TakenError():
            status, detail = HTTPStatus.CONFLICT, str(error)
        case ArchiveError():
            status, detail = HTTPStatus.BAD_REQUEST, str(error)
        case OSError(errno=number) if number in NO_SPACE:
            return full_disk()
        case _:
            status = HTTPStatus.INTERNAL_SERVER_ERROR
            detail = f"internal error: {type(error).__name__}: {error}"
    return HttpProblem(status, one_line(detail)[:LONGEST_DETAIL])


@_refusing
def explain_text(body: Path, answer: Path, ids: str | None, names: str | None) -> Explained:
    """Explain a log; the answer is the log with its failures explained."""
    with _worker.shelf.models() as models, answer.open("wb") as out:
        explainer = explainer_of(models, ids=ids, names=names)
        for piece in _bounded(explainer.explain(_text(body))):
            out.write(piece)
        return _counts(explainer, models)


@_refusing
def explain_json(body: Path, answer: Path) -> Explained | None:
    """Explain the log, or look up the handles, of a request in JSON; the answer is JSON."""
    content = b"".join(_text(body))
    try:
        request = parsed(content)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        why = f"{place}: {first['msg']}" if place else first["msg"]
        raise HttpProblem(HTTPStatus.UNPROCESSABLE_ENTITY, f"{why}; {WANTED}") from None
    with _worker.shelf.models() as models, answer.open("wb") as out:
        if isinstance(request, HandlesRequest):
            known = models.of_id(request.archive) if request.archive else models.named_by([request.handles])
            if len(known) != 1:
                count = "no model has" if not known else f"{len(known)} models have"
                what = f"the id {request.archive}" if request.archive else "a handle prefix of these handles"
                raise HttpProblem(HTTPStatus.NOT_FOUND, f"{count} {what}; GET /v1/companions lists all")
            with models.using(known[0], models, lambda archive: archive) as opened:
                facts = handle_facts(opened, request.handles, Style.CURRENT, known[0].file)
                named = {"model": known[0].file, "archive": opened.archive_id.hex()}
                out.write(as_json({**named, **facts}).encode())
            return None
        return _explain(request, models, out)


@_refusing
def failures_page_of(body: Path, answer: Path, content_type: str, top: str) -> Explained:
    """Explain the log of a form; the answer is the page of its failures, below ``top``."""
    fields = _fields(body, content_type, ("log", "file", "source"))
    logs = [fields[name] for name in ("log", "file") if name in fields and fields[name].value]
    if len(logs) != 1:
        file = fields["file"].file or "a file" if logs else ""
        two = f"the form has two logs, a pasted one and {file}: send one at a time"
        why = two if logs else "the form has no log: paste one, or choose a file"
        raise HttpProblem(HTTPStatus.UNPROCESSABLE_ENTITY, why)
    (field,) = logs
    shown = _shown(fields)
    if what := _model_in(field.value):
        why = f'{field.file} isn\'t a log, but {what}: "{html.REPORT[1]}" takes models'
        raise HttpProblem(HTTPStatus.UNPROCESSABLE_ENTITY, why)
    with _worker.shelf.models() as models:
        explainer = explainer_of(models, ids=None, names=None)
        explainer.causes.room = EXCERPT_BYTES
        log = _bounded(unpacked(iter([field.value]), LEAST_INFLATED, INFLATED_A_BYTE))
        for _ in _bounded(explainer.explain(log)):
            pass
        page = failures_page(explainer, models, field.file or "the pasted log", shown)
        answer.write_bytes(html.beneath(top, page))
        return _counts(explainer, models)


@_refusing
def report_of(body: Path, answer: Path, content_type: str, top: str) -> None:
    """Read the model of a form; the answer is its report page, below ``top``."""
    fields = _fields(body, content_type, ("model", "source"))
    model = fields.get("model")
    if model is None or not model.value:
        why = f"{model.file} is empty" if model and model.file else "the form has no model: choose a file"
        raise HttpProblem(HTTPStatus.UNPROCESSABLE_ENTITY, why)
    source, out = FileInMemory(model.value, model.file or "the model"), BytesIO()
    try:
        report(source, out, show=_shown(fields), limits=_worker.shelf.store.limits)
    except ArchiveError:
        if not _is_text(model.value):
            raise
        why = f'{source.name} isn\'t a model, but a text: "{html.EXPLAIN[1]}" takes logs'
        raise HttpProblem(HTTPStatus.UNPROCESSABLE_ENTITY, why) from None
    answer.write_bytes(html.beneath(top, out.getvalue()))


def _model_in(data: bytes) -> str:
    """What model a file is, in words; "" of another file."""
    with suppress(ArchiveError):
        recognised = recognise(data, look=False)
        return recognised.what if recognised.kind in REPORTED_KINDS else ""
    return ""


def _is_text(data: bytes) -> bool:
    try:
        return "\0" not in data.decode()
    except UnicodeDecodeError:
        return False


@_refusing
def example() -> str:
    """A log that the store explains; "" where there is none."""
    with _worker.shelf.models() as models:
        return example_of(models)


def _fields(body: Path, content_type: str, known: Sequence[str]) -> dict[str, FormField]:
    """The fields of a form."""
    try:
        return fields_of(body.read_bytes(), content_type, known)
    except FormError as error:
        raise HttpProblem(HTTPStatus.BAD_REQUEST, str(error)) from None


def _shown(fields: dict[str, FormField]) -> Shown:
    """How much of the models' source a page shows."""
    asked = fields["source"].value.decode("utf-8", "replace") if "source" in fields else Shown.FULL
    try:
        return Shown(asked)
    except ValueError:
        raise HttpProblem(HTTPStatus.UNPROCESSABLE_ENTITY, "source is full, basename or none") from None


def parsed(content: bytes) -> HandlesRequest | LogRequest:
    """A request in JSON."""
    try:
        check_values(content, MOST_VALUES)
        facts = from_json(content)
    except (ArchiveError, ValueError) as error:
        raise HttpProblem(HTTPStatus.BAD_REQUEST, f"no JSON: {error}; {WANTED}") from None
    kind = HandlesRequest if isinstance(facts, dict) and "handles" in facts else LogRequest
    return kind.model_validate(facts)


@_refusing
def add(body: Path, answer: Path, sent: Sent) -> bool:
    """Add a companion, or that of an archive, and answer what the store says in JSON; whether it is new."""
    store = _worker.shelf.store
    made = made_of(FileInMemory(body.read_bytes(), sent.name), sent.name, store.limits, sent.label)
    if not made.serialization_id:  # it was a companion, which does not hold these
        made = made._replace(root=one_line(sent.root), serialization_id=one_line(sent.serialization_id))
    addition = store.add(made, replace=sent.replace)
    facts = {"outcome": addition.outcome, **entry_json(addition.entry, complete=True)}
    answer.write_bytes(as_json(facts).encode())
    return addition.outcome != "same"


def _explain(request: LogRequest, models: Models, out: BinaryIO) -> Explained:
    explainer = explainer_of(models, ids=request.id, names=request.model)
    text = b"".join(_bounded(explainer.explain([request.log.encode()])))
    facts = {
        **causes_facts(explainer, request.top, len(models)),
        "caveat": explainer.caveat,
        "unread": models.unread,
        "log": text,
    }
    out.write(as_json(facts).encode())
    return _counts(explainer, models)


def _counts(explainer: LogExplainer, models: Models) -> Explained:
    unknown = explainer.unknown - explainer.ambiguous
    return Explained(len(models), explainer.explained, explainer.ambiguous, unknown, len(explainer.notes))


def _text(body: Path) -> Iterator[bytes]:
    """The text of a body, which gzip may have packed, in pieces, once it is known to be short enough."""
    for _ in _inflated(body):
        pass
    yield from _inflated(body)


def _inflated(body: Path) -> Iterator[bytes]:
    with body.open("rb") as file:
        pieces = iter(lambda: file.read(PIECE), b"")
        yield from _bounded(unpacked(pieces, LEAST_INFLATED, INFLATED_A_BYTE))


def _bounded(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Pieces that are together no longer than allowed."""
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > _worker.most:
            why = f"the log or its explanation would exceed {_worker.most:,} bytes; send the log in parts"
            raise HttpProblem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, why)
        yield piece
