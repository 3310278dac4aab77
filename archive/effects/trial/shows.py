"""What a call prints, logs and warns about, noted instead of shown; only for a child process."""

from __future__ import annotations

import contextlib
import io
import logging
import sys
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Records(logging.Handler):
    """Notes everything that a formatter may show of a record, except times and processes."""

    def __init__(self, lines: list[Any]) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        where = record.pathname, record.lineno, record.funcName
        self._lines.append((record.name, record.levelno, record.getMessage(), *where))


@contextlib.contextmanager
def noted(lines: list[Any]) -> Iterator[None]:
    """Note what is shown meanwhile, with the lines that loggers and warnings name."""
    handler, out, err = _Records(lines), io.StringIO(), io.StringIO()
    call_handlers = logging.Logger.callHandlers

    def handled(self: logging.Logger, record: logging.LogRecord) -> None:  # noqa: ARG001 (as logging's own)
        handler.emit(record)

    logging.Logger.callHandlers = handled  # type: ignore[method-assign]
    streams = sys.stdout, sys.stderr
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            sys.stdout, sys.stderr = out, err
            yield
    finally:
        sys.stdout, sys.stderr = streams
        logging.Logger.callHandlers = call_handlers  # type: ignore[method-assign]
        lines += [(str(one.message), one.category.__name__, one.filename, one.lineno) for one in warned]
        lines += [out.getvalue(), err.getvalue()]
