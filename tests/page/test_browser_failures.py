"""The page of failures in a browser: each cause at its line; nothing of a log runs, nothing hides."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from archive.page.document import document, packed
from archive.page.summary import summary_of
from tests.page.browser import AXE, data_of, in_browser, opened
from tests.page.test_browser_access import RULES
from tests.page.test_browser_safety import ALL_TEXTS, ESCAPED, HIDDEN, HOSTILE, LISTENING, without_policy
from tests.page.test_failures import FLEET, LOG, causes_of, page_of, timed

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from playwright.sync_api import Browser

    from tests.page.browser import Seen

pytestmark = in_browser()


def hostile(texts: list[str]) -> dict[str, Any]:
    """A page that shows texts wherever it shows any."""
    count, joined = len(texts), "\n".join(texts) + "\n"
    source = {"files": [{"name": text, "text": joined, "lines": [[0, 1]]} for text in texts], "records": []}
    causes = {
        **dict.fromkeys(("file", "where", "message", "proven", "first", "last"), texts),
        "count": list(range(count, 0, -1)),
        "line": [1] * count,
        "models": [[number] for number in range(count)],
        "seconds": list(range(count)),
        "times": [[1, count - 1]] * count,
        "excerpt": [joined] * count,
        "marked": [[0, count - 1]] * count,
        "link": [[number, number, 0] for number in range(count)],
    }
    failures = {"log": " ".join(texts), "models": texts, "causes": causes, "unexplained": 1, "notes": texts}
    return {
        "version": 1,
        "failures": {**failures, "caveat": texts[0], "source": "full", "span": texts[:2], "interval": 1},
        "models": [{"sources": source}] * count,
    }


def test_each_cause_opens_at_its_marked_line(browser: Browser, tmp_path: Path) -> None:
    page = page_of(tmp_path, timed(LOG))
    causes = causes_of(data_of(page))
    with opened(browser, tmp_path / "failures.html") as seen:
        for number in (0, 7, len(causes) - 1):
            seen.to(f"#section=causes&cause={number + 1}")
            seen.page.locator(".cause .cm-editor").scroll_into_view_if_needed()
            seen.settle()
            cause = causes[number]
            marked = seen.text(".cause .here")
            assert marked.strip() == seen.text(".cause .hit >> nth=0").strip()
            assert seen.text(".cause pre").rstrip("\n") == cause["excerpt"].rstrip("\n")
            shown = cause["excerpt"].split("\n")[cause["marked"][0] : cause["marked"][1] + 1]
            assert seen.page.locator(".cause .hit").all_text_contents() == shown
            assert f"{cause['file']}:{cause['line']}" in seen.text(".cause p >> nth=0")
        assert seen.console == []


def test_a_click_brings_its_cause_into_view(browser: Browser, tmp_path: Path) -> None:
    page_of(tmp_path, LOG)
    with opened(browser, tmp_path / "failures.html") as seen:
        seen.reach_all()
        assert not in_view(seen, ".cause h3")
        seen.page.click("regular-table tbody tr:nth-child(3) td")
        seen.settle()
        assert in_view(seen, ".cause h3")
        assert in_view(seen, ".cause .here")


def in_view(seen: Seen, selector: str) -> bool:
    box = seen.page.locator(selector).first.bounding_box()
    size = seen.page.viewport_size
    assert box
    assert size
    return box["y"] >= 0 and box["y"] + box["height"] <= size["height"]


def test_what_explanations_rest_on_is_in_view_among_many_notes(browser: Browser, tmp_path: Path) -> None:
    page_of(tmp_path, (FLEET / "plain.log").read_bytes(), models=FLEET / "Ranker.ptdbg")
    with opened(browser, tmp_path / "failures.html") as seen:
        assert in_view(seen, "text=because nothing contradicts it")


def test_what_is_most_frequent_is_named_where_one_is(browser: Browser, tmp_path: Path) -> None:
    page_of(tmp_path, LOG + b"INFO" + LOG.split(b"INFO")[1])
    with opened(browser, tmp_path / "failures.html") as seen:
        seen.reach_all()
        told = seen.page.locator("#models td:nth-child(5)").all_inner_texts()
    assert told == ["models/ranker.py:91", "67 causes, equally often", "66 causes, equally often"]


def test_shares_of_models_are_parts_of_all_failures(browser: Browser, tmp_path: Path) -> None:
    """A failure that several models explain alike is in one row, theirs: each failure counts once."""
    data = data_of(page_of(tmp_path, LOG))
    causes = data["failures"]["causes"]
    causes["models"] = [[0, 1] if number % 3 == 0 else [number % 3] for number in range(len(causes["count"]))]
    path = tmp_path / "alike.html"
    path.write_bytes(document(packed(data), summary_of(data)))
    with opened(browser, path) as seen:
        seen.reach_all()
        rows = [
            row.locator("td").all_inner_texts()[:3] for row in seen.page.locator("#models tbody tr").all()
        ]
    names = data["failures"]["models"]
    assert {name for name, _, _ in rows} == {f"{names[0]} or {names[1]}", names[1], names[2]}
    assert sum(int(count) for _, count, _ in rows) == sum(causes["count"])
    assert sum(float(share.removesuffix(" %")) for _, _, share in rows) == pytest.approx(100, abs=0.2)


def test_the_last_times_stand_in_their_order(browser: Browser, tmp_path: Path) -> None:
    times = ("Nov 30 10:00:00", "Dec  1 10:00:00", "Dec 31 23:59:59", "Jan  1 00:00:01")
    failures = LOG.split(b"INFO")[1:]
    log = b"".join(time.encode() + b" INFO" + text for time, text in zip(times, failures, strict=False))
    page_of(tmp_path, log)
    with opened(browser, tmp_path / "failures.html") as seen:
        seen.reach_all()
        assert seen.page.locator("#time .ends span").all_text_contents()[::2] == [times[0], times[-1]]
        seen.page.click("#causes th >> text=Last")
        seen.settle()
        assert seen.page.locator("#causes td:nth-child(5)").all_text_contents() == [*reversed(times)]
        assert not seen.page.locator("#time .hint").count()


def test_failures_without_a_time_are_not_silently_left_out_of_times(browser: Browser, tmp_path: Path) -> None:
    first, second, *_ = LOG.split(b"INFO")[1:]
    page_of(tmp_path, b"INFO" + first + b"Nov 30 10:00:00 INFO" + second)
    with opened(browser, tmp_path / "failures.html") as seen:
        seen.reach_all()
        said = seen.page.locator("#time .hint").inner_text()
    assert said == "1 of 2 failures; other lines have no time"


@pytest.mark.parametrize(("show", "sides"), [("full", 2), ("none", 0)])
def test_a_side_that_shows_nothing_is_not_there(
    browser: Browser, tmp_path: Path, show: str, sides: int
) -> None:
    page_of(tmp_path, LOG, "--source", show)
    with opened(browser, tmp_path / "failures.html") as seen:
        seen.reach_all()
        assert seen.page.locator(".cause .side >> visible=true").count() == sides
        assert seen.text(".cause h3")


def test_only_words_of_pytorch_are_called_so(browser: Browser, tmp_path: Path) -> None:
    for text, title in (("Traceback of TorchScript", "As PyTorch prints it"), ("a node", "The explanation")):
        file = tmp_path / "f.html"
        file.write_bytes(document(packed(data := hostile([text, "others"])), summary_of(data)))
        with opened(browser, file) as seen:
            seen.reach_all()
            assert seen.text(".cause .picker >> nth=0") == title


def test_keys_open_a_cause(browser: Browser, tmp_path: Path) -> None:
    page_of(tmp_path, LOG)
    with opened(browser, tmp_path / "failures.html") as seen:
        seen.reach_all()
        first = seen.text(".cause h3")
        seen.page.focus("regular-table")
        for key in ("ArrowDown", "ArrowDown", "Enter"):
            seen.page.keyboard.press(key)
            seen.settle()
        assert seen.text(".cause h3") != first


@pytest.mark.parametrize("policy", [True, False])
def test_nothing_of_a_log_runs(browser: Browser, tmp_path: Path, *, policy: bool) -> None:
    file = tmp_path / "f.html"
    file.write_bytes(document(packed(data := hostile(HOSTILE)), summary_of(data)))
    file = file if policy else without_policy(file)
    with opened(browser, file) as seen:
        seen.reach_all()
        assert seen.count("img, svg, iframe, script:not([src]):not(body > script)") == 0
        assert seen.count("script") == 1
        assert not seen.page.evaluate(LISTENING)
        assert HOSTILE[0] in seen.text("h1")
        assert HOSTILE[0] in seen.text(".cause pre")
        assert seen.console == []
        assert seen.requests == [file.as_uri()]


def test_what_cannot_be_seen_is_shown_as_escapes(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "f.html"
    file.write_bytes(document(packed(data := hostile([HIDDEN, "plain"])), summary_of(data)))
    with opened(browser, file) as seen:
        seen.reach_all()
        text = seen.page.evaluate(ALL_TEXTS)
        assert not set(text) & set("\u202e\u2066\u200b\u0000\u001b\u00ad\ufeff\u2028\U000e0041")
        for selector in (
            "h1",
            "#models",
            "#time",
            ".cause h3",
            ".cause pre",
            ".cause .cm-content",
        ):
            assert ESCAPED in seen.text(selector).replace("\n", ""), selector


@pytest.mark.skipif(not AXE.exists(), reason="axe-core, which `python -m tools.page` installs, is not here")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(browser: Browser, tmp_path: Path, scheme: str) -> None:
    page_of(tmp_path, timed(LOG))
    with opened(browser, tmp_path / "failures.html", color_scheme=scheme, bypass_csp=True) as seen:
        seen.reach_all()
        seen.page.add_script_tag(path=str(AXE))
        found = seen.page.evaluate("(rules) => axe.run({runOnly: {type: 'tag', values: rules}})", RULES)
        assert [(rule["id"], [node["html"] for node in rule["nodes"]]) for rule in found["violations"]] == []
