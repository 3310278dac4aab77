"""The forms in which logs hold a process's lines: each is written, and read again by other means than ours.

A form is a pair: texts of lines → the bytes of a log, and back. ``framings`` has those in which several
processes may write at once.
"""

from __future__ import annotations

import ast
import csv
import html
import io
import json
import re
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import quote, quote_plus, unquote, unquote_plus

from tests.failures.framings import FRAMINGS, Framing, clock, rfc3339

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ESC = "\x1b"
WIDTH = 200
"""Columns of a panel, wide enough for any line."""
BEFORE, BEHIND = "starting", "going on"


@dataclass(frozen=True, slots=True)
class LogForm:
    """A form of logs.

    Attributes:
        written: texts of lines → log.
        read: log → texts of lines.
        is_record: whether all texts become one line.
    """

    written: Callable[[Sequence[str]], bytes]
    read: Callable[[bytes], list[str]]
    is_record: bool = False


def lined(line: Callable[[int, str], str], text: Callable[[str], str | None], end: str = "\n") -> LogForm:
    """A form with a line for each text.

    Args:
        line: number and text → line.
        text: line → text; None for a line of the container's own.
        end: of each line.
    """

    def written(texts: Sequence[str]) -> bytes:
        return "".join(f"{line(at, one)}{end}" for at, one in enumerate(texts)).encode()

    def read(log: bytes) -> list[str]:
        lines = log.decode().removesuffix(end).split(end)
        return [found for one in lines if (found := text(one)) is not None]

    return LogForm(written, read)


def prefixed(prefix: Callable[[int], str], pattern: str, tail: str = "") -> LogForm:
    """A form with a prefix before each line, and a tail behind it."""

    def text(line: str) -> str:
        found = re.fullmatch(f"(?:{pattern})(.*){re.escape(tail)}", line, re.DOTALL)
        assert found is not None, line
        return found[1]

    return lined(lambda at, one: f"{prefix(at)}{one}{tail}", text)


def record(write: Callable[[str], str], read: Callable[[str], str]) -> LogForm:
    """A form with a line for all texts together, between lines of the same form.

    Args:
        write: texts, with newlines → line.
        read: line → texts.
    """

    def written(texts: Sequence[str]) -> bytes:
        lines = [BEFORE, "\n".join(texts), BEHIND]
        return "".join(write(one) + "\n" for one in lines).encode()

    def found(log: bytes) -> list[str]:
        lines = log.decode().removesuffix("\n").split("\n")
        texts = [read(one) for one in lines]
        assert texts[0] == BEFORE, texts[0]
        assert texts[-1] == BEHIND, texts[-1]
        return "\n".join(texts[1:-1]).split("\n")

    return LogForm(written, found, is_record=True)


def document(write: Callable[[str], str], read: Callable[[str], str]) -> LogForm:
    """A form that is a whole file around all texts together."""
    return LogForm(lambda texts: write("\n".join(texts)).encode(), lambda log: read(log.decode()).split("\n"))


def stamp(at: int) -> int:
    return (at + 9) * 5 * 1_234_500


def cut(prefix: Callable[[int], str]) -> LogForm:
    """Lines of a container runtime that splits long ones: of all but the last piece the tag is ``P``."""
    most = 40

    def written(texts: Sequence[str]) -> bytes:
        found = []
        for at, text in enumerate(texts):
            pieces = [text[start : start + most] for start in range(0, len(text), most)] or [""]
            found += [f"{prefix(at)} P {piece}\n" for piece in pieces[:-1]]
            found += [f"{prefix(at)} F {pieces[-1]}\n"]
        return "".join(found).encode()

    def read(log: bytes) -> list[str]:
        found, piece = list[str](), ""
        for line in log.decode().removesuffix("\n").split("\n"):
            parsed = re.fullmatch(r"\S+ stderr ([PF]) ?(.*)", line, re.DOTALL)
            assert parsed is not None, line
            piece += parsed[2]
            if parsed[1] == "F":
                found.append(piece)
                piece = ""
        return found

    return LogForm(written, read)


def go_quoted(text: str) -> str:
    """A text as Go's ``%q`` and logfmt quote it: other characters than ASCII stay."""
    return json.dumps(text, ensure_ascii=False)


def csv_row(*cells: str) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow(cells)
    return out.getvalue()


def junit(text: str) -> str:
    """An ``xunit`` report, whose failure has the text as its content."""
    case = ET.Element("testcase", name="test_net")
    ET.SubElement(case, "failure", message="failed").text = text
    return ET.tostring(case, encoding="unicode") + "\n"


def junit_attribute(text: str) -> str:
    case = ET.Element("testcase", name="test_net")
    ET.SubElement(case, "failure", message=text).text = "failed"
    return ET.tostring(case, encoding="unicode") + "\n"


def of_xml(log: str, *, attribute: bool) -> str:
    failure = ET.fromstring(log).find("failure")  # noqa: S314 (written here)
    assert failure is not None
    return failure.attrib["message"] if attribute else failure.text or ""


def in_html(text: str) -> str:
    """A page with a line of all texts."""
    return "<p>" + html.escape(text).replace("  ", "&nbsp; ").replace("\n", "<br>") + "</p>"


def of_html(line: str) -> str:
    inner = line.removeprefix("<p>").removesuffix("</p>")
    return of_entities(re.sub(r"<br ?/?>", "\n", inner)).replace("\xa0", " ")


def of_entities(text: str) -> str:
    assert "<" not in text, text
    return html.unescape(text)


def journal_export(texts: Sequence[str]) -> bytes:
    """``journalctl -o export``: a record of fields for each line."""
    return "".join(
        f"__CURSOR=s=1;i={at:x}\n__REALTIME_TIMESTAMP={1_772_359_200_000_000 + at}\n"
        f"PRIORITY=3\n_PID=4001\nMESSAGE={text}\n_HOSTNAME=host\n\n"
        for at, text in enumerate(texts)
    ).encode()


def of_journal_export(log: bytes) -> list[str]:
    return [line[8:] for line in log.decode().split("\n") if line.startswith("MESSAGE=")]


def panel(_: int, text: str) -> str:
    return f"│ {text:<{WIDTH}} │"


def of_panel(line: str) -> str:
    assert len(line) == WIDTH + 4, line
    return line.removeprefix("│ ").removesuffix(" │").rstrip()


def table(_: int, text: str) -> str:
    return f"| 10:00:00 | {text} |"


def byte_journal(_: int, text: str) -> str:
    """``journalctl -o json`` of a text that is no UTF-8, or has colours."""
    return json.dumps(
        {"__REALTIME_TIMESTAMP": "1772359200000000", "MESSAGE": list(text.encode()), "_PID": "41"}
    )


def yaml_block(text: str) -> str:
    return (
        "event:\n  message: |\n"
        + "".join(f"    {one}".rstrip(" ") + "\n" for one in text.split("\n"))
        + "  n: 1\n"
    )


def of_yaml_block(log: str) -> str:
    lines = log.removesuffix("  n: 1\n").removeprefix("event:\n  message: |\n").removesuffix("\n").split("\n")
    assert all(line.startswith("    ") or not line.strip() for line in lines), lines
    return "\n".join(line[4:] for line in lines)


def notebook(text: str) -> str:
    """A notebook's output of an error."""
    red = [f"{ESC}[31mRuntimeError{ESC}[39m                 Traceback", text]
    cell = {"output_type": "error", "ename": "RuntimeError", "evalue": "failed", "traceback": red}
    return json.dumps({"cells": [{"outputs": [cell]}]}, indent=1, ensure_ascii=False) + "\n"


def of_notebook(log: str) -> str:
    found: str = json.loads(log)["cells"][0]["outputs"][0]["traceback"][1]
    return found


def notebook_stream(text: str) -> str:
    lines = [f"{one}\n" for one in text.split("\n")]
    return json.dumps({"cells": [{"outputs": [{"name": "stderr", "text": lines}]}]}, indent=1) + "\n"


def of_notebook_stream(log: str) -> str:
    return "".join(json.loads(log)["cells"][0]["outputs"][0]["text"]).removesuffix("\n")


def sentry(text: str) -> str:
    value = {"type": "RuntimeError", "value": text, "stacktrace": {"frames": [{"lineno": 3}]}}
    return json.dumps({"event_id": "ab" * 16, "exception": {"values": [value]}})


def of_sentry(line: str) -> str:
    found: str = json.loads(line)["exception"]["values"][0]["value"]
    return found


def json_of(key: str, **others: object) -> LogForm:
    return record(lambda text: json.dumps({**others, key: text, "n": 1}), lambda line: json.loads(line)[key])


def first_prefixed(head: str, tail: str = "") -> LogForm:
    """Lines of which the first one alone has a prefix, and the last one is followed by others."""
    return LogForm(
        lambda texts: f"{head}{chr(10).join(texts)}\n{tail}".encode(),
        lambda log: log.decode().removeprefix(head).removesuffix(tail).removesuffix("\n").split("\n"),
    )


def tsv(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")
    return f"2026-03-01\t{escaped}\t7"


def of_tsv(line: str) -> str:
    field = line.split("\t")[1]
    return re.sub(r"\\(.)", lambda one: {"n": "\n", "t": "\t"}.get(one[1], one[1]), field)


def rsyslog(text: str) -> str:
    return "Mar  1 10:00:00 host app[41]: " + re.sub(r"[\n\t\x1b]", lambda one: f"#{ord(one[0]):03o}", text)


def of_rsyslog(line: str) -> str:
    return re.sub(r"#(\d{3})", lambda one: chr(int(one[1], 8)), line.partition("]: ")[2])


def annotated(text: str) -> str:
    data = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return f"::error file=app.py,line=1::{data}"


def of_annotated(line: str) -> str:
    data = line.split("::", 2)[2]
    return data.replace("%0A", "\n").replace("%0D", "\r").replace("%25", "%")


def in_bash(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"+ log $'{escaped}'"


def of_bash(line: str) -> str:
    return re.sub(
        r"\\(.)", lambda one: {"n": "\n"}.get(one[1], one[1]), line.removeprefix("+ log $'").removesuffix("'")
    )


def nginx(text: str) -> str:
    return "".join(
        one if 31 < ord(one) < 127 and one not in '"\\' else "".join(f"\\x{n:02X}" for n in one.encode())
        for one in text
    )


def of_nginx(line: str) -> str:
    return re.sub(rb"\\x(..)", lambda one: bytes([int(one[1], 16)]), line.encode()).decode()


def _framed(framing: Framing, at: int, text: str) -> str:
    return framing.line(1, stamp(at), text)


def _unframed(framing: Framing, line: str) -> str:
    return framing.parsed(line)[1]


def csv_field() -> LogForm:
    """A field of several lines, in quotes."""

    def written(texts: Sequence[str]) -> bytes:
        return "".join(csv_row("1", one, "7") + "\n" for one in (BEFORE, "\n".join(texts), BEHIND)).encode()

    def read(log: bytes) -> list[str]:
        rows = list(csv.reader(io.StringIO(log.decode(), newline="")))
        assert [row[1] for row in rows[::2]] == [BEFORE, BEHIND], rows
        assert all(len(row) == 3 for row in rows), rows
        return rows[1][1].split("\n")

    return LogForm(written, read)


FORMS: dict[str, LogForm] = {
    **{
        f"framed {name}": lined(partial(_framed, one), partial(_unframed, one))
        for name, one in FRAMINGS.items()
    },
    "plain": lined(lambda _, text: text, lambda line: line),
    "crlf": lined(lambda _, text: text, lambda line: line, "\r\n"),
    "utf-16": LogForm(
        lambda texts: (
            "\ufeff".encode("utf-16-le") + "".join(f"{one}\r\n" for one in texts).encode("utf-16-le")
        ),
        lambda log: log.decode("utf-16").removesuffix("\r\n").split("\r\n"),
    ),
    "cri in pieces": cut(lambda at: f"{rfc3339(stamp(at))} stderr"),
    "journal export": LogForm(journal_export, of_journal_export),
    "journal bytes": lined(byte_journal, lambda line: bytes(json.loads(line)["MESSAGE"]).decode()),
    "journal bytes, one record": record(
        lambda text: byte_journal(0, text), lambda line: bytes(json.loads(line)["MESSAGE"]).decode()
    ),
    "journal json, one record": json_of("MESSAGE", _PID="41"),
    "rsyslog #012": record(rsyslog, of_rsyslog),
    "csv field": csv_field(),
    "csv rows": lined(
        lambda at, text: f'{at},"{text.replace(chr(34), chr(34) * 2)}"',
        lambda line: next(csv.reader([line]))[1],
    ),
    "csv rows, quoted as needed": lined(
        lambda at, text: csv_row(rfc3339(stamp(at)), text), lambda line: next(csv.reader([line]))[1]
    ),
    "tsv": record(tsv, of_tsv),
    "junit text": document(junit, lambda log: of_xml(log, attribute=False)),
    "junit attribute": document(junit_attribute, lambda log: of_xml(log, attribute=True)),
    "junit cdata": document(
        lambda text: f"<testcase><failure><![CDATA[{text}]]></failure></testcase>\n",
        lambda log: of_xml(log, attribute=False),
    ),
    "github": prefixed(lambda at: f"{rfc3339(stamp(at))} ", r"\S+ "),
    "github error lines": prefixed(lambda at: f"{rfc3339(stamp(at))} ##[error]", r"\S+ ##\[error\]"),
    "github annotation": record(annotated, of_annotated),
    "gitlab": prefixed(lambda at: f"{rfc3339(stamp(at))} 01E ", r"\S+ 01E "),
    "lambda": record(lambda text: text.replace("\n", "\r"), lambda line: line.replace("\r", "\n")),
    "cloudwatch": record(
        lambda text: json.dumps({"timestamp": 1, "message": text.replace("\n", "\r") + "\r"}),
        lambda line: json.loads(line)["message"].removesuffix("\r").replace("\r", "\n"),
    ),
    "gelf": json_of("full_message", version="1.1", short_message="failed"),
    "ecs": record(
        lambda text: json.dumps({"error": {"stack_trace": text}}),
        lambda line: json.loads(line)["error"]["stack_trace"],
    ),
    "go json": record(
        lambda text: (
            json.dumps({"msg": text}, ensure_ascii=False).replace("<", "\\u003c").replace(">", "\\u003e")
        ),
        lambda line: json.loads(line)["msg"],
    ),
    "logfmt": record(
        lambda text: f"level=error msg={go_quoted(text)} n=7",
        lambda line: json.loads(line[16:].rpartition(" ")[0]),
    ),
    "json list": record(
        lambda text: json.dumps({"lines": text.split("\n"), "n": 1}),
        lambda line: "\n".join(json.loads(line)["lines"]),
    ),
    "json list, ended": record(
        lambda text: json.dumps({"lines": [f"{one}\n" for one in text.split("\n")]}, separators=(",", ":")),
        lambda line: "".join(json.loads(line)["lines"]).removesuffix("\n"),
    ),
    "json in json": record(
        lambda text: json.dumps({"log": json.dumps({"msg": text}) + "\n"}),
        lambda line: json.loads(json.loads(line)["log"])["msg"],
    ),
    "indented json list": document(
        lambda text: json.dumps({"lines": text.split("\n")}, indent=2, ensure_ascii=False) + "\n",
        lambda log: "\n".join(json.loads(log)["lines"]),
    ),
    "repr": record(repr, ast.literal_eval),
    "repr behind a prefix": record(
        lambda text: f"ERROR: failed: {text!r} (worker 3)", lambda line: ast.literal_eval(line[15:-11])
    ),
    "repr of an error": record(
        lambda text: f"RuntimeError({text!r})", lambda line: ast.literal_eval(line[13:-1])
    ),
    "repr of bytes": record(lambda text: repr(text.encode()), lambda line: ast.literal_eval(line).decode()),
    "repr of a list": record(
        lambda text: repr(text.split("\n")), lambda line: "\n".join(ast.literal_eval(line))
    ),
    "repr of a dict": record(
        lambda text: repr({"msg": text, "n": 1}), lambda line: ast.literal_eval(line)["msg"]
    ),
    "ascii": record(ascii, ast.literal_eval),
    "bash": record(in_bash, of_bash),
    "nginx": record(nginx, of_nginx),
    "url": record(
        lambda text: f"GET /log?m={quote(text)}&n=1 HTTP/1.1",
        lambda line: unquote(line[11:].partition("&")[0]),
    ),
    "form": record(
        lambda text: f"m={quote_plus(text)}&n=1", lambda line: unquote_plus(line[2:].partition("&")[0])
    ),
    "html lines": document(
        lambda text: f"<pre>\n{html.escape(text)}\n</pre>\n",
        lambda log: of_entities(log.removeprefix("<pre>\n").removesuffix("\n</pre>\n")),
    ),
    "html pre": document(
        lambda text: f"<pre>{html.escape(text, quote=False)}</pre>\n",
        lambda log: of_entities(log[5:].removesuffix("</pre>\n")),
    ),
    "html br": record(in_html, of_html),
    "html br lines": lined(
        lambda _, text: html.escape(text).replace("  ", "&nbsp;&nbsp;") + "<br/>",
        lambda line: of_entities(line.removesuffix("<br/>")).replace("\xa0", " "),
    ),
    "yaml block": document(yaml_block, of_yaml_block),
    "yaml quoted": record(lambda text: f"message: {go_quoted(text)}", lambda line: json.loads(line[9:])),
    "markdown quote": prefixed(lambda _: "> ", "> "),
    "markdown indented": prefixed(lambda _: "    ", "    "),
    "markdown fenced": document(
        lambda text: f"```\n{text}\n```\n", lambda log: log[4:].removesuffix("\n```\n")
    ),
    "markdown table": lined(table, lambda line: line.removeprefix("| 10:00:00 | ").removesuffix(" |")),
    "panel": lined(panel, of_panel),
    "ansi lines": prefixed(lambda _: f"{ESC}[31m", re.escape(f"{ESC}[31m"), f"{ESC}[0m"),
    "ansi behind a time": prefixed(
        lambda at: f"{clock(stamp(at))} {ESC}[1;31m", r"\S+ " + re.escape(f"{ESC}[1;31m"), f"{ESC}[0m"
    ),
    "tab": prefixed(lambda _: "\t", "\t"),
    "between tabs": prefixed(lambda at: f"{rfc3339(stamp(at))}\tERROR\t", r"\S+\tERROR\t"),
    "logcat brief": prefixed(lambda _: "E/pytorch ( 4001): ", r"E/pytorch \( 4001\): "),
    "xcode": prefixed(
        lambda at: f"2026-03-01 {clock(stamp(at))}.{at:03}000+0100 App[41:{900}] ", r"\S+ \S+ App\[41:900\] "
    ),
    "pytest": prefixed(lambda _: "E   ", "E   "),
    "notebook": document(notebook, of_notebook),
    "notebook stream": document(notebook_stream, of_notebook_stream),
    "sentry": record(sentry, of_sentry),
    "catalog": prefixed(lambda _: "-- ", "-- "),
    "kubectl --timestamps": prefixed(
        lambda at: f"[pod/a-7/app] {rfc3339(stamp(at))} ", r"\[pod/a-7/app\] \S+ "
    ),
    "klog": prefixed(
        lambda at: f"E0301 {clock(stamp(at))}.{at:06}       1 main.cc:42] ",
        r"E0301 \S+       1 main.cc:42\] ",
    ),
    "torchrun": prefixed(lambda _: "[rank0]: ", r"\[rank0\]: "),
    "comment": prefixed(lambda _: "# ", "# "),
    "exception group": prefixed(lambda _: "  | ", r"  \| "),
    "java": first_prefixed(
        "Caused by: com.facebook.jni.CppException: ",
        "\tat org.pytorch.NativePeer.forward(Native Method)\n\tat org.pytorch.Module.forward(Module.java)\n",
    ),
    "what()": first_prefixed(
        "terminate called after throwing an instance of 'torch::jit::JITException'\n  what():  ", "Aborted\n"
    ),
    "python log": first_prefixed("2026-03-01 10:00:00,123 ERROR app: "),
}
"""Every form."""
