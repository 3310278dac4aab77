"""What a call prints, logs and warns."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Lines(logging.Handler):
    """Writes all that a formatter may show of a record, but for times and processes."""

    def __init__(self, lines: list[Any]) -> None:
        super().__init__()
        self.lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        where = record.pathname, record.lineno, record.funcName
        self.lines.append((record.name, record.levelno, record.getMessage(), *where))


@contextlib.contextmanager
def shown(lines: list[Any]) -> Iterator[None]:
    """Note what is printed, logged and warned meanwhile, with the lines that loggers and warnings name."""
    root, handler, out = logging.getLogger(), _Lines(lines), io.StringIO()
    level = root.level
    root.addHandler(handler)
    root.setLevel(1)
    try:
        with contextlib.redirect_stdout(out), warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            yield
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
        lines += [(str(one.message), one.category, one.filename, one.lineno) for one in warned]
        lines.append(out.getvalue())
