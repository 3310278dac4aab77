"""README and the pages under ``docs/`` show what their commands really print, and their Python runs."""

from __future__ import annotations

import builtins
import contextlib
import doctest
import re
import symtable
from pathlib import Path

import pytest

from tests.support.commands import run
from tests.support.sampling import crossed, sampled
from tools import migration_table
from tools.pages import PAGES, ROOT, TIME, blocks, rewritten, typed

MOST_LINES = 250
WITH_PYTHON = {
    "start.md",
    "python.md",
    "hooks.md",
    "remote.md",
    "exported.md",
    "compiled.md",
    "etdump.md",
    "executorch.md",
    "publish.md",
    "digest.md",
    "handle.md",
}
"""Pages with examples in Python."""
OTHERS = [
    ROOT / name for name in ("ARCHITECTURE.md", "CONTRIBUTING.md", "fixtures/README.md", "tests/README.md")
]
OTHERS += sorted(ROOT.glob("docs/decisions/*.md"))
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def printed_here(command: str, folder: Path) -> bytes:
    """What a command prints; one of this project's runs in this process, and a shell gets what it prints."""
    own, pipe, others = command.partition(" | ")
    own, reads, file = own.partition(" < ")
    if not own.startswith("debug-archive ") or set(own + file) & set("|&;<>$*`'\""):
        return typed(command, folder)
    with contextlib.chdir(folder):
        done = run(*own.split()[1:], stdin=Path(file).read_bytes() if reads else b"")
    if pipe:
        return typed(others, folder, done.stdout)
    assert done.returncode == 0, done.stderr
    return done.stdout


WITH_BLOCKS = [page for page in PAGES if blocks(text_of(page))]


@pytest.mark.parametrize("page", sampled(WITH_BLOCKS[1:], most=3), ids=lambda page: page.name)
def test_console_blocks_show_what_their_commands_print(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in TIME.items():
        monkeypatch.setenv(name, value)
    assert rewritten(text_of(page), tmp_path, printed_here) == text_of(page)


def test_a_reader_who_types_the_commands_of_the_readme_sees_what_it_shows(tmp_path: Path) -> None:
    assert WITH_BLOCKS[0] == PAGES[0]
    assert rewritten(text_of(PAGES[0]), tmp_path) == text_of(PAGES[0])


def test_there_are_blocks_to_compare() -> None:
    found = [block for page in PAGES for block in blocks(text_of(page))]
    assert len(found) > 130
    assert sum("~~~~ <--- HERE" in block for block in found) == 23


@each_page
def test_the_python_examples_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "fixtures").symlink_to(ROOT / "fixtures")
    monkeypatch.chdir(tmp_path)
    failed, tried = doctest.testfile(str(page), module_relative=False, encoding="utf-8")
    assert failed == 0
    assert (tried > 0) == (page.name in WITH_PYTHON)


@each_page
def test_programs_of_a_page_use_only_names_that_it_defines(page: Path) -> None:
    blocks_of_python = re.findall(r"^```python\n(.*?)^```", text_of(page), re.MULTILINE | re.DOTALL)
    programs = [block for block in blocks_of_python if not block.lstrip().startswith(">>>")]
    assert undefined("\n".join(programs)) == set()


def undefined(program: str) -> set[str]:
    """The names of a program that are neither its own nor Python's."""
    scopes, used = [symtable.symtable(program, "a page", "exec")], set[str]()
    own = {
        symbol.get_name()
        for symbol in scopes[0].get_symbols()
        if symbol.is_assigned() or symbol.is_imported()
    }
    own |= {scope.get_name() for scope in scopes[0].get_children()}
    while scopes:
        scope = scopes.pop()
        scopes += scope.get_children()
        is_module = scope.get_type() == "module"
        for symbol in scope.get_symbols():
            if symbol.is_referenced() and (is_module or symbol.is_global()):
                used.add(symbol.get_name())
    return used - own - set(dir(builtins))


def test_undefined_names_are_found() -> None:
    assert undefined("import a\ndef f(x):\n    return g(x, a.b, len(y for y in z))\nf(h)") == {"g", "z", "h"}


@pytest.mark.parametrize("page", [*PAGES, *OTHERS], ids=lambda page: f"{page.parent.name}/{page.name}")
def test_links_lead_to_files(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text_of(page))
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_architecture_is_short_and_names_files_that_are_there() -> None:
    text = text_of(ROOT / "ARCHITECTURE.md")
    assert len(text.splitlines()) <= 150
    assert {path.name for path in ROOT.glob("docs/decisions/*.md")} == set(
        re.findall(r"decisions/(\w+\.md)", text)
    )
    files = re.findall(r"`([\w/]+\.py)`", text)
    assert len(files) > 15
    assert [file for file in files if not list((ROOT / "archive").rglob(file))] == []


def test_the_readme_is_short_and_leads_to_every_page() -> None:
    readme, *pages = PAGES
    assert len(text_of(readme).splitlines()) <= MOST_LINES
    links = [f"]({page.relative_to(ROOT)})" for page in pages]
    assert [link for link in links if link not in text_of(readme)] == []


def test_the_table_of_a_model_with_handles_is_a_row_of_the_benchmarks() -> None:
    (row,) = re.findall(
        r"^\| encoder48.*\d.*\|$", text_of(ROOT / "docs" / "how-to" / "small.md"), re.MULTILINE
    )
    assert row in text_of(ROOT / "BENCHMARKS.md")


@pytest.mark.parametrize(("start", "end"), crossed(migration_table.ERAS, migration_table.ERAS))
def test_the_table_of_migrations_is_true(start: str, end: str) -> None:
    (_, *ends), *rows = migration_table.shown(text_of(migration_table.PAGE))
    cells = {row[0]: dict(zip(ends, row[1:], strict=True)) for row in rows}
    assert ends == list(cells) == list(migration_table.ERAS)
    assert cells[start][end] == migration_table.cell(start, end)
