"""``debug-archive serve``."""

from __future__ import annotations

import os
from contextlib import suppress
from importlib.util import find_spec

import click

from archive.base.amounts import AMOUNT_WORDS, parsed_amount
from archive.base.errors import ArchiveError, counted, shown
from archive.base.extras import how_to_install
from archive.cli import printing
from archive.cli.status import ExitStatus
from archive.io.mapped import read_whole
from archive.store.client import TOKEN_VARIABLE

NEEDED = ("fastapi", "markdown_it", "pebble", "prometheus_client", "uvicorn")
SHORTEST_TOKEN = 16
LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]", "::1"})


def _size(_: click.Context, __: click.Parameter, value: str) -> int:
    """A number of bytes like 16M."""
    with suppress(ValueError):
        if size := parsed_amount(value):
            return size
    raise click.BadParameter(f"expected bytes like 500K or 16M; found {shown(value)}")


@click.command("serve")
@click.argument("store", type=click.Path())
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen at.")
@click.option("--port", type=click.IntRange(0, 65535), default=8080, show_default=True, help="0: a free one.")
@click.option(
    "--allow-host",
    "names",
    multiple=True,
    metavar="NAME",
    help="A further name by which the server is called, by a proxy for example. May be repeated.",
)
@click.option(
    "--token-file",
    type=click.Path(dir_okay=False),
    help=f"Accept uploads from clients that send the token in this file or ${TOKEN_VARIABLE}; "
    "else read only.",
)
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    default=lambda: os.cpu_count() or 1,
    show_default="number of CPUs",
    help="Processes that explain logs.",
)
@click.option(
    "--queue",
    type=click.IntRange(min=0),
    default=64,
    show_default=True,
    help="Requests that may wait for a worker; further ones are asked to come again.",
)
@click.option(
    "--timeout",
    "seconds",
    type=click.FloatRange(min=0.1, max=86_400),
    default=60,
    show_default=True,
    help="Seconds in which a body must arrive, and in which it must be explained.",
)
@click.option(
    "--max-body",
    "body",
    default="16M",
    show_default=True,
    callback=_size,
    help="Bytes of a request; a log may inflate to eight times as many, and so may its explanation. "
    f"{AMOUNT_WORDS}.",
)
@click.option(
    "--worker-memory",
    "memory",
    default="4G",
    show_default=True,
    callback=_size,
    help="Bytes of a worker's address space, in the same units, where the system bounds it.",
)
@click.option(
    "--access-log",
    "access",
    metavar="FILE",
    type=click.Path(dir_okay=False, allow_dash=True),
    help="Append a line for each request: method, path, status, time and bytes. -: to standard error.",
)
def command(
    *,
    store: str,
    host: str,
    port: int,
    names: tuple[str, ...],
    token_file: str | None,
    workers: int,
    queue: int,
    seconds: float,
    body: int,
    memory: int,
    access: str | None,
) -> ExitStatus:
    """Answer requests over HTTP from STORE: logs are explained, companions given out.

    By default it listens only on this machine, and takes no companions. It has no TLS: use a proxy. In a
    browser, / explains a log, /report shows a model, /models lists the store, and /docs describes all
    requests of programs.

    \b
    Examples:
      debug-archive serve store/
      debug-archive serve store/ --port 9000 --token-file token
      curl --data-binary @app.log http://127.0.0.1:8080/v1/symbolicate
      debug-archive symbolicate --store http://127.0.0.1:8080 < app.log
    """  # noqa: D301 (click reads the backspace)
    if any(find_spec(name) is None for name in NEEDED):
        raise click.UsageError(f"serving needs the extra `server`: {how_to_install('server')}")
    from archive.app.sources import own_store  # noqa: PLC0415 (the same)
    from archive.server.serving import bound, log_access, serve  # noqa: PLC0415 (what the extra brings)
    from archive.server.settings import Settings  # noqa: PLC0415 (the same)

    settings = Settings(
        store=store,
        workers=workers,
        token=token_of(token_file),
        seconds=seconds,
        body=body,
        queue=queue,
        hosts=LOOPBACK | {host, *names} if host in LOOPBACK else frozenset(names),
        memory=memory,
    )
    with own_store(store) as opened:
        count = len(opened.entries())
    if access is not None:
        log_access(access)
    with bound(host, port) as listening:
        address = f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}"
        rights = "read only" if settings.token is None else "takes companions with the token"

        def started() -> None:
            printing.note(f"{store}: {counted(count, 'companion')} at {address}, {rights}; Ctrl-C ends")

        serve(settings, listening, started)
    return ExitStatus.WELL


def token_of(file: str | None) -> str | None:
    """The token in a file, or in the environment; None without one."""
    if file is None and TOKEN_VARIABLE not in os.environ:
        return None
    token = os.environ[TOKEN_VARIABLE] if file is None else read_whole(file).decode("utf-8", "replace")
    token = token.strip()
    if len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable():
        way = "python -c 'import secrets; print(secrets.token_urlsafe())' makes one"
        why = f"a token has {SHORTEST_TOKEN} printable characters of ASCII or more; {way}"
        raise ArchiveError(why, file=file or f"${TOKEN_VARIABLE}")
    return token
