"""The forms in which commands print facts, and their options: ``--format``, ``--json`` and ``--sarif``.

A new form for every command has its words in ``FORMS``, its name in ``COMMON_FORMS``, and its document in
``printing.DOCUMENTS``. One for every command whose facts are rows has its name in ``ROW_FORMS``, and its
document in ``printing.ROW_DOCUMENTS``; such a command provides a :class:`~archive.render.rows.FactsTable`. A
form that only some commands have is a :class:`~archive.cli.printing.FactsText`, which each of these provides.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from archive.cli.showing import CSV, HTML, JSON, TEXT, showing

if TYPE_CHECKING:
    from collections.abc import Callable

    from archive.cli.status import ExitStatus

FOLDED, SPEEDSCOPE, SARIF = "folded", "speedscope", "sarif"
MODEL_EXPLORER = "model-explorer"
COMMON_FORMS = [JSON]
"""The forms of facts that every command has which prints some."""
ROW_FORMS = [CSV, HTML]
"""Those of every command whose facts are rows."""
FORMS = {
    JSON: "JSON as --json does",
    CSV: "rows of CSV under a line of headings",
    HTML: "the same rows as a page for a browser",
    FOLDED: "stacks of bytes for flamegraph.pl (of two files with --base)",
    SPEEDSCOPE: "the same for speedscope.app",
    MODEL_EXPLORER: "node data for Model Explorer",
    SARIF: "SARIF 2.1.0 for code scanners as --sarif does",
}
"""What ``--format`` prints besides tables and lines."""
sarif_option = click.option(
    "--sarif", "as_sarif", is_flag=True, help="Print findings as SARIF 2.1.0, for code scanners."
)


def facts_options(
    *own: str, sarif: bool = False, words: str = "Print facts as JSON; docs/schemas describes it."
) -> Callable[[Callable[..., ExitStatus]], Callable[..., ExitStatus]]:
    """``--format`` and ``--json``; the command takes ``as_json``: whether facts are printed, in any form.

    Args:
        own: the forms of ``FORMS`` that the command has.
        sarif: whether there is ``--sarif``, which is a form of ``showing``, too.
        words: the help of ``--json``.
    """
    own = (*own, SARIF) if sarif else own
    printed = ["tables and lines", *(FORMS[form] for form in COMMON_FORMS)]
    if own:
        *first, last = (FORMS[form] for form in own)
        printed.append("; ".join([*first, f"or {last}"]))
    else:
        printed[-1] = f"or {printed[-1]}"
    format_option = click.option(
        "--format",
        "form",
        type=click.Choice([TEXT, *COMMON_FORMS, *own]),
        default=TEXT,
        show_default=True,
        help=f"Print {', '.join(printed)}.",
    )
    json_option = click.option("--json", "as_json", is_flag=True, help=words)

    def decorated(command: Callable[..., ExitStatus]) -> Callable[..., ExitStatus]:
        @wraps(command)
        def with_form(*, as_json: bool, form: str, as_sarif: bool = False, **others: object) -> ExitStatus:
            source = click.get_current_context().get_parameter_source("form")
            asked = {f"--format {form}": form} if source is not ParameterSource.DEFAULT else {}
            asked |= {"--json": JSON} if as_json else {}
            asked |= {"--sarif": SARIF} if as_sarif else {}
            if len({*asked.values()}) > 1:
                raise click.UsageError(f"{' and '.join(asked)} are different forms: give one of them")
            showing.form = next(iter(asked.values()), TEXT)
            return command(**others, as_json=showing.form not in {TEXT, SARIF})

        shown = format_option(json_option(with_form))
        return sarif_option(shown) if sarif else shown

    return decorated
