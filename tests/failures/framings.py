"""What loggers put around each line of a process: Docker, Kubernetes, systemd, syslog and Android."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

SECOND = 10**9


def rfc3339(at: int) -> str:
    """A time as Go prints it: without zeros at its end (``time.RFC3339Nano``)."""
    fraction = f".{at % SECOND:09}".rstrip("0").rstrip(".")
    return f"2026-03-01T{clock(at)}{fraction}Z"


def clock(at: int) -> str:
    """Hours, minutes and seconds."""
    return f"10:{at // (60 * SECOND) % 60:02}:{at // SECOND % 60:02}"


def docker(process: int, at: int, text: str) -> str:
    """A line of ``…-json.log``, as the driver ``json-file`` writes it. Go escapes <, > and &."""
    record = {"log": f"{text}\n", "stream": "stderr", "attrs": {"tag": f"web-{process}"}, "time": rfc3339(at)}
    line = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
    return line.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def cri(process: int, at: int, text: str) -> str:
    """A line of ``/var/log/pods``, with the pod's name before it."""
    return f"pod-{process} {rfc3339(at)} stderr F {text}"


def compose(process: int, _: int, text: str) -> str:
    """``docker compose logs``; blanks at a line's end are cut off."""
    return f"web-{process}  | {text}".rstrip()


def journal(process: int, at: int, text: str) -> str:
    """``journalctl``, and syslog of RFC 3164."""
    return f"Mar  1 {clock(at)} host python3[{4000 + process}]: {text}"


def syslog(process: int, at: int, text: str) -> str:
    """Syslog of RFC 5424."""
    return f"<11>1 {rfc3339(at)} host python3 {4000 + process} - - {text}"


def journal_json(process: int, at: int, text: str) -> str:
    """``journalctl -o json``."""
    record = {
        "__CURSOR": f"s={7:032x};i={at // 999:x};b={8:032x};m={at:x};t={at:x};x={at * 7:x}",
        "__REALTIME_TIMESTAMP": str(1_772_359_200_000_000 + at // 1000),
        "__MONOTONIC_TIMESTAMP": str(5_000_000 + at // 1000),
        "__SEQNUM": str(at // 777),
        "_PID": str(4000 + process),
        "MESSAGE": text,
        "PRIORITY": "3",
    }
    return json.dumps(record)


def logcat(process: int, at: int, text: str) -> str:
    """``adb logcat -v threadtime``."""
    return f"03-01 {clock(at)}.{at // 10**6 % 1000:03}  {4000 + process}  {4100 + process} E pytorch : {text}"


def numbered(_: int, at: int, text: str) -> str:
    """A logger that numbers lines."""
    return f"[{at // 1000}] E: {text}"


def coloured(process: int, at: int, text: str) -> str:
    """A logger that writes colours."""
    return f"\x1b[31m{clock(at)} ERROR\x1b[0m [worker-{process}] {text}"


def nested(process: int, at: int, text: str) -> str:
    """A logger of JSON in a container."""
    return docker(process, at, json.dumps({"level": "error", "message": text, "at": 1.7e9 + at / SECOND}))


def prefixed(pattern: str) -> Callable[[str], tuple[int, str]]:
    """What takes a line with a prefix apart."""

    def parsed(line: str) -> tuple[int, str]:
        found = re.fullmatch(f"(?:{pattern})(?: (?P<text>.*))?", line, re.DOTALL)
        assert found is not None, line
        return int(found.groupdict().get("process") or 0) % 100, found["text"] or ""

    return parsed


def of_docker(line: str) -> tuple[int, str]:
    record = json.loads(line)
    return int(record["attrs"]["tag"].removeprefix("web-")), record["log"].removesuffix("\n")


def of_nested(line: str) -> tuple[int, str]:
    process, text = of_docker(line)
    return process, json.loads(text)["message"]


def of_journal_json(line: str) -> tuple[int, str]:
    record = json.loads(line)
    return int(record["_PID"]) % 100, record["MESSAGE"]


@dataclass(frozen=True, slots=True)
class Framing:
    """The form of a log's lines, without their line ends.

    Attributes:
        line: number of the process, nanoseconds, text → line.
        parsed: a line → number of the process, text.
        is_mixed: whether lines of several processes that stand between one another can be told apart.
    """

    line: Callable[[int, int, str], str]
    parsed: Callable[[str], tuple[int, str]]
    is_mixed: bool = True


PROCESS = r"(?P<process>\d+)"
FRAMINGS = {
    "docker": Framing(docker, of_docker),
    "cri": Framing(cri, prefixed(rf"pod-{PROCESS} \S+ stderr F")),
    "compose": Framing(compose, prefixed(rf"web-{PROCESS}  \|")),
    "journal": Framing(journal, prefixed(rf"Mar  1 \S+ host python3\[{PROCESS}\]:")),
    "syslog": Framing(syslog, prefixed(rf"<11>1 \S+ host python3 {PROCESS} - -")),
    "logcat": Framing(logcat, prefixed(rf"03-01 \S+  {PROCESS}  \d+ E pytorch :")),
    "coloured": Framing(coloured, prefixed(rf"\S+ ERROR\S+ \[worker-{PROCESS}\]")),
    "nested": Framing(nested, of_nested),
    "journal_json": Framing(journal_json, of_journal_json),
    "numbered": Framing(numbered, prefixed(r"\[\d+\] E:"), is_mixed=False),
}
