"""The documentation site: pages put together in ``build/docs``, built into ``build/site``, checked.

python -m tools.site
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from tools.pages import ROOT
from tools.site import checks, finishing, made, notebook, tree

if TYPE_CHECKING:
    from pathlib import Path

BUILD = ROOT / "build"
LEFT_OUT = ("Pages", "Develop")
"""Sections of README that the navigation stands for."""
WAYS = """\
- [Tutorial](tutorial.md): ten minutes, from a model that fails on a phone to the line that fails
- How-to: a page for each job, [failures](how-to/failures.md) first
- Reference: each [command](reference/commands/index.md), [name of Python](reference/names/index.md), key of
  [JSON](reference/json.md) and [record](reference/records.md)
- Explanation: [how a number in a log becomes a line](explanation/handle.md), and why everything is as it is
"""
STYLE = """\
/* Output of commands is wider than prose. */
.md-typeset pre > code { font-size: 0.62rem; line-height: 1.35; }
/* What is copied from these would be prompts and output. */
.language-console .md-code__nav { display: none; }
.md-grid { max-width: 76rem; }
/* The place of a link to the repository, which the header keeps free without one. */
.md-header__source:not(:has(*)) { display: none; }
.md-typeset table:not([class]) { font-size: 0.62rem; }
.md-typeset table:not([class]) :is(td, th) { min-width: 0; padding: 0.6em 0.9em; }
.md-typeset td:first-child > code:only-child { white-space: nowrap; }
"""


def home(text: str) -> str:
    """README for the site: without what the navigation says, and with ways into it."""
    for heading in LEFT_OUT:
        text = re.sub(rf"^## {heading}\n.*?(?=^## |^Licence: )", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"^New here\?.*?\n\n", f"{WAYS}\n", text, flags=re.DOTALL | re.MULTILINE)


def put_together(build: Path) -> dict[str, Any]:
    """Write the pages and the configuration that Zensical reads.

    Returns:
        The configuration.

    Raises:
        SiteError: a page or a link leads to nothing.
    """
    configuration = tree.configuration()
    site = configuration["tree"]
    pages = {name for _, name in tree.pages_of(site)}
    links = tree.Links({name for name in pages if not name.startswith(tree.MADE)})
    places: dict[str, list[tuple[str, str]]] = {}
    texts: dict[str, str] = {}
    for name in sorted(pages):
        if name.startswith(tree.MADE):
            group = made.pages_of(name.removeprefix(tree.MADE))
            places[name] = [(title, place) for title, place, _ in group]
            texts |= {place: text for _, place, text in group}
        elif not (ROOT / name).is_file():
            links.problems.append(f"{tree.CONFIGURATION.name}: names {name}, which is not there")
        else:
            file = ROOT / name
            text = notebook.page_of(file) if file.suffix == ".ipynb" else file.read_text(encoding="utf-8")
            texts[tree.place_of(name)] = links.rewritten(text, name, tree.place_of(name))
    if links.problems:
        raise tree.SiteError("\n".join(links.problems))
    texts["index.md"] = home(texts["index.md"])
    texts |= {f"files/{target}.md": made.shown(target) for target in links.shown}
    shutil.rmtree(build / "docs", ignore_errors=True)
    for place, text in texts.items():
        (build / "docs" / place).parent.mkdir(parents=True, exist_ok=True)
        (build / "docs" / place).write_text(text, encoding="utf-8")
    for target in links.copied:
        (build / "docs" / tree.place_of(target)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / target, build / "docs" / tree.place_of(target))
    shutil.copytree(made.SCHEMAS, build / "docs" / "schemas")
    (build / "docs" / "site.css").write_text(STYLE, encoding="utf-8")
    project: dict[str, Any] = configuration["project"] | {"nav": tree.navigation(site, places)}
    python = project["plugins"]["mkdocstrings"]["handlers"]["python"]
    # Zensical's would be relative to `build`.
    python["paths"] = [str(ROOT / path) for path in python["paths"]]
    (build / "zensical.toml").write_text(f"project = {tree.toml(project)}\n", encoding="utf-8")
    return project


def main(build: Path = BUILD) -> None:
    """Put the site together, build and check it."""
    try:
        project = put_together(build)
        checks.check_configuration(project)
    except tree.SiteError as error:
        sys.exit(f"site: {error}")
    shutil.rmtree(build / "site", ignore_errors=True)
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict", "-f"]
    built = subprocess.run([*command, str(build / "zensical.toml")], cwd=ROOT, check=False)  # noqa: S603 (our own)
    if built.returncode:
        sys.exit("site: Zensical found what it says above")
    finishing.finish(build / "site")
    if problems := checks.problems(build):
        sys.exit("\n".join(f"site: {problem}" for problem in problems))
    print(f"{build.relative_to(ROOT) if build.is_relative_to(ROOT) else build}/site/index.html")


if __name__ == "__main__":
    main()
