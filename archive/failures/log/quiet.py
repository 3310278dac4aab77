"""Text of a log in which no failure can begin: almost all of it. It passes unread.

A failure's first line has one of a few words, its *mark*, as it is or in an encoding that changes it.
"""

from __future__ import annotations

import re

INPUTS = (
    b" input tensor's scalartype does not meet requirement",
    b"Error resizing tensor at input ",
    b"Invalid number of inputs provided. Expected ",
    b") must be less than the number of inputs in method (",
    b"No method named '",
)
"""An input or a method that ExecuTorch's runtime refuses."""
NUMBERED_INPUTS = (
    b" has unexpected scalar type: expected ",
    b" has not been set.",
    b" was expected to have type ",
)
"""The same after the input's number."""
MARKS = (
    # the lite interpreter, and TorchScript
    b"Debug info for handle",
    b"Traceback of TorchScript",
    # a node of torch.fx.Interpreter
    b"While executing %",
    # a frame of generated code, in colour; see also FRAME_MARK
    b'm"<eval_with_key>',
    b'm\\"<eval_with_key>',
    # a call or a kernel of AOTInductor
    b"cpp_",
    b"aoti_torch_",
    # an instruction of ExecuTorch's runtime
    b"KernelCall failed at instruction",
    b"CALL_DELEGATE execute failed at instruction",
    *INPUTS,
)
"""The first line of each kind of failure has one of these."""

BLANK = rb"(?: |%(?:25)*20|\+)"
"""A blank, also in a URL."""
URL_MARK = re.compile(
    rb"(?:Traceback%bof%bTorchScript|Debug%binfo%b|While%bexecuting%b)".replace(b"%b", rb"(?:%(?:25)*20|\+)")
)
FRAME_MARK = re.compile(rb"File[^/.\n]{1,40}eval_with_key")
"""A frame of generated code, however the quote and the bracket are written."""
NUMBERED = (
    *(b"Traceback of TorchScript (", b"Debug info for handle"),
    *(b"While executing %", b'  File "<eval_with_key>'),
)
LISTED = tuple(
    separator.join(b"%d" % byte for byte in text) for text in NUMBERED for separator in (b",", b", ")
)
NUMBER_MARK = re.compile(b"|".join(LISTED))
"""The same as a list of numbers, as journald writes a text with control characters."""
INPUT_MARK = re.compile(rb"Input [0-9]{1,6}(?:%b)" % b"|".join(map(re.escape, NUMBERED_INPUTS)))
"""An input that ExecuTorch refuses, by its number."""

BEGINNINGS = (
    *(b"Traceback%", b"Traceback+", b"Debug%", b"Debug+", b"While%", b"While+", b"eval_with_key"),
    *LISTED,
    *NUMBERED_INPUTS,
)
"""Every match of the patterns has one of these, which are found ten times as fast."""
WORDS = (
    *(
        b"TorchScript",
        b"Debug",
        b"While executing %",
        b"While%20executing",
        b"While+executing",
        b"eval_with_key",
    ),
    b"failed at instruction",
    *(b"aoti_torch_", b"cpp_"),
    *LISTED,
    *INPUTS,
    *NUMBERED_INPUTS,
)
"""Each mark has one of these, also in its encodings. Nearly all logs have none, and all are searched for each
of them: the longer a word is, the less time that takes."""


def is_quiet(lines: bytes) -> bool:
    """Whether no failure begins in whole lines, and a container runtime cut none of them."""
    return not may_be_cut(lines) and not has_failure(lines)


def may_be_cut(lines: bytes) -> bool:
    """Whether lines may have pieces that later ones continue, as a container runtime wrote them.

    Kubernetes' have ``P`` after stdout or stderr; Docker's have no line end in the text before that.
    """
    if b"std" not in lines:  # spares most logs the rest
        return False
    if b"stdout P" in lines or b"stderr P" in lines:
        return True
    ends = lines.count(b'","stream":')
    return ends > 0 and (ends != lines.count(b'\\n","stream":') or b'\\\\n","stream":' in lines)


def has_failure(text: bytes) -> bool:
    """Whether a failure may begin in a text."""
    for word in WORDS:  # any() takes twice as long on a line
        if word in text:
            return _has_mark(text)
    return False


def _has_mark(text: bytes) -> bool:
    for mark in MARKS:
        if mark in text:
            return True
    for beginning in BEGINNINGS:
        if beginning in text:
            return any(pattern.search(text) for pattern in (URL_MARK, FRAME_MARK, NUMBER_MARK, INPUT_MARK))
    return False
