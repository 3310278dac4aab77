"""Forms of logs that languages and documents have: each is read again as its own rules say, or not at all."""

from __future__ import annotations

import csv
import html
import io
import json
import re
import tomllib
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

from tests.failures.log_forms import FORMS, LogForm, document, lined, of_entities, record

if TYPE_CHECKING:
    from collections.abc import Callable

ESC = "\x1b"
FAR = 150
"""Lines between what opens a text and a failure in it, and between that and what closes it."""
GO = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v"}


def go(text: str, *, is_ascii: bool = False) -> str:
    """``strconv.Quote`` and ``QuoteToASCII``."""

    def one(character: str) -> str:
        number = ord(character)
        if character in '\\"':
            return "\\" + character
        if character in GO:
            return GO[character]
        if number < 32 or number == 127:
            return f"\\x{number:02x}"
        if not is_ascii or number < 127:
            return character
        return f"\\u{number:04x}" if number < 1 << 16 else f"\\U{number:08x}"

    return '"' + "".join(map(one, text)) + '"'


GO_ESCAPE = re.compile(r'\\(?:x(\w\w)|u(\w{4})|U(\w{8})|([abfnrtv\\"]))|(\\)')


def of_go(literal: str) -> str:
    """``strconv.Unquote``: surrogates are no characters of Go's."""
    letters = {escape[1]: character for character, escape in GO.items()}

    def meant(match: re.Match[str]) -> str:
        byte, short, long, letter, other = match.groups()
        assert other is None, match.string[match.start() : match.start() + 8]
        if letter:
            return letters.get(letter, letter)
        number = int(byte or short or long, 16)
        assert not 0xD800 <= number < 0xE000
        return chr(number)

    assert literal[0] == literal[-1] == '"'
    return GO_ESCAPE.sub(meant, literal[1:-1])


RUST = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\0": "\\0", "\\": "\\\\", '"': '\\"'}


def rust(text: str) -> str:
    """``format!("{:?}")``."""
    return (
        '"' + "".join(RUST.get(one) or (one if one >= " " else f"\\u{{{ord(one):x}}}") for one in text) + '"'
    )


def of_rust(literal: str) -> str:
    letters = {escape[1]: character for character, escape in RUST.items()}

    def meant(match: re.Match[str]) -> str:
        number, letter = match.groups()
        return chr(int(number, 16)) if number else letters[letter]

    return re.sub(r"\\(?:u\{(\w+)\}|(.))", meant, literal[1:-1])


def between(head: str, tail: str, write: Callable[[str], str], read: Callable[[str], str]) -> LogForm:
    """A document with a text between a head and a tail."""
    return document(
        lambda text: head + write(text) + tail,
        lambda log: read(log.removeprefix(head).removesuffix(tail)),
    )


def undoubled(mark: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        assert mark not in text.replace(mark * 2, ""), text
        return text.replace(mark * 2, mark)

    return read


def sql(head: str, tail: str) -> LogForm:
    return between(head, tail, lambda text: text.replace("'", "''"), undoubled("'"))


ROW = "INSERT INTO logs VALUES (1,'"


def mysql(text: str) -> str:
    for one, escape in (("\\", "\\\\"), ("'", "\\'"), ('"', '\\"'), ("\n", "\\n")):
        text = text.replace(one, escape)
    return text


def of_mysql(text: str) -> str:
    assert not re.search(r"(?<!\\)(?:\\\\)*'", text), text
    return re.sub(r"\\(.)", lambda one: {"n": "\n"}.get(one[1], one[1]), text)


def toml(quotes: str, write: Callable[[str], str]) -> LogForm:
    return document(
        lambda text: f"[error]\nmessage = {quotes}\n{write(text)}\n{quotes}\nn = 7\n",
        lambda log: tomllib.loads(log)["error"]["message"].removesuffix("\n"),
    )


def slashed(text: str) -> str:
    return text.replace("\\", "\\\\")


def far_csv(text: str) -> str:
    return 'n,m\n1,"' + "above\n" * FAR + text.replace('"', '""') + "\nbelow" * FAR + '"\n'


def of_far_csv(log: str) -> str:
    _, (_, cell) = csv.reader(io.StringIO(log, newline=""))
    return cell.removeprefix("above\n" * FAR).removesuffix("\nbelow" * FAR)


def html_lines(text: str) -> str:
    return html.escape(text, quote=False)


def cdata(text: str) -> str:
    return text.replace("]]>", "]]]]><![CDATA[>")


DOCUMENTS: dict[str, LogForm] = {
    "go": record(lambda text: f"failed: {go(text)}", lambda line: of_go(line[8:])),
    "go, in ascii": record(lambda text: f"failed: {go(text, is_ascii=True)}", lambda line: of_go(line[8:])),
    "go, in colour": record(
        lambda text: f"failed: {go(ESC + '[31m' + text)}",
        lambda line: of_go(line[8:]).removeprefix(ESC + "[31m"),
    ),
    "rust": record(
        lambda text: f"ERROR app: error={rust(text)} n=1",
        lambda line: of_rust(line[17:].removesuffix(" n=1")),
    ),
    "rust, in colour": record(
        lambda text: f"ERROR app: error={rust(ESC + '[31m' + text)}",
        lambda line: of_rust(line[17:]).removeprefix(ESC + "[31m"),
    ),
    "sql": sql("INSERT INTO logs (n, text) VALUES (1, '", "');\n"),
    "sql, rows": sql("INSERT INTO logs VALUES\n(1, 'it''s', 'a'),\n(2, '", "', 7);\n"),
    "mysqldump": record(
        lambda text: f"{ROW}{mysql(text)}',7);", lambda line: of_mysql(line.removeprefix(ROW)[:-5])
    ),
    "toml": toml('"""', slashed),
    "toml, all quotes escaped": toml('"""', lambda text: slashed(text).replace('"', '\\"')),
    "toml, one line": record(
        lambda text: f"message = {json.dumps(text)}", lambda line: tomllib.loads(line)["message"]
    ),
    "toml, literal": toml("'''", str),
    "cat -n": lined(lambda at, text: f"{at + 95:6}\t{text}", lambda line: line.split("\t", 1)[1]),
    "grep -n": lined(lambda at, text: f"{at + 5}:{text}", lambda line: line.split(":", 1)[1]),
    "cdata": document(
        lambda text: f"<case><failure><![CDATA[\n{cdata(text)}\n]]></failure></case>\n",
        lambda log: (ET.fromstring(log).findtext("failure") or "").strip("\n"),  # noqa: S314 (written here)
    ),
    "csv, semicolons": between('1;"', '";7\n', lambda text: text.replace('"', '""'), undoubled('"')),
    "csv, far": document(far_csv, of_far_csv),
    "html, far": between(
        "<html><body><pre>\n" + "above\n" * FAR, "\nbelow" * FAR + "\n</pre>\n", html_lines, of_entities
    ),
    "html, still written": between("<html><body><pre class=log>\n", "\n", html_lines, of_entities),
    "html table": between("<table>\n<tr><td>1</td><td>", "</td></tr>\n</table>\n", html.escape, of_entities),
}
"""Further forms, of which not all keep every text."""
ALL_FORMS = {**FORMS, **DOCUMENTS}
