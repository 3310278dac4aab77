"""``docs/how-to/server.md``: what it shows of HTTP is what a server says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.support.servers import Running

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "server.md"
EXCHANGE = re.compile(
    r"```http\n(?P<method>\w+) (?P<path>\S+) HTTP/1.1\n(?P<headers>(?:[\w-]+: [^\n]*\n)*)(?P<body>.*?)\n"
    r"HTTP/1.1 (?P<status>\d+) [^\n]*\n(?P<shown>(?:[\w-]+: [^\n]*\n)*)\n?(?P<data>.*?)```",
    re.DOTALL,
)


def headers_of(lines: str) -> dict[str, str]:
    return dict(line.split(": ", 1) for line in lines.splitlines())


def answered(found: re.Match[str], server: Running) -> str:
    """An exchange as it is."""
    body = found["body"].removeprefix("\n")
    reply = server.ask(found["method"], found["path"], body.encode() or None, headers_of(found["headers"]))
    assert reply.status == int(found["status"])
    shown = "".join(f"{name}: {reply.headers[name.lower()]}\n" for name in headers_of(found["shown"]))
    before = found[0][: found.start("shown") - found.start()]
    data = reply.data.decode()
    return f"{before}{shown}" + (f"\n{data.rstrip()}\n```" if data else "```")


def test_the_exchanges_are_those_of_a_server(server: Running) -> None:
    text = PAGE.read_text("utf-8")
    assert EXCHANGE.sub(lambda found: answered(found, server), text) == text
    assert len(EXCHANGE.findall(text)) == 5
