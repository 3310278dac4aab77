"""The words that the first line of a failure has, which every line of a log is searched for.

Almost no line of a log has them; what has none of them is quiet, and passes.
"""

from __future__ import annotations

import re

from archive.failures.encodings import numbers_of

HANDLES = (b"Debug info for handle",)
TRACEBACK = (b"Traceback of TorchScript",)
NODE = (b"While executing %",)
EVAL_FRAME = (
    b'File "<eval_with_key>',
    b'File \\"<eval_with_key>',  # in a string of JSON
    b'm"<eval_with_key>',  # in colour
    b'm\\"<eval_with_key>',
)
KERNEL = (b" API call failed at ", b"Exception raised from cpp_", b"_cpp_")
INSTRUCTION = (b"KernelCall failed at instruction", b"CALL_DELEGATE execute failed at instruction")
MARKS = (*HANDLES, *TRACEBACK, *NODE, *EVAL_FRAME, *KERNEL, *INSTRUCTION)
"""The first line of a failure has one of these, of its kind."""

BLANK = rb"(?: |%(?:25)*20|\+)"
URL_MARK = re.compile(rb"(?:Traceback(?:%(?:25)*20|\+)of|Debug(?:%(?:25)*20|\+)info)(?:%(?:25)*20|\+)")
NUMBER_MARK = re.compile(
    b"|".join(numbers_of(text).pattern for text in (b"Traceback of TorchScript (", b"Debug info for handle"))
)


def has_failure(text: bytes) -> bool:
    """Whether there may be a failure in a text."""
    return any(mark in text for mark in MARKS) or has_encoded(text)


def has_encoded(line: bytes) -> bool:
    """Whether a failure may stand in a line in such an encoding that its words are no words there."""
    return URL_MARK.search(line) is not None or NUMBER_MARK.search(line) is not None
