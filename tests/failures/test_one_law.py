"""The law of logs: each failure is explained exactly, or told; no answer is another model's, none is missed.

Of any models, twins among them; in any form; from archives, companions with fingerprints, or a store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archive.failures.models.explaining import explainer_of
from archive.failures.models.sources import models_in
from archive.store.store import Store
from tests.support.halves import split_companion
from tests.support.log_forms import FORMS
from tests.support.reports import case
from tests.support.sampling import examples
from tests.support.tampering import tampered

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ("plain_unicode.jit", "plain_free_functions.jit", "traced_stack.jit", "plain_stack.jit")
REPORTS = {name: case(name) for name in NAMES}
SOURCES = ("archives", "companions", "store")


def twin_of(name: str) -> bytes:
    """The archive with another number in one line that its failure shows, above or below the marked one."""
    report = REPORTS[name]
    lines = report.stripped.split(b"\n")
    marked = next(at for at, line in enumerate(lines) if line.endswith(b"<--- HERE"))
    line, record = lines[marked - 2], lines[marked - 4 : marked]
    heading = next(one for one in reversed(lines[:marked]) if one.startswith(b'  File "'))
    assert line in record
    file = heading.split(b'"')[1].decode()
    return tampered(report.path, {file: lambda code: code.replace(line + b"\n", line[:-1] + b"~\n")})


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, bool], Path]:
    """Every source of the models, with their twins and in the place of them."""
    found = {}
    for own in (False, True):
        for source in SOURCES:
            folder = found[source, own] = tmp_path_factory.mktemp("models")
            files = {f"{name}.twin": twin_of(name) for name in NAMES}
            files |= {name: report.path.read_bytes() for name, report in REPORTS.items()} if own else {}
            if source == "store":
                with Store.open(folder / "store", create=True) as store:
                    for name, data in files.items():
                        store.add(data, name=f"{name}.pt")
                found[source, own] = folder / "store"
                continue
            for name, data in files.items():
                kept = data if source == "archives" else split_companion(data, fingerprints=True)
                (folder / f"{name}.pt").write_bytes(kept)
    return found


def lines_of(text: bytes) -> list[str]:
    return [line.rstrip() for line in text.decode().removesuffix("\n").split("\n")]


@given(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3), st.sampled_from(sorted(FORMS)), st.data())
@settings(max_examples=examples(240), deadline=None)
def test_each_failure_is_explained_exactly_or_told(
    folders: dict[tuple[str, bool], Path], names: list[str], form_name: str, data: st.DataObject
) -> None:
    source, own = data.draw(st.sampled_from(SOURCES)), data.draw(st.booleans())
    form = FORMS[form_name]
    models = models_in([folders[source, own]])
    explainer = explainer_of(models)
    logs = [form.written(REPORTS[name].stripped.decode().removesuffix("\n").split("\n")) for name in names]
    texts = [b"".join(explainer.explain([log])) for log in logs]
    models.close()
    if not own:  # the log contradicts every model
        assert texts == logs
        assert (explainer.explained, explainer.unknown) == (0, len(names))
        assert explainer.notes
        return
    assert (explainer.explained, explainer.unknown) == (len(names), 0)
    for text, name in zip(texts, names, strict=True):
        found = "\n".join(form.read(text)).rstrip()
        assert lines_of(found.encode()) == lines_of(REPORTS[name].full.rstrip())
