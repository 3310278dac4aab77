r"""The program that rsyslog's ``mmexternal`` runs on its messages: a record of JSON in, an answer out.

With ``interface.input="fulljson"``, rsyslog writes each message as a line of JSON to the program's standard
input, and waits for a line of JSON with the properties to change; ``{}`` changes none:

    {"msg": "Debug info for handle(s): debug_handles:{17}, was not found.", "hostname": "web-1", …}
    {"msg": "Module hierarchy:top(Net).fc(Linear).aten::addmm\nTraceback of TorchScript …"}

Source: ``plugins/external/INTERFACE.md`` of rsyslog. Messages of all hosts and programs come through one such
program, so each is explained by itself: what another one names does not count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.base.errors import ArchiveError
from archive.base.json_text import parsed_json
from archive.failures.explainer import MAX_NOTES
from archive.failures.log.encodings import quoted
from archive.failures.log.quiet import has_failure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import BinaryIO

    from archive.failures.explainer import LogExplainer

MOST_BYTES = 16 << 20
"""Bytes of a record; a longer one is not read. rsyslog's messages have 8 KB, or its ``maxMessageSize``."""
MOST_VALUES = 10_000
"""Values of JSON in a record."""
NOTHING = b"{}\n"
"""The answer that changes nothing."""


class MessageFilter:
    """Explains the failures in messages, each by itself.

    Args:
        note: takes the notes: why failures stay as they are, or that only one model is given and nothing
            names it. Each text comes once, at most 100 in all.

    Attributes:
        unread: records that may have a failure, and couldn't be read.
    """

    def __init__(self, new: Callable[[], LogExplainer], note: Callable[[str], None]) -> None:
        self._new, self._write_note = new, note
        self._noted = set[str]()
        self.explained = self.unknown = self.unread = 0

    def answers(self, records: BinaryIO) -> Iterator[bytes]:
        """One line for each line that arrives, however broken: rsyslog waits for it."""
        number = 0
        while record := records.readline(MOST_BYTES + 1):
            number += 1
            size = len(record)
            while len(record) > MOST_BYTES and not record.endswith(b"\n"):
                record = records.readline(MOST_BYTES + 1)
                size += len(record)
            if size > MOST_BYTES:
                self.unread += 1
                self._note(f"record {number}", f"it has {size:,} bytes; {MOST_BYTES:,} are read at most")
                yield NOTHING
            else:
                yield self._answer(record, number) if has_failure(record) else NOTHING

    def _answer(self, record: bytes, number: int) -> bytes:
        """The answer to a record that may have a failure."""
        try:
            message = _message(record)
            explainer = self._new()
            text = b"".join(explainer.explain([message]))
        except (ArchiveError, OSError) as error:
            self.unread += 1
            self._note(f"record {number}", str(error))
            return NOTHING
        self.explained += explainer.explained
        self.unknown += explainer.unknown
        for note in filter(None, [*explainer.notes, explainer.caveat]):
            self._note(f"record {number}", note)
        return NOTHING if text == message else b'{"msg": %b}\n' % quoted(text, is_ascii=record.isascii())

    def _note(self, place: str, why: str) -> None:
        if why not in self._noted and len(self._noted) < MAX_NOTES:
            self._noted.add(why)
            self._write_note(f"{place}: {why}")


def _message(record: bytes) -> bytes:
    value = parsed_json(record, MOST_VALUES)
    message = value.get("msg") if isinstance(value, dict) else None
    if not isinstance(message, str):
        raise ArchiveError(expected='an object with the text "msg"', found="something else")
    return message.encode("utf-8", "surrogatepass")
