"""The words in the first line of each kind of failure, and the forms in which logs have them.

Almost no line of a log has any, so each line is searched for them first. Whatever asks where a failure may
begin asks for the patterns that are made here of the rows: a row for each kind, or two.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

URL_BLANK = rb"(?:%(?:25)*20|\+)"
BLANK = rb"(?: |%(?:25)*20|\+)"
"""A blank, also in a URL, whose escapes may be escaped again."""
COMMA, COLON, OPENING, CLOSING = (rb"%%(?:25)*%b" % code for code in (b"2C", b"3A", b"28", b"29"))


def begun(text: bytes) -> tuple[bytes, ...]:
    """A text as it is, and its beginning in a URL, blanks in any form."""
    first, then = text.split(b" ")[:2]
    return text, first + b"%2", first + b"+" + then[:1]


class Mark(NamedTuple):
    """Words in the first line of a kind of failure.

    Attributes:
        printed: a line has one of these.
        words: a line has one of these in any form. The longer a word is, the less time a search takes.
        sought: what blocks of lines are searched for: rare, and of seven bytes or more; or ``words``.
        in_url: what URLs are searched for, blanks in any form; b"" for nothing.
        listed: what lists of numbers are searched for.
        pattern: what a line may have in place of ``printed``: a number stands before or between the words.
        in_pattern: the literals of which each match of the pattern has one.
        noted: matches a line that is noted though its form is unknown, with blanks as in ``printed``.
        end: the end of a line as printed, if more lines of the failure follow.
    """

    printed: tuple[bytes, ...]
    words: tuple[bytes, ...]
    sought: tuple[bytes, ...] = ()
    in_url: bytes = b""
    listed: bytes = b""
    pattern: bytes = b""
    in_pattern: tuple[bytes, ...] = ()
    noted: bytes = b""
    end: bytes = b""

    def is_in(self, text: bytes) -> bool:
        """Whether such a failure may begin in a text, in any form."""
        return any(word in text for word in self.words)


HANDLES = Mark(
    (b"Debug info for handle",),
    (b"Debug",),
    begun(b"Debug info for handle"),
    in_url=b"Debug info for handle",
    listed=b"Debug info for handle",
    # PyTorch 1.9 and 1.10 print single handles without "debug_handles".
    noted=rb"debug_handles(?::|%b)|Debug info for handle(?:,|%b|(?:\(|%b)s(?:\)|%b)(?::|%b)) -?[0-9]"
    % (COLON, COMMA, OPENING, CLOSING, COLON),
    end=rb"not found\.",
)
TRACEBACK = Mark(
    (b"Traceback of TorchScript",),
    (b"TorchScript",),
    in_url=b"Traceback of TorchScript",
    listed=b"Traceback of TorchScript (",  # not of the original code
    noted=rb"Traceback of TorchScript(?!,|%b)" % COMMA,  # with a comma, of the original code
    end=rb"\(most recent call last\):",
)
NODE = Mark(
    (b"While executing %",),
    (b"executing",),
    begun(b"While executing %"),
    in_url=b"While executing ",
    listed=b"While executing %",
    # A call of a module is no node of a program: the node that failed in the module has a line of its own.
    noted=rb"While executing %(?!\w{1,256} : [^=\n]{0,64}\[num_users=[0-9]{1,9}\] = call_module\[)",
)
IN_GENERATED = rb"[Ff]ile[^/.\n]{1,40}eval_with_key"
"""A frame of generated code, however the quote and the bracket are written."""
COLOURED = rb"(?:(?:\x1b|\\{1,8}(?:u00|x)1[bB])\[[0-9;]{0,12}m){0,4}"
NAMED_PLACE = (
    rb"eval_with_key[^\s\w.]{1,12}(?:\w{1,5}[^\s\w.]{0,8})?\.[0-9]{1,9}"
    rb"(?: from [^\n]{1,400}?)?" + COLOURED + rb":[0-9]{1,9}[:,](?! \w*Warning\b)"
)
"""The same without ``File``, as pytest and IPython have it; a warning is no failure."""
FRAME = Mark(
    (b'm"<eval_with_key>', b'm\\"<eval_with_key>'),  # in colour
    (b"eval_with_key",),
    listed=b'  File "<eval_with_key>',
    pattern=IN_GENERATED + b"|" + NAMED_PLACE,
    in_pattern=(b"eval_with_key",),
    noted=IN_GENERATED + rb".{1,200}?line.{1,6}[0-9]|" + NAMED_PLACE,
)
KERNEL = Mark((b"cpp_", b"aoti_torch_"), (b"aoti_torch_", b"cpp_"))
INSTRUCTION = Mark(
    (b"KernelCall failed at instruction", b"CALL_DELEGATE execute failed at instruction"),
    (b"failed at instruction",),
)
REFUSALS = (
    b" input tensor's scalartype does not meet requirement",
    b"Error resizing tensor at input ",
    b"Invalid number of inputs provided. Expected ",
    b") must be less than the number of inputs in method (",
    b"No method named '",
)
NUMBERED_REFUSALS = (
    b" has unexpected scalar type: expected ",
    b" has not been set.",
    b" was expected to have type ",
)
"""The same after the input's number."""
INPUT = Mark(
    REFUSALS,
    (*REFUSALS, *NUMBERED_REFUSALS),
    pattern=rb"Input [0-9]{1,6}(?:%b)" % b"|".join(map(re.escape, NUMBERED_REFUSALS)),
    in_pattern=NUMBERED_REFUSALS,
)
GUARD = Mark((b"Guard failed: ",), (b"Guard failed: ",))
PLACED = Mark((b"Expected input at ",), (b"Expected input at ",))
SLASHES = (b"/", *(b"\\" * (1 << doubled) for doubled in range(4)))
"""What is between the parts of a path: a backslash is doubled in JSON, and again in JSON's strings."""
LITE_CALLS = tuple(b"mobile%b__init__.py" % slash for slash in SLASHES)
SLASH = rb"(?:/|\\{8}|\\{4}|\\{1,2})"
LITE_CALL = Mark(
    (b'jit/mobile/__init__.py", line ',),  # after the path's own quotes, which hold no failure
    LITE_CALLS,
    pattern=b"jit%bmobile%b" % (SLASH, SLASH) + rb'__init__\.py\\*", line ',
    in_pattern=LITE_CALLS,
)
"""A frame that calls a lite model."""
MARKS = (HANDLES, TRACEBACK, NODE, FRAME, KERNEL, INSTRUCTION, INPUT, GUARD, PLACED, LITE_CALL)

# --- what is made of the rows

URL_TEXTS = tuple(mark.in_url for mark in MARKS if mark.in_url)


def as_numbers(text: bytes) -> tuple[bytes, ...]:
    """A text as lists of numbers."""
    return tuple(separator.join(b"%d" % byte for byte in text) for separator in (b",", b", "))


LISTED = tuple(text for mark in MARKS if mark.listed for text in as_numbers(mark.listed))
IN_NUMBERS = re.compile(b"|".join(LISTED))
"""The words as a list of numbers, as journald writes a text with control characters."""
IN_URL = re.compile(b"|".join(text.replace(b" ", URL_BLANK) for text in URL_TEXTS))
AS_TEXT = re.compile(
    b"|".join((*(text.replace(b" ", BLANK) for text in URL_TEXTS), *FRAME.words, LITE_CALL.pattern))
)
"""Begins a failure whose lines may stand in one string, also in a URL."""
NOTED = re.compile(b"|".join((*(mark.noted.replace(b" ", BLANK) for mark in MARKS if mark.noted), *LISTED)))
"""A line that is noted if no form is known in which it could be explained."""
ENDS = b"(?:%b)" % b"|".join(mark.end for mark in MARKS if mark.end)
PRINTED = tuple(text for mark in MARKS for text in mark.printed)
LISTED_BLANKS = (b",32,", b", 32, ")
"""A blank in a list of numbers: each text that is looked for there has one."""
WORDS = tuple(word for mark in MARKS for word in mark.words) + LISTED_BLANKS


class OtherWords(NamedTuple):
    """How a failure's first line may have its words other than as printed.

    Attributes:
        literals: each match has one of these, which are found ten times as fast.
    """

    literals: tuple[bytes, ...]
    pattern: re.Pattern[bytes]


def _other_words(mark: Mark) -> Iterator[OtherWords]:
    if mark.in_url:
        word = mark.in_url.partition(b" ")[0]
        yield OtherWords((word + b"%", word + b"+"), re.compile(mark.in_url.replace(b" ", URL_BLANK)))
    if mark.listed:
        texts = as_numbers(mark.listed)
        yield OtherWords(texts, re.compile(b"|".join(texts)))
    if mark.pattern:
        yield OtherWords(mark.in_pattern, re.compile(mark.pattern))


OTHER_WORDS = tuple(tuple(_other_words(mark)) for mark in MARKS)
"""Those of each mark."""


def begins(text: bytes, number: int) -> bool:
    """Whether a failure with the mark of a number may begin in a text, in any form that logs have."""
    for printed in MARKS[number].printed:
        if printed in text:
            return True
    for way in OTHER_WORDS[number]:
        for literal in way.literals:
            if literal in text and way.pattern.search(text):
                return True
    return False
