"""Logs of ten kinds, as services, phones and machines write them: no failure of a model begins in them.

Each is made, from a seed, of lines as their writer prints them; numbers, names and times differ from line to
line. Kinds differ in what makes a search slow: quotes, long runs of digits, ids that look like those of
archives, escapes, colours, records of JSON. Their words are those of failures, as far as logs have them.
"""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

SEED = 42
WORDS = [
    *("accepted", "address", "broken", "cache", "client", "closed", "connection", "debug", "disk", "done"),
    *("executing", "expected", "failed", "handle", "host", "input", "job", "loaded", "message", "method"),
    *("model", "not", "number", "of", "queue", "read", "request", "retry", "service", "set", "size"),
    *("started", "state", "tensor", "thread", "timeout", "token", "type", "update", "user", "value", "with"),
]
PATHS = ("/", "/index.html", "/api/v1/users", "/api/v2/models/predict?size=large", "/static/app.js")
AGENTS = (
    "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0",
    "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko)",
    "curl/8.5.0",
    "kube-probe/1.29",
)
LEVELS = ("DEBUG", "INFO", "INFO", "INFO", "WARNING", "ERROR")
BOOT, MACHINE = "3d6ae93b1b2f4e0f8c2b4e1d9a7c5f10", "b08dfa6083e7567a1921a715000001fb"


class Maker:
    """Makes the lines of one log."""

    def __init__(self) -> None:
        self.random = random.Random(SEED)  # noqa: S311 (the same in each run)
        self._number = 0

    def words(self, least: int, most: int) -> str:
        """Some words."""
        return " ".join(self.random.choices(WORDS, k=self.random.randint(least, most)))

    def digits(self, count: int) -> str:
        """Hexadecimal digits."""
        return f"{self.random.getrandbits(4 * count):0{count}x}"

    def number(self, most: int) -> int:
        """A number below a bound."""
        return self.random.randrange(most)

    def clock(self) -> str:
        """The next time of day, with milliseconds."""
        self._number += self.number(40)
        seconds, milliseconds = divmod(self._number, 1000)
        return f"{seconds // 3600 % 24:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{milliseconds:03}"

    def pick(self, texts: Sequence[str]) -> str:
        """One of some texts."""
        return self.random.choice(texts)


def access(make: Maker) -> str:
    """A request, as nginx and Apache write it."""
    host = f"10.{make.number(256)}.{make.number(256)}.{make.number(256)}"
    when, size = make.clock()[:8], make.number(100_000)
    request = f'"GET {make.pick(PATHS)} HTTP/1.1" {make.pick(("200", "200", "304", "404", "500"))} {size}'
    return f'{host} - - [01/Mar/2026:{when} +0000] {request} "-" "{make.pick(AGENTS)}"\n'


def record(make: Maker) -> str:
    """A record of JSON, as structured loggers write it."""
    fields = {
        "time": f"2026-03-01T{make.clock()}Z",
        "level": make.pick(LEVELS).lower(),
        "logger": f"service.{make.pick(('api', 'queue', 'models'))}",
        "msg": make.words(3, 12),
        "trace_id": make.digits(32),
        "span_id": make.digits(16),
        "took_ms": make.number(10_000) / 10,
        "labels": {"host": f"node-{make.number(40)}", "status": make.number(600)},
    }
    return json.dumps(fields) + "\n"


def traceback(make: Maker) -> str:
    """A traceback of Python in code of others."""
    heading = f"2026-03-01 {make.clock()} ERROR {make.words(2, 6)}\nTraceback (most recent call last):\n"
    frames = '  File "/srv/app/main.py", line 12, in <module>\n    main()\n'
    for _ in range(3 + make.number(12)):
        file = f"/usr/lib/python3/dist-packages/{make.pick(('django', 'celery', 'kombu'))}/core.py"
        frames += f'  File "{file}", line {make.number(900)}, in {make.pick(("run", "handle_input"))}\n'
        frames += f"    return self.execute(value, name='{make.words(1, 1)}', size={make.number(99)})\n"
    return f"{heading}{frames}ValueError: {make.words(2, 9)}\n"


def logcat(make: Maker) -> str:
    """A line of Android's log."""
    head = f"03-01 {make.clock()} {make.number(9000):5} {make.number(9000):5} {make.pick('DIWE')}"
    tag = make.pick(("ActivityManager", "WifiService", "chatty", "libcamera", "SensorService"))
    where = f"ComponentInfo{{com.example.app/.Main{make.number(9)}}} 0x{make.digits(8)}"
    return f"{head} {tag}: {make.words(3, 10)} {where}\n"


def journal(make: Maker) -> str:
    """A record of journald, as ``journalctl -o json`` prints it."""
    cursor = f"s={make.digits(32)};i={make.digits(6)};b={BOOT};m={make.digits(10)};x={make.digits(16)}"
    fields = {
        "__CURSOR": cursor,
        "__REALTIME_TIMESTAMP": f"17723{make.number(10**11):011}",
        "_BOOT_ID": BOOT,
        "_MACHINE_ID": MACHINE,
        "_HOSTNAME": f"node-{make.number(40)}",
        "PRIORITY": str(make.number(8)),
        "_PID": str(make.number(60_000)),
        "_SYSTEMD_UNIT": f"worker@{make.number(20)}.service",
        "_SYSTEMD_INVOCATION_ID": make.digits(32),
        "_CMDLINE": f"/usr/bin/python3 -m worker --queue={make.number(9)}",
        "MESSAGE": make.words(3, 14),
    }
    return json.dumps(fields) + "\n"


def cri(make: Maker) -> str:
    """A record of JSON in a line of Kubernetes' container runtime."""
    stream = make.pick(("stdout", "stdout", "stderr"))
    return f"2026-03-01T{make.clock()}{make.number(10**6):06}Z {stream} F {record(make)}"


def syslog(make: Maker) -> str:
    """A line of syslog."""
    program = make.pick(("sshd", "CRON", "kernel", "systemd", "dhclient"))
    head = f"Mar  1 {make.clock()[:8]} node-{make.number(40)} {program}[{make.number(60_000)}]"
    return f"{head}: {make.words(3, 14)}\n"


def table(make: Maker) -> str:
    """A row of a table in CSV."""
    cells = f'{make.number(10**9)},2026-03-01 {make.clock()},"{make.words(2, 5)}",{make.number(10**6) / 1000}'
    quoted = f'"it\'s ""{make.words(1, 2)}"", {make.words(1, 4)}"'
    return f"{cells},{quoted},{make.pick(LEVELS)},{make.number(2)}\n"


def wide(make: Maker) -> str:
    """A line that PowerShell writes into a file in UTF-16."""
    head = f"[2026-03-01 {make.clock()}] [{make.pick(LEVELS)}] C:\\srv\\app{make.number(9)}"
    return f"{head}: {make.words(3, 12)}\r\n"


def coloured(make: Maker) -> str:
    """A line with colours, as servers of web applications print it to a terminal."""
    colour, level = 31 + make.number(6), make.pick(LEVELS)
    rest = f"\x1b[1m{make.words(2, 7)}\x1b[0m \x1b[3mtook\x1b[0m\x1b[2m=\x1b[0m{make.number(9000)}"
    return f"\x1b[2m2026-03-01T{make.clock()}Z\x1b[0m \x1b[{colour}m{level:>7}\x1b[0m {rest}\n"


KINDS: Mapping[str, Callable[[Maker], str]] = {
    "access log": access,
    "records of JSON": record,
    "tracebacks of others": traceback,
    "logcat": logcat,
    "journald, JSON": journal,
    "Kubernetes, JSON": cri,
    "syslog": syslog,
    "CSV": table,
    "UTF-16": wide,
    "coloured": coloured,
}


PLAIN = ("access log", "syslog")
"""Kinds with nothing that makes a search slow."""


def encoding_of(kind: str) -> str:
    """The encoding of a kind's logs."""
    return "utf-16-le" if kind == "UTF-16" else "utf-8"


def log_of(kind: str, size: int) -> bytes:
    """A log of a kind, of at least this many bytes."""
    make, line, encoding = Maker(), KINDS[kind], encoding_of(kind)
    lines, written = [], 0
    while written < size:
        lines.append(line(make).encode(encoding))
        written += len(lines[-1])
    return b"".join(lines)
