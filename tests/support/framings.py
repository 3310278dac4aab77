"""What loggers put around each line of a process: the forms of Docker, Kubernetes, systemd, syslog and Android."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Framing:
    """The form of a log's lines.

    Attributes:
        frame: number of the process, nanoseconds, a line's text without line end → the line with its line end.
        is_mixed: whether lines of different processes can be told apart.
    """

    frame: Callable[[int, int, str], str]
    is_mixed: bool = True


def rfc3339(nanoseconds: int) -> str:
    """A time as Go prints it: without zeros at its end (``time.RFC3339Nano``)."""
    seconds, rest = divmod(nanoseconds, 10**9)
    fraction = f".{rest:09}".rstrip("0").rstrip(".")
    return f"2026-03-01T10:{seconds // 60 % 60:02}:{seconds % 60:02}{fraction}Z"


def clock(nanoseconds: int) -> str:
    """Hours, minutes and seconds."""
    return f"10:{nanoseconds // 60_000_000_000 % 60:02}:{nanoseconds // 10**9 % 60:02}"


def docker(process: int, at: int, text: str) -> str:
    """A line of ``…-json.log``, as the driver ``json-file`` writes it with ``--log-opt tag``: Go escapes <, > and &."""
    record = {"log": f"{text}\n", "stream": "stderr", "attrs": {"tag": f"web-{process}"}, "time": rfc3339(at)}
    line = json.dumps(record, ensure_ascii=False, separators=(",", ":"))
    return line.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026") + "\n"


def cri(process: int, at: int, text: str) -> str:
    """A line of ``/var/log/pods``, with the pod's name before it as ``stern`` writes it."""
    return f"pod-{process} {rfc3339(at)} stderr F {text}\n"


def compose(process: int, _: int, text: str) -> str:
    """``docker compose logs``; blanks at a line's end are cut off."""
    return f"web-{process}  | {text}".rstrip() + "\n"


def journal(process: int, at: int, text: str) -> str:
    """``journalctl``, and syslog of RFC 3164."""
    return f"Mar  1 {clock(at)} host python3[{4000 + process}]: {text}\n"


def syslog(process: int, at: int, text: str) -> str:
    """Syslog of RFC 5424."""
    return f"<11>1 {rfc3339(at)} host python3 {4000 + process} - - {text}\n"


def journal_json(process: int, at: int, text: str) -> str:
    """``journalctl -o json``: several places differ from line to line, and one process alone can be told."""
    record = {
        "__CURSOR": f"s={7:032x};i={at // 999:x};b={8:032x};m={at:x};t={at:x};x={at * 7:x}",
        "__REALTIME_TIMESTAMP": str(1_772_359_200_000_000 + at // 1000),
        "__MONOTONIC_TIMESTAMP": str(5_000_000 + at // 1000),
        "_PID": str(4000 + process),
        "MESSAGE": text,
        "PRIORITY": "3",
    }
    return json.dumps(record) + "\n"


def logcat(process: int, at: int, text: str) -> str:
    """``adb logcat -v threadtime``."""
    return f"03-01 {clock(at)}.{at // 10**6 % 1000:03}  {4000 + process}  {4100 + process} E pytorch : {text}\n"


def numbered(_: int, at: int, text: str) -> str:
    """A logger that numbers lines."""
    return f"[{at // 1000}] E: {text}\n"


def coloured(process: int, at: int, text: str) -> str:
    """A logger that writes colours."""
    return f"\x1b[31m{clock(at)} ERROR\x1b[0m [worker-{process}] {text}\n"


def nested(process: int, at: int, text: str) -> str:
    """A logger of JSON in a container."""
    return docker(process, at, json.dumps({"level": "error", "message": text, "at": at / 1e9 + 1.7e9}))


FRAMINGS = {
    one.__name__: Framing(one, one not in {journal_json, numbered})
    for one in (docker, cri, compose, journal, syslog, journal_json, logcat, numbered, coloured, nested)
}
