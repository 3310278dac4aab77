"""What is changed in the site that Zensical has built.

Search works from ``file://``, where a browser lets no page fetch a file or start a worker from one: the theme
then asks for ``search.js``, which has the index as a value, and the worker's code as a text to start it from.

Output of commands is shown as it is: Pygments takes a line such as ``# 3 records`` for another command.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from tools.site.tree import SiteError

if TYPE_CHECKING:
    from pathlib import Path

SEARCH = """\
var __index = {index};
window.Worker = class extends Worker {{
  constructor() {{
    super(URL.createObjectURL(new Blob([{code}], {{ type: "text/javascript" }})));
  }}
}};
"""
BLOCK = re.compile(
    r'(<div class="language-console highlight"><pre><span></span><code>)(.*?)(</code>)', re.DOTALL
)
COMMAND = '<span class="gp">$ </span>'
TAGS = re.compile(r"<[^>]*>")


def finish(site: Path) -> None:
    """Change the pages of a site, and add the index of a search without a server.

    Raises:
        SiteError: Zensical's worker is not where it was.
    """
    (site / "search.js").write_text(search_script(site), encoding="utf-8")
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        made = BLOCK.sub(lambda block: f"{block[1]}{output_as_it_is(block[2])}{block[3]}", text)
        if made != text:
            page.write_text(made, encoding="utf-8")


def search_script(site: Path) -> str:
    """The script that the theme asks for where there is no server."""
    workers = [*(site / "assets" / "javascripts" / "workers").glob("search.*.js")]
    if len(workers) != 1:
        raise SiteError(f"{len(workers)} workers that search, not one: see {__name__}")
    index = (site / "search.json").read_text(encoding="utf-8")
    return SEARCH.format(index=index, code=json.dumps(workers[0].read_text(encoding="utf-8")))


def output_as_it_is(block: str) -> str:
    """The lines of a block, with colours for commands only."""
    return "\n".join(
        line if not line or line.startswith(COMMAND) else f'<span class="go">{TAGS.sub("", line)}</span>'
        for line in block.split("\n")
    )
