"""Records of :mod:`logging`, explained as they are made, before any filter, handler or formatter has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.failures.log.quiet import has_failure

if TYPE_CHECKING:
    import logging

    from archive.failures.models.explaining import Explainer


def explain_record(record: logging.LogRecord, explainer: Explainer) -> None:
    """Explain the failures in a record's error, and in its message.

    A failure in an argument is explained there: services group records by the text that is the same in all.
    """
    try:
        if record.exc_info:
            explainer.explain_error(record.exc_info[1])
        arguments = record.args if isinstance(record.args, tuple) else ()
        texts = [str(each) if isinstance(each, BaseException) else each for each in arguments]
        fail = [isinstance(text, str) and _has_failure(text) for text in texts]
        if any(fail):
            record.args = tuple(
                explainer.explain_event(text) if fails else argument
                for argument, text, fails in zip(arguments, texts, fail, strict=True)
            )
        elif _has_failure(message := record.getMessage()):
            record.msg, record.args = explainer.explain_event(message), ()
    except Exception as error:  # noqa: BLE001 (the record goes on, and its handlers tell what is wrong with it)
        explainer.count_problem(error)


def _has_failure(text: str) -> bool:
    return has_failure(text.encode("utf-8", "surrogatepass"))
