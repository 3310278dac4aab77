"""Records of :mod:`logging`, explained as they are made, before any filter, handler or formatter has them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from archive.failures.log.quiet import has_failure

if TYPE_CHECKING:
    import logging

    from archive.failures.models.explaining import Explainer


REPR = re.compile("%[-#0 +.*0-9]*[ra]")
"""Shows an argument as ``repr`` does, an error with its class."""


def explain_record(record: logging.LogRecord, explainer: Explainer) -> None:
    """Explain the failures in a record's error, and in its message.

    A failure in an argument is explained there: services group records by the text that is the same in all.
    Where nothing is explained, the record stays as it is.
    """
    try:
        if record.exc_info:
            explainer.explain_error(record.exc_info[1])
        arguments = record.args if isinstance(record.args, tuple) else ()
        keeps_errors = isinstance(record.msg, str) and REPR.search(record.msg) is not None
        texts = [
            str(each) if isinstance(each, BaseException) and not keeps_errors else each for each in arguments
        ]
        fails = [isinstance(text, str) and _has_failure(text) for text in texts]
        if any(fails):
            record.args = tuple(
                _explained(argument, text, explainer) if fail else argument
                for argument, text, fail in zip(arguments, texts, fails, strict=True)
            )
        elif _has_failure(message := record.getMessage()):
            explained = explainer.explain_event(message)
            if explained != message:
                record.msg, record.args = explained, ()
    except Exception as error:  # noqa: BLE001 (the record goes on, and its handlers tell what is wrong with it)
        explainer.count_problem(error)


def _explained(argument: object, text: object, explainer: Explainer) -> object:
    """The explained text of an argument; the argument itself where nothing explains it."""
    explained = explainer.explain_event(text)
    return argument if explained == text else explained


def _has_failure(text: str) -> bool:
    return has_failure(text.encode("utf-8", "surrogatepass"))
