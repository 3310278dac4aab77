"""The strings of a line in which a failure is explained mean the explained text to whoever reads them."""

from __future__ import annotations

import ast
import json
import re
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from archive.failures.log.strings import explained_strings
from tests.support.strategies import patient

if TYPE_CHECKING:
    from collections.abc import Callable

FAILURE = "shape '[7]' is invalid\n  \n  Debug info for handle(s): debug_handles:{7}, was not found."
FRAMED = 'Traceback of TorchScript (most recent call last):\n  File "code/__torch__.py", line 3, in forward\n'
SOURCE = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]) | st.sampled_from("\t'\"\\"))
"""A line of a model's source."""


class Literal(NamedTuple):
    """A form of strings in a line.

    Attributes:
        written: text → line.
        read: line → text.
    """

    written: Callable[[str], str]
    read: Callable[[str], str]


def attribute(text: str) -> str:
    return ET.tostring(ET.Element("failure", message=text, n="1"), encoding="unicode")


def of_attribute(line: str) -> str:
    return ET.fromstring(line).attrib["message"]  # noqa: S314 (written here)


def nginx(text: str) -> str:
    return "".join(
        one if 31 < ord(one) < 127 and one not in '"\\' else "".join(f"\\x{n:02X}" for n in one.encode())
        for one in text
    )


LITERALS = {
    "repr": Literal(lambda text: f"failed: {text!r} (3)", lambda line: ast.literal_eval(line[8:-4])),
    "ascii": Literal(ascii, ast.literal_eval),
    "bytes": Literal(
        lambda text: f"body={text.encode()!r}", lambda line: ast.literal_eval(line[5:]).decode()
    ),
    "list": Literal(
        lambda text: repr(text.split("\n")), lambda line: "\n".join(map(str, ast.literal_eval(line)))
    ),
    "JSON": Literal(lambda text: json.dumps({"m": text}), lambda line: json.loads(line)["m"]),
    "attribute": Literal(attribute, of_attribute),
    "nginx": Literal(
        nginx,
        lambda line: re.sub(rb"\\x(..)", lambda one: bytes([int(one[1], 16)]), line.encode()).decode(),
    ),
}


@patient
@example(FAILURE, '\ty = "😀"  # ü')
@given(st.sampled_from([FAILURE, FRAMED]), SOURCE)
@pytest.mark.parametrize("literal", LITERALS.values(), ids=LITERALS)
def test_a_string_is_read_as_the_explained_text(literal: Literal, failure: str, source: str) -> None:
    explained = f"{failure}\n{source}\n"
    line = explained_strings(
        literal.written(failure).encode(),
        lambda text, *_: explained.encode() if failure.encode() in text else text,
    )
    assert line is not None
    assert literal.read(line.decode()) == explained


QUOTING = FRAMED + f'    said = "{FAILURE.rpartition("  ")[2]}"'
"""A traceback whose code has a failure in a string."""
INLINE = {
    "rsyslog": lambda text: text.replace("\n", "#012"),
    "GitHub": lambda text: "::error::" + text.replace("\n", "%0A"),
    "repr": repr,
    "carriage returns": lambda text: text.replace("\n", "\r"),
}


@pytest.mark.parametrize("written", INLINE.values(), ids=INLINE)
def test_strings_within_a_failure_are_no_failures_of_their_own(written: Callable[[str], str]) -> None:
    given = list[bytes]()

    def explain(text: bytes, *_: bytes) -> bytes:
        given.append(text)
        return text

    line = written(f"ERROR {QUOTING}").encode()
    assert explained_strings(line, explain) == line
    assert [text[text.index(b"ERROR ") + 6 :] for text in given] == [QUOTING.encode()]
    quoted = json.dumps({"m": written(QUOTING)}).encode()
    given.clear()
    assert explained_strings(quoted, explain) == quoted
    assert given == [written(QUOTING).encode()]
