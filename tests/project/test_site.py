"""The documentation site: what it is made of, that it builds, and that its checks find what is wrong."""

from __future__ import annotations

import json
import re
import shutil
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

from tests.page import browser
from tests.support.sampling import whole_suite
from tools.pages import DECISIONS, PAGES, ROOT
from tools.site import __main__ as site
from tools.site import checks, finishing, made, notebook, tree

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def names() -> list[str]:
    return [name for _, name in tree.pages_of(tree.configuration()["tree"])]


def test_every_page_of_the_repository_is_on_the_site_once() -> None:
    pages = {str(page.relative_to(ROOT)) for page in (*PAGES, *DECISIONS.glob("*.md"))}
    assert pages - set(names()) == set()
    assert len(set(names())) == len(names())
    places = [tree.place_of(name) for name in names()]
    assert len(set(places)) == len(places)


def test_it_is_put_together_and_leads_nowhere_else(tmp_path: Path) -> None:
    project = site.put_together(tmp_path)
    checks.check_configuration(project)
    home = (tmp_path / "docs" / "index.md").read_text("utf-8")
    assert "| I want to …" not in home
    assert "(tutorial.md)" in home
    for page in (tmp_path / "docs").rglob("*.md"):
        links = re.findall(r"\]\(([^)#\s]+)", "".join(tree.FENCED.split(page.read_text("utf-8"))[::2]))
        local = [link for link in links if not re.match("[a-z]+:", link)]
        assert [link for link in local if not (page.parent / link).is_file()] == []


def test_links_are_rewritten_outside_of_blocks() -> None:
    links = tree.Links({"README.md", "SECURITY.md", "docs/how-to/server.md"})
    text = (
        "[a](../../SECURITY.md#x) [b](server.md) [c](https://a.b) [d](#e)\n```\n[a](../../SECURITY.md)\n```\n"
    )
    assert links.rewritten(text, "docs/how-to/store.md", "how-to/store.md") == (
        "[a](../explanation/security.md#x) [b](server.md) [c](https://a.b) [d](#e)\n"
        "```\n[a](../../SECURITY.md)\n```\n"
    )
    assert links.rewritten("[e](examples/same_model.py)", "README.md", "index.md") == (
        "[e](files/examples/same_model.py.md)"
    )
    assert links.shown == {"examples/same_model.py"}
    assert links.problems == []
    links.rewritten("[f](no-such.md)", "README.md", "index.md")
    assert links.problems == ["README.md: leads to no-such.md, which is not there"]


def test_images_are_copied_to_where_pages_ask_for_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "docs" / "images").mkdir(parents=True)
    for name in ("light.png", "dark.png"):
        (tmp_path / "docs" / "images" / name).write_bytes(b"")
    monkeypatch.setattr(tree, "ROOT", tmp_path)
    links = tree.Links({"README.md"})
    text = (
        '![a](docs/images/light.png) <source srcset="docs/images/dark.png"><img src="docs/images/light.png">'
    )
    assert links.rewritten(text, "README.md", "index.md") == text.replace("docs/images", "images")
    assert links.rewritten("![a](../images/dark.png)", "docs/how-to/x.md", "how-to/x.md") == (
        "![a](../images/dark.png)"
    )
    assert links.copied == {"docs/images/light.png", "docs/images/dark.png"}


def test_a_notebook_is_a_page_of_its_texts_code_and_tables() -> None:
    page = notebook.page_of(ROOT / "docs/how-to/notebook.ipynb")
    assert page.startswith("# In a notebook\n")
    assert "````python\nfailure = model.symbolicate(1445)\nfailure\n````" in page
    assert page.count("<table") == 5
    assert "````text\nModule hierarchy:top(Stack)" in page


def test_a_folder_without_texts_is_refused() -> None:
    with pytest.raises(tree.SiteError, match=r"fixtures/fleet/Ranker\.ptdbg: no file in it can be shown"):
        made.shown("fixtures/fleet/Ranker.ptdbg")


def test_every_command_and_schema_has_its_page() -> None:
    pages = {title: text for title, _, text in made.commands()}
    for schema in made.SCHEMAS.glob("*.json"):
        assert "\n## JSON\n" in pages[schema.stem.replace("-", " ")]
        assert f"({schema.name})" not in pages["Commands"]
    assert "Usage: debug-archive store add [OPTIONS] FILE..." in pages["store add"]
    assert (
        max(len(line) for line in made._help("debug-archive store add", *leaf()).splitlines()) <= made.WIDTH
    )


def leaf() -> list[Any]:
    return [command for name, command in made._commands() if name == "store add"]


# --- What the checks find


def built(folder: Path, body: str, source: str = "") -> list[str]:
    """The problems of a site of one page."""
    for name in ("docs", "site"):
        (folder / name).mkdir()
    (folder / "docs" / "index.md").write_text(source, "utf-8")
    (folder / "site" / "other.html").write_text('<h1 id="there">x</h1>', "utf-8")
    (folder / "site" / "index.html").write_text(f"<html><body>{body}</body></html>", "utf-8")
    return checks.problems(folder)


@pytest.mark.parametrize(
    "body",
    [
        '<a href="other.html#there">x</a>',
        '<a href="https://pytorch.org/a">x</a>',
        '<a href="#here">x</a><p id="here">',
        '<img src="other.html">',
        "<pre>a](b) ```</pre>",
    ],
)
def test_what_is_right_has_no_problem(body: str, tmp_path: Path) -> None:
    assert built(tmp_path, body) == []


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('<img src="no.png">', "index.html: asks for no.png"),
        ('<img src="https://a.b/c.png">', "index.html: asks for https://a.b/c.png"),
        ('<source srcset="no.png">', "index.html: asks for no.png"),
        ('<script src="//a.b/c.js"></script>', "index.html: asks for //a.b/c.js"),
        ('<link rel="stylesheet" href="no.css">', "index.html: asks for no.css"),
        ('<a href="no.html">x</a>', "index.html: leads to no.html"),
        ('<a href="../docs/index.md">x</a>', "index.html: leads to ../docs/index.md"),
        ('<a href="other.html#gone">x</a>', "index.html: leads to other.html#gone"),
        ('<a href="http://a.b">x</a>', "index.html: leads to http://a.b"),
        ("<p>see [it](there.md)</p>", "index.html: Markdown that was not read: ](there.md)"),
    ],
)
def test_what_is_wrong_is_named(body: str, said: str, tmp_path: Path) -> None:
    assert built(tmp_path, body) == [said]


def test_a_name_without_a_description_is_named(tmp_path: Path) -> None:
    assert built(tmp_path, "", "::: archive.gone\n") == ["index.html: archive.gone is not described"]


@pytest.mark.parametrize(
    "change",
    [
        lambda project: project["plugins"].update({"no-such": {}}),
        lambda project: project["markdown_extensions"].update({"no.such": {}}),
        lambda project: project["markdown_extensions"].update({"nosuch": {}}),
    ],
)
def test_plugins_and_extensions_that_are_unknown_are_refused(change: Callable[[Any], None]) -> None:
    project = tree.configuration()["project"]
    checks.check_configuration(project)
    change(project)
    with pytest.raises(tree.SiteError, match=r"no-such|no\.such|nosuch"):
        checks.check_configuration(project)


# --- What is changed when it is built


def test_output_that_looks_like_a_command_is_shown_as_output() -> None:
    """As Pygments colours ``cat x``, ``# 3 records < 4`` and an empty line."""
    command = '<span class="gp">$ </span>cat<span class="w"> </span>x'
    output = (
        '<span class="gp"># </span><span class="m">3</span><span class="w"> </span>records<span>&lt;4</span>'
    )
    assert finishing.output_as_it_is(f"{command}\n{output}\n\n") == (
        f'{command}\n<span class="go"># 3 records&lt;4</span>\n\n'
    )


def test_only_blocks_of_a_console_are_changed(tmp_path: Path) -> None:
    workers = tmp_path / "assets/javascripts/workers"
    workers.mkdir(parents=True)
    (workers / "search.0.min.js").write_text('"</script>"', "utf-8")
    (tmp_path / "search.json").write_text('{"items": []}', "utf-8")
    blocks = [
        f'<div class="language-{name} highlight"><pre><span></span><code><b># a</b>\n</code></pre></div>'
        for name in ("python", "console")
    ]
    (tmp_path / "index.html").write_text("\n".join(blocks), "utf-8")
    finishing.finish(tmp_path)
    made = (tmp_path / "index.html").read_text("utf-8")
    assert made == "\n".join([blocks[0], blocks[1].replace("<b># a</b>", '<span class="go"># a</span>')])
    script = (tmp_path / "search.js").read_text("utf-8")
    assert script.startswith('var __index = {"items": []};\n')
    assert json.dumps('"</script>"') in script


def test_a_theme_whose_search_has_moved_is_refused(tmp_path: Path) -> None:
    with pytest.raises(tree.SiteError, match="0 workers that search, not one"):
        finishing.search_script(tmp_path)


def found_without_a_server(file: Path, words: str) -> str:
    """What the search of a page says of some words; the page is a file."""
    with browser.started() as program:
        page = program.new_page()
        page.goto(file.as_uri())
        page.click(".md-search__button")
        page.keyboard.type(words)
        results = page.get_by_text(re.compile(r"^\d+ results$"))  # drawn in a shadow tree
        results.wait_for()
        return results.inner_text()


@whole_suite
def test_it_builds_strictly(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    if not find_spec("zensical"):
        pytest.skip("no Zensical")
    site.main(tmp_path)
    assert capfd.readouterr().out.splitlines()[-1] == f"{tmp_path}/site/index.html"
    assert "archive.Explainer" in (tmp_path / "site/reference/names/in-an-application.html").read_text(
        "utf-8"
    )
    if not browser.why_not():
        found = found_without_a_server(tmp_path / "site/how-to/failures.html", "companion")
        assert int(found.removesuffix(" results")) > 100
    shutil.rmtree(tmp_path / "docs")
