"""A page is one file: the same bytes of the same data, closed to all that hostile data could do."""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import io
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import archive
from archive.page import document as documents
from archive.page.document import document, packed
from archive.page.folder import FolderPage, first_files, title_of
from archive.page.summary import Summary
from tests.page.unfolding import unfolded
from tests.support.commands import called, told, well
from tests.support.corpus import FIXTURES, KINDS
from tests.support.tampering import STACK, tampered

if TYPE_CHECKING:
    from collections.abc import Iterator

TEMPLATE = (
    '<meta content="{{policy}}"><title>{{title}}</title><style nonce="{{nonce}}">{{style}}</style>'
    "{{head}}{{rows}}"
    '<script type="application/gzip+base64" id="data">{{data}}</script><script>{{script}}</script>'
)
HOSTILE = [
    "</script><script>alert(1)</script>",
    "{{script}}",
    "__proto__",
    "\u202ea\x1b[2J",
    "a\udcffb",
    "<!--",
    "\x00",
]


@pytest.fixture(autouse=True)
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A template, style and script that are small."""
    (tmp_path / "page.html").write_text(TEMPLATE)
    (tmp_path / "page.css").write_text("p{color:red}")
    (tmp_path / "page.js").write_text("let a = '$1 {{data}}';")
    monkeypatch.setattr(documents, "BUNDLE", tmp_path)
    documents._part.cache_clear()
    yield
    documents._part.cache_clear()


def data_of(page: bytes) -> Any:  # noqa: ANN401 (JSON)
    found = re.search(rb'id="data">([A-Za-z0-9+/=]*)</script>', page)
    assert found
    return unfolded(json.loads(gzip.decompress(base64.b64decode(found[1]))))


def made(source: Path | bytes, **options: Any) -> bytes:  # noqa: ANN401
    out = io.BytesIO()
    archive.report(source, out, **options)
    return out.getvalue()


def test_the_policy_lets_in_the_script_by_its_digest_and_the_style_by_a_nonce_of_the_data() -> None:
    page = document(packed({"a": 1}), Summary("title")).decode()
    script = re.search(r"<script>(.*)</script>$", page)
    found = re.search(r'content="([^"]*)"', page)
    assert script
    assert found
    digest = base64.b64encode(hashlib.sha256(script[1].encode()).digest()).decode()
    nonce = hashlib.sha256(packed({"a": 1})).hexdigest()[:32]
    assert html.unescape(found[1]) == (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'nonce-{nonce}'; "
        "base-uri 'none'; form-action 'none'"
    )
    assert f'nonce="{nonce}"' in page
    assert script[1] == "let a = '$1 {{data}}';"


def test_hostile_texts_stay_in_the_data_and_come_back() -> None:
    page = document(packed(HOSTILE), Summary(HOSTILE[0] + HOSTILE[3]))
    assert page.count(b"<script") == 2
    assert page.count(b"</script") == 2
    assert b"\x1b" not in page
    assert "\u202e".encode() not in page
    assert data_of(page) == [*HOSTILE[:4], "a\udcffb", *HOSTILE[5:]]


def test_the_same_file_gives_the_same_page_wherever_it_lies(tmp_path: Path) -> None:
    other = tmp_path / "deep" / STACK.name
    other.parent.mkdir()
    other.write_bytes(STACK.read_bytes())
    assert made(STACK) == made(other)
    assert str(tmp_path).encode() not in json.dumps(data_of(made(other))).encode()


@pytest.mark.parametrize(("name", "told_as"), [("a\u202eb.ptl", "a\\u202eb.ptl"), ("a\\b.ptl", "a\\b.ptl")])
def test_a_page_has_the_whole_name_of_its_file(name: str, told_as: str, tmp_path: Path) -> None:
    file, out = tmp_path / name, tmp_path / "report.html"
    file.write_bytes(STACK.read_bytes())
    archive.report(file, out)
    assert data_of(out.read_bytes())["head"]["file"] == told_as


def test_hostile_names_of_records_are_data() -> None:
    names = [f"extra/{name}" for name in HOSTILE if "\x00" not in name and "\udcff" not in name]
    page = made(tampered(STACK, dict.fromkeys(names, b"x")))
    assert page.count(b"<script") == 2
    records = data_of(page)["sizes"]["record"]
    assert [name for name in names if name not in records] == []


@pytest.mark.parametrize(
    "name", ["kinds/tensors.safetensors", "kinds/model.gguf", "kinds/legacy.pt", "zoo/outside.onnx"]
)
def test_files_of_tensors_get_a_page_whose_parts_sum_to_the_file(name: str) -> None:
    file = FIXTURES / name
    facts = data_of(made(file.read_bytes()))
    sizes = facts["sizes"]
    assert sum(sizes["stored"]) == facts["head"]["size"] == file.stat().st_size
    with archive.open(file.read_bytes()) as opened:
        there = [tensor for tensor in opened.tensors.values() if tensor.record in opened.records]
        assert sum(sizes["elements"]) == sum(tensor.count for tensor in there)
    assert facts["left_out"] == (
        ["sizes: 1 file that the model names beside its own"] if name.endswith("outside.onnx") else []
    )


def test_garbage_is_one_clear_error(tmp_path: Path) -> None:
    for name in ("cut.pt", "legacy_tar.pt", "page.pt", "empty.pt"):
        done = called("report", KINDS / name, "-o", tmp_path / "r.html")
        assert isinstance(done.exception, archive.ArchiveError), name
        assert name in str(done.exception)
        assert not (tmp_path / "r.html").exists()
    junk = tmp_path / "junk.pt"
    junk.write_bytes(b"PK\x03\x04" + bytes(range(256)) * 20)
    assert isinstance(called("report", junk, "-o", tmp_path / "r.html").exception, archive.ArchiveError)


def test_the_command_writes_a_page_and_says_what_it_shows(tmp_path: Path) -> None:
    out = tmp_path / "r.html"
    assert re.fullmatch(
        rf"{re.escape(str(out))}: [\d,]+ bytes; may hold source text and paths\n",
        well("report", STACK, "-o", out),
    )
    assert isinstance(called("report", STACK, "-o", out).exception, archive.ArchiveError)
    facts = told("report", STACK, "-o", out, "--force", "--source", "none")
    assert (facts["source"], facts["page_size"]) == ("none", out.stat().st_size)
    assert "sources" not in data_of(out.read_bytes())


def test_a_page_of_two_files_shows_both_sizes(tmp_path: Path) -> None:
    small, out = tmp_path / "small.ptl", tmp_path / "r.html"
    well("split", STACK, "-o", small, "-c", tmp_path / "c.ptdbg")
    well("report", small, "--base", STACK, "-o", out)
    sizes = data_of(out.read_bytes())["sizes"]
    assert sum(sizes["old"]) == STACK.stat().st_size
    assert sum(sizes["stored"]) == small.stat().st_size
    well("report", small, "-c", tmp_path / "c.ptdbg", "-o", out, "--force")
    assert data_of(out.read_bytes())["sources"]["files"]
    well("report", tmp_path / "c.ptdbg", "-o", out, "--force")
    assert sum(data_of(out.read_bytes())["sizes"]["stored"]) == (tmp_path / "c.ptdbg").stat().st_size


def test_the_page_of_a_file_called_index_is_not_the_list_of_all(tmp_path: Path) -> None:
    models = tmp_path / "models"
    models.mkdir()
    for name in ("index", "a.ptl"):
        (models / name).write_bytes(STACK.read_bytes())
    done = called("report", models, "-o", tmp_path / "pages", "--force")
    assert done.exit_code == 2
    assert "the list of all pages and " in done.stderr
    assert not (tmp_path / "pages").exists()


@pytest.mark.parametrize("record", ["callstack_debug_map.pkl", "mobile_debug_handles.pkl", "data.pkl"])
def test_a_record_that_cannot_be_read_leaves_the_other_sections(record: str, tmp_path: Path) -> None:
    (tmp_path / "m.ptl").write_bytes(tampered(STACK, {record: lambda data: data[:20]}))
    well("report", tmp_path / "m.ptl", "-o", tmp_path / "r.html")
    data = data_of((tmp_path / "r.html").read_bytes())
    assert data["left_out"]
    assert sum(data["sizes"]["stored"]) == (tmp_path / "m.ptl").stat().st_size


def test_files_that_could_not_be_read_are_in_the_list_with_their_cause() -> None:
    folder = FolderPage("models")
    folder.refuse("broken.pt", "a zip without its end")
    files = folder.facts()["folder"]["files"]
    assert {key: column[0] for key, column in files.items() if column[0]} == {
        "file": "broken.pt",
        "state": "not read",
        "grave": "error",
        "unread": "a zip without its end",
    }
    assert files["size"] == [None]
    assert dict(folder.facts()["folder"]["totals"]) == {
        "files": 0,
        "not read": 1,
        "bytes": 0,
        "bytes of debug info": 0,
        "errors and warnings": 0,
    }


def test_of_very_many_files_those_that_could_not_be_read_stay() -> None:
    rows = 4_000
    unread = ["" if row % 2 else "cut short" for row in range(rows)]
    first = [None, 0, *[3_000] * (rows - 2)]
    files: dict[str, list[Any]] = {"file": list(range(rows)), "unread": unread, "first": first}
    less = first_files(files, 500)
    assert less["file"][:500] == list(range(500))
    assert less["file"][500:] == list(range(500, 1_000, 2))
    assert less["first"][1] == 0
    assert set(less["first"][2:]) == {None}  # the other is not there
    assert {len(column) for column in less.values()} == {750}
    assert first_files(files, rows) == files


@pytest.mark.parametrize(
    ("names", "title"),
    [
        (["/srv/models"], "models"),
        (["/srv/models/"], "models"),
        (["s3://bucket/models/"], "models"),
        (["a/models", "b/models"], "a/models, b/models"),
        (["."], Path.cwd().name),
        (["models/.."], Path.cwd().name),
        (["/"], "/"),
    ],
)
def test_a_list_is_called_as_its_folder(names: list[str], title: str) -> None:
    assert title_of(names) == title


@pytest.mark.parametrize(("show", "where"), [("full", "{}/models"), ("basename", ""), ("none", "")])
def test_the_page_of_a_folder_has_its_path_where_paths_are_shown(
    tmp_path: Path, show: str, where: str
) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "a.ptl").write_bytes(STACK.read_bytes())
    called("report", f"{tmp_path}/models", "-o", tmp_path / "pages", "--source", show)
    page = data_of((tmp_path / "pages" / "index.html").read_bytes())
    assert page["folder"]["name"] == "models"
    assert page["folder"]["where"] == where.format(tmp_path)


def test_a_folder_gets_a_page_each_and_one_that_lists_them(tmp_path: Path) -> None:
    models, out = tmp_path / "models", tmp_path / "pages"
    (models / "in").mkdir(parents=True)
    (models / "a b.ptl").write_bytes(STACK.read_bytes())
    (models / "in" / "c.pt").write_bytes((KINDS / "checkpoint.pt").read_bytes())
    (models / "broken.ptl").write_bytes(STACK.read_bytes()[:-300] + bytes(300))
    done = called("report", models, "-o", out)
    folder = data_of((out / "index.html").read_bytes())["folder"]
    sizes = [STACK.stat().st_size, (KINDS / "checkpoint.pt").stat().st_size]
    assert folder["files"]["file"] == ["a b.ptl", "broken.ptl", "in/c.pt"]
    assert folder["files"]["page"] == ["a%20b.ptl.html", None, "in/c.pt.html"]
    assert folder["files"]["size"] == [sizes[0], None, sizes[1]]
    assert folder["files"]["state"] == ["", "not read", ""]
    assert "without its end" in folder["files"]["unread"][1]
    totals = dict(folder["totals"])
    assert (totals["files"], totals["not read"], totals["bytes"]) == (2, 1, sum(sizes))
    for name in ("a b.ptl", "in/c.pt"):
        assert data_of((out / f"{name}.html").read_bytes())["head"]["file"] == name.rpartition("/")[2]
    assert done.exit_code in (0, 2)
    again = called("report", models, "-o", out)
    assert isinstance(again.exception, archive.ArchiveError)
