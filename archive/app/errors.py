"""Errors and events of Python: the texts in which PyTorch says what failed, and what explains them."""

from __future__ import annotations

import sys
from collections import deque
from copy import copy
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, cast

from archive.base.deadline import check_time
from archive.base.errors import several
from archive.debuginfo.sites import FX_FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from archive.failures.explainer import CauseGroup

MOST_ERRORS = 100
"""Errors that are looked at: causes, contexts, and members of groups."""
MOST_FRAMES = 1_000
"""Frames of an error's traceback that are looked at."""
MARK = " (debug-archive):"
"""The end of the first line of each note."""
DEEPEST = 10
"""Dicts, lists and tuples inside one another, in an event."""


def shown_with(error: BaseException) -> Iterator[BaseException]:
    """An error and those that Python shows with it, each once: causes, contexts and members of groups."""
    waiting, seen = deque([error]), set[int]()
    while waiting and len(seen) < MOST_ERRORS:
        error = waiting.popleft()
        if id(error) in seen:
            continue
        seen.add(id(error))
        yield error
        if isinstance(error, BaseExceptionGroup):
            waiting.extend(error.exceptions)
        before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        if before is not None:
            waiting.append(before)


def text_of(error: BaseException) -> str:
    """What an error says; with its traceback where frames of generated code say what failed."""
    call = error.__traceback__
    for _ in range(MOST_FRAMES):
        if call is None:
            break
        if call.tb_frame.f_code.co_filename.startswith(FX_FILE):  # only its traceback shows what failed
            import traceback  # noqa: PLC0415 (for few errors)

            return "".join(traceback.format_exception(type(error), error, error.__traceback__, chain=False))
        call = call.tb_next
    return str(error)


def notes_of(error: BaseException) -> list[str]:
    """The notes of an error, as far as they are texts."""
    notes = getattr(error, "__notes__", ())
    return [note for note in notes if isinstance(note, str)] if isinstance(notes, list) else []


def note_of(groups: Sequence[CauseGroup], caveat: str = "") -> str:
    """The note that explains some failures, with what nobody has checked; "" where no explanation is kept."""
    files = dict.fromkeys(PurePath(file).name for group in groups for file in group.models)
    texts = [group.text.decode("utf-8", "replace").strip("\n") for group in groups if group.text]
    heading = f"Explained by {several(list(files), word='or')}{MARK}"
    return "\n".join([heading, *filter(None, [caveat]), *texts]) if texts else ""


def texts_in(event: object) -> str:
    """All texts of an event, a line each."""
    texts = list[str]()

    def noted(text: str) -> str:
        texts.append(text)
        return text

    changed(event, noted, lambda error: noted(str(error)))
    return "\n".join(texts)


def changed(
    value: object,
    text: Callable[[str], str],
    error: Callable[[BaseException], object],
    deepest: int = DEEPEST,
) -> object:
    """An event with other texts in it: a copy where one is another, so that its owner's own stays.

    Args:
        error: is called for each error, and for the one that is being handled where ``exc_info`` is true.
        deepest: how deep values may be inside one another.

    Raises:
        LateError: the deadline of the work has passed.
    """
    if isinstance(value, str):
        return text(value)
    if isinstance(value, BaseException):
        error(value)
    if type(value) is tuple:
        items = list(value)
        others = changed(items, text, error, deepest)
        return value if others is items else tuple(cast("list[object]", others))
    if not isinstance(value, dict | list) or not deepest:
        return value
    check_time()
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    made: Any = value
    for key, before in list(pairs):
        if key == "exc_info" and before is True and (handled := sys.exception()) is not None:
            error(handled)
        after = changed(before, text, error, deepest - 1)
        if after is not before:
            made = copy(value) if made is value else made
            made[key] = after
    return made
