"""``archive.install``: what fails in an application, explained wherever Python reports it."""

from __future__ import annotations

import asyncio
import logging
import re
import sys
import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from archive.app.explaining import Explainer
from archive.base.bounded import bounded
from archive.failures.log.quiet import has_failure

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self, TypeAlias

    from archive.app.explaining import Sources

    Call: TypeAlias = Callable[..., Any]

REPR = re.compile("%[-#0 +.*0-9]*[ra]")
"""Shows an argument as ``repr`` does, an error with its class."""


class Place(NamedTuple):
    """Where Python looks for what to call."""

    get: Callable[[], Call]
    put: Callable[[Call], object]


def attribute(owner: object, name: str) -> Place:
    """An attribute of a module, a class or an object."""
    return Place(partial(getattr, owner, name), partial(setattr, owner, name))


class Hooks:
    """What :func:`install` has put into an application; a ``with`` statement uninstalls it at its end.

    Attributes:
        explainer: explains; its ``stats`` count.
    """

    def __init__(self, explainer: Explainer, *, is_owner: bool) -> None:
        self.explainer = explainer
        self._is_owner = is_owner
        self._is_active = True
        self._taken: list[tuple[Place, Call, Call]] = []
        self._take(attribute(sys, "excepthook"), self._explaining(lambda _, error, __: error))
        self._take(attribute(sys, "unraisablehook"), self._explaining(lambda args: args.exc_value))
        self._take(attribute(threading, "excepthook"), self._explaining(lambda args: args.exc_value))
        # The class's own: loops that run have it, and those to come.
        loop = attribute(asyncio.BaseEventLoop, "call_exception_handler")
        self._take(loop, self._explaining(lambda _, context: context.get("exception")))
        self._take(Place(logging.getLogRecordFactory, logging.setLogRecordFactory), self._making_records)
        ipython = sys.modules.get("IPython")
        if ipython is not None and (shell := ipython.get_ipython()):
            # Called where the error is handled, with or without it.
            self._take(attribute(shell, "showtraceback"), self._explaining(lambda *_, **__: sys.exception()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.uninstall()

    def uninstall(self) -> None:
        """Give every place back; where others came since, only pass on what comes. Twice does nothing more.

        An explainer that :func:`install` made is closed.
        """
        self._is_active = False
        while self._taken:
            place, ours, before = self._taken.pop()
            if place.get() is ours:
                place.put(before)
        if self._is_owner:
            self.explainer.close()

    def _take(self, place: Place, around: Callable[[Call], Call]) -> None:
        """Put something around what stands at a place."""
        before = place.get()
        ours = around(before)
        place.put(ours)
        self._taken.append((place, ours, before))

    def _explaining(self, error_in: Call) -> Callable[[Call], Call]:
        """What explains an error before another hook gets it."""

        def around(before: Call) -> Call:
            def hook(*arguments: object, **named: object) -> object:
                if self._is_active:
                    try:
                        self.explainer.explain_error(error_in(*arguments, **named))
                    except Exception as problem:  # noqa: BLE001 (the other hook may know these arguments)
                        self.explainer.count_problem(problem)
                return before(*arguments, **named)

            return hook

        return around

    def _making_records(self, before: Call) -> Call:
        """What explains each record that another factory makes."""

        def factory(*arguments: object, **named: object) -> logging.LogRecord:
            record: logging.LogRecord = before(*arguments, **named)
            if self._is_active:
                explain_record(record, self.explainer)
            return record

        return factory


@bounded
def install(models: Sources | Explainer) -> Hooks:
    """Explain what fails in this application, wherever Python reports it.

    Errors get a note (:meth:`Explainer.explain_error`) before what has the hooks of :mod:`sys`,
    :mod:`threading`, :mod:`asyncio` and IPython gets them; records of :mod:`logging` are explained as they
    are made. Nothing that goes wrong then is raised, and nothing is lost: ``stats`` of the explainer count.
    Call it after all others that take hooks, and before the process forks.

    Args:
        models: archives, companions and folders of some, stores by their folder or their server's address; or
            an explainer, which stays its maker's to close. The models are read now: ``unread`` of the
            explainer names those that cannot be.

    Returns:
        What takes the hooks out again, and has the explainer.

    Raises:
        ArchiveError: a path is no model's.
        OSError: a file or folder cannot be read.

    Examples:
        >>> from pathlib import Path
        >>> text = Path("fixtures/oracles/plain_unicode.jit.stripped.txt").read_text()
        >>> with install("fixtures/oracles/plain_unicode.pt") as hooks:
        ...     logging.getLogger("service").error("predict: %s", text)
        ...     hooks.explainer.stats.explained
        1
    """
    explainer = models if isinstance(models, Explainer) else Explainer(models)
    return Hooks(explainer.warm(), is_owner=explainer is not models)


# --- records of logging


def explain_record(record: logging.LogRecord, explainer: Explainer) -> None:
    """Explain the failures in a record's error, and in its message.

    A failure in an argument is explained there: services group records by the text that is the same in all.
    Where nothing is explained, the record stays as it is.
    """
    try:
        if record.exc_info:
            explainer.explain_error(record.exc_info[1], said=_said_in(record))
        arguments = record.args if isinstance(record.args, tuple) else ()
        keeps_errors = isinstance(record.msg, str) and REPR.search(record.msg) is not None
        texts = [
            str(each) if isinstance(each, BaseException) and not keeps_errors else each for each in arguments
        ]
        fails = [isinstance(text, str) and _has_failure(text) for text in texts]
        if any(fails):
            said = _said_in(record)
            record.args = tuple(
                _explained(argument, text, explainer, said) if fail else argument
                for argument, text, fail in zip(arguments, texts, fails, strict=True)
            )
        elif _has_failure(message := record.getMessage()):
            explained = explainer.explain_event(message, said=_said_in(record))
            if explained != message:
                record.msg, record.args = explained, ()
    except Exception as error:  # noqa: BLE001 (the record goes on, and its handlers report what is wrong with it)
        explainer.count_problem(error)


def _said_in(record: logging.LogRecord) -> str:
    """All that a record says, as a formatter puts it together: any part may name the model."""
    error = record.exc_info[1] if record.exc_info else None
    with suppress(Exception):  # an argument that has no text, or none to its format
        return record.getMessage() + ("" if error is None else f"\n{error}")
    return str(record.msg)


def _explained(argument: object, text: object, explainer: Explainer, said: str) -> object:
    """The explained text of an argument; the argument itself where nothing explains it."""
    explained = explainer.explain_event(text, said=said)
    return argument if explained == text else explained


def _has_failure(text: str) -> bool:
    return has_failure(text.encode("utf-8", "surrogatepass"))
