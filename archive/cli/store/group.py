"""``debug-archive store``."""

from __future__ import annotations

import click

from archive.cli.store import add, check, gc, get, ls, rm


@click.group("store")
def command() -> None:
    """Keep the companions of many models in one folder, and find each by what a log says of it.

    A store keeps what companions have in common once: releases of one model take a fraction of their
    companions. Several processes may use one at once, and whatever ends a process, the store stays whole.
    `symbolicate STORE` explains a log of failures of all its models.

    \b
    Examples:
      debug-archive store add build/ --store symbols/
      debug-archive symbolicate symbols/ < app.log
      debug-archive store ls --store symbols/
      debug-archive store get 3f9a1234abcd -o model.ptdbg --store symbols/
    """  # noqa: D301 (click reads the backspace)


for one in (add, ls, get, check, rm, gc):
    command.add_command(one.command)
