"""How failures fare in each form of logs: exact, noted, silent or wrong, by each way to name the models.

    python -m tools.log_scorecard [PART OF A FORM'S NAME]...

The models are those of ``fixtures/oracles``, with PyTorch's texts. *noted* is a log that stays, with a note;
*silent* is one that stays without; *wrong* is any text but PyTorch's, or one that the form's reader refuses.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from archive.app.explaining import explainer_of
from archive.app.sources import models_in
from archive.store.store import Store
from tests.failures.log_forms import FORMS, LogForm
from tests.support.halves import halves
from tests.support.reports import case

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.failures.explainer import LogExplainer
    from tests.support.reports import Report

NAMES = ("plain_unicode", "plain_free_functions", "traced_stack", "plain_stack", "lowered_shape")
REPORTS = [case(name + form) for name in NAMES for form in (".jit", "") if name + form != "traced_stack"]


def ways(folder: Path) -> Iterator[tuple[str, Report, list[Path]]]:
    """Each report with the models that it is asked of: its archive, companion, folder and store."""
    kept, coded, paired = folder / "store", folder / "coded", folder / "folder"
    paired.mkdir()
    with Store.open(kept, create=True) as store, Store.open(coded, create=True) as other:
        for report in REPORTS:
            left, companion, _ = halves(report.path)
            one = paired / f"{report.path.name}.ptdbg"
            one.write_bytes(companion)
            (paired / report.path.name).write_bytes(left)
            store.add(one)
            other.add(report.path)
    for report in REPORTS:
        yield "archive", report, [report.path]
        yield "companion", report, [paired / f"{report.path.name}.ptdbg"]
        yield "folder", report, [paired]
        yield "store", report, [kept]
        yield "store of archives", report, [coded]


def verdict(form: LogForm, report: Report, explainer: LogExplainer) -> str:
    """What became of a failure."""
    log = form.written(lines(report.stripped))
    before = explainer.unknown
    text = b"".join(explainer.explain([log]))
    if text == log:
        return "noted" if explainer.unknown > before else "silent"
    try:
        found = form.read(text)
    except (AssertionError, ValueError, LookupError, SyntaxError):
        return "wrong"
    return "exact" if shown(found) == shown(lines(report.full)) else "wrong"


def lines(text: bytes) -> list[str]:
    """A text's lines, without an empty last one."""
    return text.decode().removesuffix("\n").split("\n")


def shown(texts: list[str]) -> str:
    """Texts without the blanks at their ends, which some forms do not keep."""
    return "\n".join(text.rstrip() for text in texts).rstrip("\n")


def main(parts: list[str]) -> None:
    """Print the figures of each way, and the forms in which it is not always exact."""
    chosen = {name: form for name, form in FORMS.items() if not parts or any(part in name for part in parts)}
    counts: dict[str, Counter[str]] = {}
    others: Counter[tuple[str, str, str]] = Counter()
    with TemporaryDirectory() as folder:
        for way, report, files in ways(Path(folder)):
            models = models_in(files)
            explainer = explainer_of(models)
            for name, form in chosen.items():
                found = verdict(form, report, explainer)
                counts.setdefault(way, Counter())[found] += 1
                others[way, found, name] += 1
            models.close()
    for way, total in counts.items():
        print(f"{way:18} {dict(total)}")
        for (of, what, name), count in others.items():
            if of == way and what in {"silent", "wrong"}:
                print(f"    {what}: {name} ({count} of {len(REPORTS)})")


if __name__ == "__main__":
    main(sys.argv[1:])
