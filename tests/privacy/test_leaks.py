"""What a file gives away: planted texts are found wherever they stand, and fixtures raise no false alarms."""

from __future__ import annotations

import io
import json
import lzma
import pickle
import zipfile
import zlib
from typing import TYPE_CHECKING

import pytest

from archive import ArchiveError, LeakKind, Limits, leaks
from archive.base.errors import DAMAGED
from archive.formats.record_kinds import RecordKind
from archive.privacy.leaks.sources import BY_LOOKS, sources
from tests.support.canaries import canary, planted, rewritten, with_records
from tests.support.corpus import FIXTURES, ORACLES, RELEASES
from tests.support.cost import loops_below
from tests.support.halves import embedded, halves
from tests.support.sampling import crossed

if TYPE_CHECKING:
    from pathlib import Path

    from archive import Leaks

NESTED = RELEASES / "torch-2.13.0" / "nested.ptl"
SMALL = ORACLES / "plain_unicode.ptl"
SHOP = FIXTURES / "exported" / "shop.pt2"
PERSONAL = {
    *(LeakKind.HOME, LeakKind.TEMPORARY, LeakKind.DRIVE, LeakKind.UNC),
    *(LeakKind.USER, LeakKind.HOST, LeakKind.EMAIL, LeakKind.URL, LeakKind.KEY),
}
"""Kinds of findings that no fixture has: its paths are made up."""
SAMPLE = 8
"""Files of a folder that are read, so many or a few more."""
MODELS = {".pt", ".ptl", ".pt2", ".etrecord", ".ptdbg", ".bin"}


def texts(found: Leaks, kind: LeakKind) -> set[str]:
    return {one.text for one in found.findings if one.kind is kind}


def in_record(name: str, data: bytes) -> Leaks:
    """What an archive gives away that has such a record besides."""
    return leaks(with_records(SMALL, {name: data}))


def read(path: Path) -> bytes:
    return lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()


@pytest.mark.parametrize(
    ("fixture", "records"),
    [
        ("releases/torch-1.2.0/traced.pt", 1),
        ("releases/torch-1.9.0/traced.ptl", 4),
        ("releases/torch-2.13.0/traced.pt", 4),
        ("releases/torch-2.13.0/traced-nostringtable.ptl", 4),
        ("oracles/plain_stack.ptl", 4),
        ("exported/shop.pt2", 1),
        ("exported/shop_strict.pt2", 1),
        ("exported/several.pt2", 2),
        ("executorch/shop.etrecord", 2),
        ("compiled/sources.pt2", 4),
        ("compiled/compiled.pt2.xz", 4),
    ],
)
def test_paths_that_are_planted_are_found_with_user_and_record(fixture: str, records: int) -> None:
    data, users = planted(read(FIXTURES / fixture))
    found = leaks(data)
    assert len(users) >= records
    assert texts(found, LeakKind.USER) == set(users.values())
    for record, user in users.items():
        homes = [one for one in found.findings if one.kind is LeakKind.HOME and f"/{user}/" in one.text]
        assert homes
        assert {place.record for one in homes for place in one.places} == {record}


def test_companions_alone_and_inside_have_what_was_split_off() -> None:
    data, users = planted((ORACLES / "plain_stack.ptl").read_bytes())
    for source in (halves(data).companion, embedded(data)[0]):
        assert texts(leaks(source), LeakKind.USER) == set(users.values())
    left = leaks(halves(data).out)
    assert not texts(left, LeakKind.USER)
    assert not left.counted()
    assert "extra/debug.ptdbg" in texts(leaks(embedded(data)[0]), LeakKind.COMPANION)


def test_a_place_is_that_of_the_text_in_the_inflated_record() -> None:
    data, _ = planted(SHOP.read_bytes())
    with zipfile.ZipFile(io.BytesIO(data)) as opened:
        stored = opened.read("shop/models/model.json")
    found = [one for one in leaks(data).findings if one.kind is LeakKind.HOME]
    assert len(found) == 5
    for one in found:
        at = one.places[0].byte
        assert at is not None
        assert stored[at:].startswith(one.text.encode())


FORMS = (
    "plain",
    "json",
    "json in json",
    "pickle",
    "old pickle",
    "utf-16, big-endian",
    "utf-16, little-endian",
    "zip",
)


TEXTS = [
    ("/home/ann/m.py", LeakKind.HOME, "/home/ann/m.py"),
    ("/Users/Ann Lee/dev/m.py", LeakKind.HOME, "/Users/Ann Lee/dev/m.py"),
    ("/root/m.py", LeakKind.HOME, "/root/m.py"),
    (r"C:\Users\ann\m.py", LeakKind.HOME, r"C:\Users\ann\m.py"),
    ("-I/home/ann/include", LeakKind.HOME, "/home/ann/include"),
    ("--prefix=/home/ann/a", LeakKind.HOME, "/home/ann/a"),
    ("/tmp/ab12/m.py", LeakKind.TEMPORARY, "/tmp/ab12/m.py"),  # noqa: S108 (a text)
    ("/private/var/folders/x/m.py", LeakKind.TEMPORARY, "/private/var/folders/x/m.py"),
    ("/usr/lib/python3/dist-packages/m.py", LeakKind.PACKAGES, "/usr/lib/python3/dist-packages/m.py"),
    (r"D:\build\m.py", LeakKind.DRIVE, r"D:\build\m.py"),
    (r"\\files01\team\m.py", LeakKind.UNC, r"\\files01\team\m.py"),
    (r"\\files01\team\m.py", LeakKind.HOST, "files01"),
    ("/srv/team/m.py", LeakKind.PATH, "/srv/team/m.py"),
    ("/Users/ann/m.py", LeakKind.USER, "ann"),
    (r"C:\Users\ann\m.py", LeakKind.USER, "ann"),
    ("mail ann.lee@example.com, please", LeakKind.EMAIL, "ann.lee@example.com"),
    ("see https://wiki.corp.example/x?y=1.", LeakKind.URL, "https://wiki.corp.example/x?y=1"),
    ("s3://team-bucket/models/a.pt", LeakKind.URL, "s3://team-bucket/models/a.pt"),
    ("at file://C:\\jobs\\net.py", LeakKind.URL, "file://C:\\jobs\\net.py"),
    ("AKIAIOSFODNN7EXAMPLE", LeakKind.KEY, "AKIAIOSFODNN7EXAMPLE"),
    ("ghp_" + "a1B2" * 9, LeakKind.KEY, "ghp_" + "a1B2" * 9),
    ("api_key = 'q8Zr2Lx0Vb7Kp3Wd9Ty5'", LeakKind.KEY, "q8Zr2Lx0Vb7Kp3Wd9Ty5"),
    ("-----BEGIN RSA PRIVATE KEY-----", LeakKind.KEY, "-----BEGIN RSA PRIVATE KEY-----"),
]
"""A text, and what is found of it."""


@pytest.mark.parametrize(
    ("text", "kind", "shown", "form"),
    [(*row, form) for row, form in crossed(TEXTS, FORMS, most=30)],
)
def test_a_text_is_found_in_every_form(text: str, kind: LeakKind, shown: str, form: str) -> None:
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr("a/note", text)
    data = {
        "plain": text.encode(),
        "json": json.dumps({"a": [text]}).encode().replace(b"/", b"\\/"),
        "json in json": json.dumps({"from_node": json.dumps([{"name": text}])}).encode(),
        "pickle": pickle.dumps({"a": text}, 2),
        "old pickle": pickle.dumps(["".join(map(str, range(30))), text, 1], 4),
        "utf-16, big-endian": b"\x80\x7f" + text.encode("utf-16-be") + b"\x80",
        "utf-16, little-endian": b"\x80\x7f" + text.encode("utf-16-le") + b"q.",
        "zip": inner.getvalue(),
    }[form]
    found = in_record("extra/note", data)
    assert shown in texts(found, kind)
    inside = "extra/note!note" if form == "zip" else "extra/note"
    places = [one.places[0].record for one in found.findings if (one.kind, one.text) == (kind, shown)]
    assert places == [inside]


@pytest.mark.parametrize(
    "text",
    [
        "torch/nn/modules/linear.py",
        "a /b/ c, x // y, 1/2/3, and/or/xor",
        "https://pytorch.org/docs/stable/generated/torch.nn.Linear.html",
        "x@y.T, self.w@x.weight, @torch.jit.script",
        r"re.compile(r'\\d+\\w+'), '\\n\\t'",
        "token = tokenizer_with_a_long_name_and_more",
        "sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "_ZN5torch8autograd12VariableHooks11set_versionERKN2at6TensorE",
    ],
)
def test_what_only_looks_like_it_is_no_finding(text: str) -> None:
    found = in_record("extra/note", text.encode())
    new = {(one.kind, one.text) for one in found.findings}
    old = {(one.kind, one.text) for one in leaks(SMALL).findings}
    assert {one for one in new - old if one[0] is not LeakKind.ID} == {(LeakKind.EXTRA, "extra/note")}


@pytest.mark.parametrize(
    "folder", ["releases", "oracles", "exported", "executorch", "compiled", "companions", "kinds"]
)
def test_fixtures_name_nobody(folder: str) -> None:
    files = sorted(path for path in (FIXTURES / folder).rglob("*") if path.suffix in MODELS)
    assert len(files) >= 2
    files = files[:: max(1, len(files) // SAMPLE)]
    for path in files:
        try:
            found = leaks(path)
        except ArchiveError:
            assert folder == "kinds" or path.name.endswith(".etdp.bin")  # what isn't a model
            continue
        assert not [one for one in found.findings if one.kind in PERSONAL]
        assert not found.problems


def test_source_text_is_the_models_own() -> None:
    found = texts(leaks(ORACLES / "plain_stack.ptl"), LeakKind.SOURCE)
    assert {"def _inner(self, x):", "return x + self._inner(x)"} <= found
    assert not {line for line in found if "F.linear" in line or "torch.relu" in line}  # PyTorch's own


def test_methods_that_pytorch_writes_itself_are_nobodys() -> None:
    found = texts(leaks(FIXTURES / "canaries" / "lowered.ptl"), LeakKind.SOURCE)
    assert "return self.zqloweredxz.forward(x, y) + 1  # zqcommentxz" in found
    assert not [line for line in found if "backend" in line or "__loweredModule__" in line]


def test_frames_without_source_are_no_source_text() -> None:
    frames = b'Traceback:\n  File "shop.py", line 23, in forward\n  File "", line 3, in run\n'
    found = in_record("note", frames)
    assert not [one for one in texts(found, LeakKind.SOURCE) if "line" in one]


def test_source_text_of_programs_is_that_of_frames() -> None:
    assert texts(leaks(SHOP), LeakKind.SOURCE) == {
        "a = self.price(self.goods(first))",
        "b = self.price(self.goods(second))",
        "return self.norm(self.smooth(self.rows(ids)))",
        "return torch.cat([a, b], 0).sum(), F.gelu(a).mean()",
    }


def test_comments_and_docstrings_are_told_apart_from_code() -> None:
    text = b'def f(x):\n    """Codename Falcon."""\n    # ask the other team\n    return x\n'
    assert texts(in_record("extra/f.py", text), LeakKind.COMMENT) >= {
        "Codename Falcon.",
        "ask the other team",
    }


@pytest.mark.parametrize(
    ("line", "comments"),
    [
        ('x = "number # of items"', []),
        ("x = f'{a} # of items'", []),
        ('x = "\\" # of items"', []),
        ('print("number # of items", x)  # our secret', ["our secret"]),
        ("x = 'it'  # don't tell", ["don't tell"]),
        ("we don't  # it's ours", ["it's ours"]),
        ('x = "a"  # said "here"', ['said "here"']),
        ("x = 1" + " " * 600 + "# far away", ["far away"]),
    ],
)
def test_a_mark_in_a_string_begins_no_comment(line: str, comments: list[str]) -> None:
    found = sources(RecordKind.EXTRA, line.encode())
    assert [one.text.decode() for one in found if one.kind is LeakKind.COMMENT] == comments


def test_comments_are_of_any_script_and_checksums_are_none() -> None:
    text = "x = 1  # 内部代号\n# größer als Müllers\n".encode() + b"PK\7\x08#e\xda\x950\0\0\0"
    found = texts(in_record("extra/f.py", text), LeakKind.COMMENT)
    assert found >= {"内部代号", "größer als Müllers"}
    assert not [one for one in found if one.startswith("e")]


def test_names_are_those_outside_of_pytorch() -> None:
    found = leaks(SHOP)
    assert texts(found, LeakKind.CLASS) == {"shop.Shop", "shop.Lookup"}
    assert {"goods.rows.weight", "towers.1.0.bias"} <= texts(found, LeakKind.ATTRIBUTE)
    assert texts(leaks(FIXTURES / "kinds" / "module.pt"), LeakKind.CLASS) == {"net.Net", "net.Affine"}


def test_records_that_are_findings_themselves() -> None:
    found = leaks(with_records(SHOP, {"extra/notes.txt": b"x"}))
    assert texts(found, LeakKind.INPUTS) == {"data/sample_inputs/model.pt"}
    assert texts(found, LeakKind.EXTRA) == {"extra/notes.txt"}
    assert texts(found, LeakKind.ROOT) == {"shop"}
    assert texts(leaks(FIXTURES / "executorch" / "shop.etrecord"), LeakKind.TIME) == {"2026-01-02 03:04:06"}


def test_tensors_are_passed_over_unless_asked_for() -> None:
    data = rewritten(NESTED.read_bytes(), lambda name, old: b"/home/ann/m.py" if name == "data/0" else old)
    found = leaks(data)
    assert found.passed_over >= 14
    assert not texts(found, LeakKind.HOME)
    deep = leaks(data, deep=True)
    assert deep.passed_over == 0
    assert texts(deep, LeakKind.HOME) == {"/home/ann/m.py"}


def test_a_zip_among_tensors_is_no_tensor() -> None:
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as opened:
        opened.writestr("a/note", "/home/ann/m.py")
    for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        out = io.BytesIO(NESTED.read_bytes())
        with zipfile.ZipFile(out, "a", compression) as target:
            target.writestr("nested/data/99", inner.getvalue())
        assert texts(leaks(out.getvalue()), LeakKind.HOME) == {"/home/ann/m.py"}


def test_what_stands_between_records_is_read() -> None:
    out = io.BytesIO(NESTED.read_bytes())
    with zipfile.ZipFile(out, "a") as target:
        target.comment = b"/home/ann/m.py"
    found = [one for one in leaks(out.getvalue()).findings if one.kind is LeakKind.HOME]
    at = found[0].places[0].byte
    assert at is not None
    assert out.getvalue()[at:] == b"/home/ann/m.py"


def test_texts_that_are_allowed_do_not_count() -> None:
    data = with_records(NESTED, {"note": b"/home/ann/m.py https://x.example/a /home/bob/m.py"})
    found = leaks(data, allow=["/home/ann/*", "user name=ann", "URL=*", "key=/home/bob/*"])
    allowed = {one.text for one in found.findings if one.allowed}
    assert allowed == {"/home/ann/m.py", "ann", "https://x.example/a"}
    assert {one.text for one in found.counted([LeakKind.HOME])} == {"/home/bob/m.py"}


def test_a_damaged_record_is_read_as_it_is_stored_and_named_once_with_all_that_is_wrong() -> None:
    data, text = bytearray(with_records(NESTED, {"note": b"/home/ann/m.py"})), b"/home/ann/m.py"
    byte = data.index(text)
    data[byte + 12] ^= 1
    found = leaks(bytes(data))
    assert texts(found, LeakKind.USER) == {"ann"}
    was, now = zlib.crc32(text), zlib.crc32(data[byte : byte + len(text)])
    what = f"{DAMAGED}: expected crc32 {was:#010x}, found {now:#010x}"
    assert found.problems == (f"note, byte {byte}: {what}; its stored bytes were read",)


def test_source_ranges_that_cannot_be_read_are_named_without_the_file(tmp_path: Path) -> None:
    path, record = tmp_path / "nested.pt", "code/__torch__/net.py.debug_pkl"
    path.write_bytes(with_records(NESTED, {record: b"\x80\x02no"}))
    (problem,) = leaks(path).problems
    assert problem.startswith(f"source ranges cannot be read, {BY_LOOKS}: {record}")
    assert str(path) not in problem


def test_what_is_not_read_is_refused_instead_of_called_clean() -> None:
    for name in ("script.pt.gz", "legacy_tar.pt", "pointer.pt", "empty.pt", "flatbuffer.ptl"):
        with pytest.raises(ArchiveError):
            leaks(FIXTURES / "kinds" / name)


def test_a_broken_zip_is_named(tmp_path: Path) -> None:
    file = tmp_path / "broken.pt"
    with zipfile.ZipFile(file, "w") as target:
        target.writestr("a/one", b"1")
        target.writestr("a/../../two", b"2")
    with pytest.raises(ArchiveError, match=r"^\S*broken\.pt: \.\./"):
        leaks(file)


def test_a_zip_in_a_zip_costs_no_more_memory_than_allowed() -> None:
    data = b"\0" * (64 << 20)
    for _ in range(2):
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as target:
            target.writestr("a/b", data)
        data = out.getvalue()
    with pytest.raises(ArchiveError, match="memory"):
        leaks(data, limits=Limits(memory=32 << 20))


@pytest.mark.parametrize(
    "text",
    [
        'File "a", line 1, in ',
        "/home/ann/ b",
        "/a",
        "a@a.",
        "# a",
        "http://",
        '"[{\\"',
        "token = ",
        "eyJaaaaaaaa.",
    ],
)
def test_a_text_costs_time_in_proportion_to_its_length(text: str) -> None:
    with loops_below(500):
        in_record("note", text.encode() * (150_000 // len(text)))


def test_planting_keeps_lengths() -> None:
    assert len(canary(7, 30)) == 30


def test_source_that_is_too_long_to_be_compared_or_cannot_be_read_is_told() -> None:
    found = leaks(NESTED, limits=Limits(compared_bytes=100))
    (told,) = found.problems
    assert (
        "compared with PyTorch's own, at most 100 are, so lines are source text by their looks, PyTorch"
        in told
    )
    assert texts(found, LeakKind.SOURCE) != texts(leaks(NESTED), LeakKind.SOURCE)
    assert not leaks(NESTED).problems
    broken = rewritten(
        NESTED.read_bytes(), lambda name, data: data[:-9] if name.endswith(".debug_pkl") else data
    )
    assert any(one.startswith("source ranges cannot be read, so ") for one in leaks(broken).problems)
