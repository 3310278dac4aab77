"""The data of a page equal what the library says of the file, byte for byte and position for position."""

from __future__ import annotations

import random
from bisect import bisect_right
from collections import Counter
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import pytest

import archive
from archive.base.errors import ArchiveError
from archive.base.strings import decoded
from archive.check.verify import verify
from archive.formats.record_kinds import code_of
from archive.page.facts import page_facts
from archive.page.shown import Shown
from archive.render.leaks import listed_only
from tests.support.canaries import planted_in
from tests.support.corpus import ARCHIVES, FIXTURES
from tests.support.sampling import sampled
from tests.support.tampering import PLAIN, STACK, UNICODE, tampered

if TYPE_CHECKING:
    from pathlib import Path

    from archive import Archive
    from archive.io.mapped import Mapped

KINDS = ("checkpoint.pt", "state_dict.pt", "module.pt", "package.pt", "package_python.pt", "tensor.pt")
OTHERS = sorted(
    [
        *(FIXTURES / "exported").glob("*.pt2"),
        *(FIXTURES / "exported" / "legacy").glob("*.pt2"),
        *(FIXTURES / "compiled").glob("*.pt2"),
        *(FIXTURES / "executorch").glob("*.etrecord"),
        *(FIXTURES / "canaries").glob("*.pt*"),
        *(FIXTURES / "kinds" / name for name in KINDS),
        *(path for path in (FIXTURES / "companions").rglob("*.ptdbg")),
    ]
)
FILES = [*ARCHIVES, *OTHERS]


def facts_of(path: Path | bytes, shown: Shown = Shown.FULL, **options: Any) -> dict[str, Any]:  # noqa: ANN401
    data = path if isinstance(path, bytes) else path.read_bytes()
    name = "model.pt" if isinstance(path, bytes) else path.name
    return page_facts(memoryview(data), name, shown, **options)


def units(text: str) -> int:
    """The length of a text as JavaScript counts it."""
    return len(text.encode("utf-16-le")) // 2


def cut(text: str, start: int, stop: int) -> str:
    """A part of a text, as JavaScript cuts it."""
    return text.encode("utf-16-le")[2 * start : 2 * stop].decode("utf-16-le")


class Pair:
    """One record of generated code in the data of a page, read as the page's script reads it."""

    def __init__(self, sources: dict[str, Any], record: dict[str, Any]) -> None:
        self.files, self.text = sources["files"], record["text"]
        self.at, self.start = list(accumulate(record["at"])), list(accumulate(record["from"]))
        self.file, self.length = record["file"], record["length"]

    def row(self, position: int) -> int:
        return bisect_right(self.at, position) - 1

    def shown(self, row: int) -> tuple[str, int, str] | None:
        """The file, line and text of a row's range; None where it has none."""
        if row < 0 or self.file[row] < 0:
            return None
        file, start = self.files[self.file[row]], self.start[row]
        at, line = file["lines"][bisect_right(file["lines"], [start, 1 << 60]) - 1]
        line += cut(file["text"], at, start).count("\n")
        return file["name"], line, cut(file["text"], start, start + self.length[row])


def pairs(opened: Archive, facts: dict[str, Any]) -> dict[str, Pair]:
    sources = facts.get("sources", {"records": []})
    shown = {record["name"]: Pair(sources, record) for record in sources["records"]}
    assert sorted(shown) == sorted({code_of(name) for name in opened.range_records} & set(opened.records))
    return shown


# --- sizes


@pytest.mark.parametrize("path", sampled(FILES, 40), ids=str)
def test_the_nodes_of_the_sizes_add_up_to_the_file(path: Path) -> None:
    facts = facts_of(path)
    sizes, size = facts["sizes"], path.stat().st_size
    assert (sum(sizes["stored"]), facts["head"]["size"]) == (size, size)
    assert min(sizes["stored"]) >= 0
    assert all(parent < row for row, parent in enumerate(sizes["parent"]))
    assert {len(column) for name, column in sizes.items() if name != "kinds"} == {len(sizes["name"])}
    assert "old" not in sizes


def test_the_first_level_is_what_the_library_counts() -> None:
    facts, account = facts_of(STACK), archive.sizes(STACK)
    sizes = facts["sizes"]
    sums: dict[str, int] = {}
    for kind, stored in zip(sizes["kind"], sizes["stored"], strict=True):
        sums[sizes["kinds"][kind]] = sums.get(sizes["kinds"][kind], 0) + stored
    with archive.open(STACK) as opened:
        names = {tensor.record for tensor in opened.tensors.values()}
        weights = sum(opened.records[name].stored_size for name in names)
    assert sums["debug info"] == account.debug_bytes == facts["head"]["debug_bytes"]
    assert sums["weights"] == weights
    container = ("local headers", "padding", "descriptors", "directory", "gaps")
    assert sums["container"] == sum(
        size.stored for kind, size in account.by("kind").items() if kind in container
    )


def test_tensors_stand_below_weights_by_the_steps_of_their_names() -> None:
    sizes = facts_of(STACK)["sizes"]

    def path(row: int) -> list[str]:
        return [] if row <= 0 else [*path(sizes["parent"][row]), sizes["name"][row]]

    paths = {".".join(path(row)): row for row in range(len(sizes["name"]))}
    with archive.open(STACK) as opened:
        for name, tensor in opened.tensors.items():
            row = paths[f"weights.{name}"]
            assert sizes["stored"][row] == opened.records[tensor.record].stored_size
            assert sizes["elements"][row] == tensor.count
            assert sizes["what"][row].startswith(f"{tensor.dtype} {tensor.shape[0]}")
            assert sizes["record"][row] == tensor.record


def test_an_older_file_has_its_own_column() -> None:
    old, new = STACK.read_bytes(), tampered(STACK, {"extra/more.txt": b"x" * 1000, PLAIN: None})
    sizes = facts_of(new, base=archive.sizes(old))["sizes"]
    assert (sum(sizes["old"]), sum(sizes["stored"])) == (len(old), len(new))
    rows = {name: row for row, name in enumerate(sizes["record"]) if name}
    assert (sizes["old"][rows["extra/more.txt"]], sizes["stored"][rows["extra/more.txt"]]) == (0, 1000)
    assert sizes["stored"][rows[PLAIN]] == 0 < sizes["old"][rows[PLAIN]]


def test_the_head_names_the_older_file() -> None:
    base = archive.sizes(STACK)
    assert facts_of(STACK, base=base)["head"]["base"] == str(STACK)
    assert facts_of(STACK, Shown.BASENAME, base=base)["head"]["base"] == STACK.name
    assert "base" not in facts_of(STACK)["head"]


def bytes_of(path: Path) -> dict[str, int]:
    """Stored bytes below the first two levels of the tree of sizes."""
    sizes = facts_of(path)["sizes"]
    sums: Counter[str] = Counter()
    paths = [""]
    for name, parent, stored in list(zip(sizes["name"], sizes["parent"], sizes["stored"], strict=True))[1:]:
        paths.append(f"{paths[parent]}/{name}" if paths[parent] else name)
        sums["/".join(paths[-1].split("/")[:1])] += stored
        sums["/".join(paths[-1].split("/")[:2])] += stored
    return sums


@pytest.mark.parametrize(
    "path",
    [FIXTURES / "executorch" / "shop.etrecord", FIXTURES / "exported" / "legacy" / "shop.pt2"],
    ids=str,
)
def test_zips_inside_are_no_weights_but_their_storages(path: Path) -> None:
    with archive.open(path) as opened:
        places = {tensor.record: opened.tensors.place_of(tensor.record) for tensor in opened.tensors.values()}
    weights = sum(place.size for place in places.values() if place is not None)
    found = bytes_of(path)
    assert found["weights"] == weights == archive.sizes(path).by("kind")["tensor"].stored > 0
    assert found["other/saved object"] > 0
    assert found["container/padding"] > 0


def test_what_torch_save_pickled_is_no_code() -> None:
    found = bytes_of(FIXTURES / "kinds" / "state_dict.pt")
    assert "code" not in found
    assert (
        found["other/saved object"]
        == archive.sizes(FIXTURES / "kinds" / "state_dict.pt").by("kind")["saved object"].stored
    )


def test_padding_behind_constants_is_no_weight() -> None:
    path = FIXTURES / "compiled" / "sources.pt2"
    with archive.open(path) as opened:
        weights = sum(tensor.bytes or 0 for tensor in opened.tensors.values())
    assert bytes_of(path)["weights"] == weights == 160  # of 192 bytes, in steps of 64


def test_each_node_of_the_sizes_has_a_name() -> None:
    path = FIXTURES / "kinds" / "tensor.pt"
    assert "(unnamed)" in facts_of(path)["sizes"]["name"]
    assert archive.sizes(path).by("weights")["(unnamed)"].stored == 8
    for path in sampled(FILES, 20):
        assert "" not in facts_of(path)["sizes"]["name"]


# --- sources


@pytest.mark.parametrize("path", sampled(ARCHIVES, 20), ids=str)
def test_every_row_is_what_a_plain_loop_says(path: Path) -> None:
    with archive.open(path) as opened:
        for name, pair in pairs(opened, facts_of(path)).items():
            code = bytes(opened.records[name].view())
            assert pair.text == decoded(code)
            for row, (at, ranged) in enumerate((one.offset, one.range) for one in opened.ranges(name)):
                assert pair.at[row] == units(decoded(code[:at]))
                if ranged.source.is_null:
                    assert pair.file[row] == -1
                    continue
                whole = bytes(ranged.source.text)
                start, end = min(ranged.start, len(whole)), min(ranged.end, len(whole))
                file = "" if ranged.source.filename is None else str(ranged.source.filename)
                assert pair.shown(row) == (file, ranged.line, decoded(whole[start:end]))


def test_two_hundred_random_positions_are_what_the_library_says_of_them() -> None:
    chosen, asked = random.Random(30), 0  # noqa: S311 (the same in each run)
    while asked < 200:
        path = chosen.choice(ARCHIVES)
        with archive.open(path) as opened:
            shown = pairs(opened, facts_of(path))
            for name in chosen.sample(sorted(shown), min(3, len(shown))):
                code, pair = bytes(opened.records[name].view()), shown[name]
                for near in [chosen.randrange(len(code)) for _ in range(5 if code else 0)]:
                    byte = len(code[:near].decode(errors="ignore").encode())  # where a character begins
                    ranged = opened.locate(name, byte)
                    found = pair.shown(pair.row(units(decoded(code[:byte]))))
                    if ranged is None or ranged.source.is_null:
                        assert found is None
                    else:
                        assert found is not None
                        assert found[1:] == (ranged.line, decoded(ranged.text))
                    asked += 1


def test_positions_beyond_the_bmp_and_in_text_that_is_no_utf_8_come_back() -> None:
    with archive.open(UNICODE) as opened:
        name = next(name for name in opened.records if name.endswith("models.py"))
        code = bytes(opened.records[name].view())
    changed = "# \U0001f40d\n".encode() + b"# \xff\xfe\n" + code
    data = tampered(UNICODE, {name: changed})
    facts = facts_of(data)
    with archive.open(data) as opened:
        pair = pairs(opened, facts)[name]
        assert pair.text.startswith("# \U0001f40d\n# \\xff\\xfe\n")
        offsets = [row.offset for row in opened.ranges(name)]
    assert pair.at == [units(decoded(changed[:at])) for at in offsets]


def test_fragments_of_a_file_stand_in_the_order_of_their_lines() -> None:
    (file,) = (one for one in facts_of(STACK)["sources"]["files"] if one["name"].endswith("plain.py"))
    numbers = [line for _, line in file["lines"]]
    assert numbers == sorted(set(numbers))
    starts = [at for at, _ in file["lines"]]
    assert starts[0] == 0
    assert all(cut(file["text"], at - 1, at) == "\n" for at in starts[1:])


# --- what is shown, and what is wrong


@pytest.mark.parametrize("kind", ["scripted.pt", "traced.ptl", "exported.pt2", "checkpoint.pt"])
def test_a_page_without_source_has_no_path_and_no_line_of_it(kind: str) -> None:
    path = FIXTURES / "canaries" / kind
    facts, tokens = facts_of(path, Shown.NONE), planted_in(path)
    gone = [token.token for token in tokens if token.goes in {"basename", "lines", "source"}]
    assert gone or kind == "checkpoint.pt"
    assert [token for token in gone if token in str(facts)] == []
    assert "/home/" not in str(facts)
    assert facts["head"]["source"] == "none"


def test_stacks_of_traced_operations_have_no_folders_either() -> None:
    path = FIXTURES / "oracles" / "traced_stack.ptl"
    whole, short = facts_of(path), facts_of(path, Shown.BASENAME)
    texts = [file["text"] for file in short["sources"]["files"]]
    assert [text for text in texts if "/" in text] == []
    assert any("/" in file["text"] for file in whole["sources"]["files"])
    assert sum(text.count("\n") for text in texts) == sum(
        file["text"].count("\n") for file in whole["sources"]["files"]
    )
    for record in short["sources"]["records"]:
        pair = Pair(short["sources"], record)
        for row, file in enumerate(pair.file):
            assert file < 0 or pair.start[row] + pair.length[row] <= units(texts[file])


def test_base_names_have_no_folders() -> None:
    files = facts_of(STACK, Shown.BASENAME)["sources"]["files"]
    assert files
    assert [file["name"] for file in files if "/" in file["name"]] == []


def test_the_findings_are_those_of_verify_and_leaks() -> None:
    data = tampered(STACK, {f"{PLAIN}.debug_pkl": b"broken"})
    facts = facts_of(data)
    findings = facts["findings"]
    rows = list(zip(*(findings[name] for name in ("from", "severity", "record", "message")), strict=True))
    found = [("verify", one.severity, one.record, one.message) for one in verify(data)]
    assert [row for row in rows if row[0] == "verify"] == found
    assert facts["head"]["verify"]["error"] == sum(one.severity == "error" for one in verify(data)) > 0
    told = archive.leaks(STACK)
    head = facts_of(STACK)["head"]
    assert sum(dict(head["leaks"]).values()) == len(told.counted())
    line = listed_only(told, told.counted())
    assert line == "not counted: " + ", ".join(f"{kind} {count}" for kind, count in head["not_counted"])
    assert rows_of(facts_of(STACK), "leaks", "note") == sum(dict(head["not_counted"]).values()) > 0


def rows_of(facts: dict[str, Any], command: str, severity: str) -> int:
    """How many findings of a command have a severity."""
    pairs = zip(facts["findings"]["from"], facts["findings"]["severity"], strict=True)
    return sum(pair == (command, severity) for pair in pairs)


def test_texts_that_are_not_listed_are_counted_as_leaks_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archive.page.findings.MOST_LEAKS", 3)
    monkeypatch.setattr("archive.privacy.leaks.findings.MOST_TEXTS", 4)
    found, facts = archive.leaks(STACK), facts_of(STACK)
    assert found.more
    assert f"leaks: {len(found.findings) - 3} further texts" in facts["left_out"]
    for kind, count in found.more.items():
        assert f"leaks: {kind}: {count} more, of texts that are not listed" in facts["left_out"]


def test_a_file_that_cannot_be_searched_is_not_said_to_give_nothing_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(file: Mapped, **_: object) -> None:
        raise ArchiveError("too much", file=file.name)

    monkeypatch.setattr("archive.page.findings.leaks", broken)
    facts = facts_of(STACK)
    assert facts["head"]["leaks"] is None
    assert f"leaks: not searched: {STACK.name}: too much" in facts["left_out"]


def test_gates_are_named_by_the_file_and_those_of_lite_are_not_looked_at(tmp_path: Path) -> None:
    old = FIXTURES / "releases" / "torch-1.2.0" / "consts.pt"
    refused = gates_of(facts_of(old))["migrate"]
    assert refused == [f"{old.name}: {str(refusal(old)).partition(': ')[2]}"]
    gates = gates_of(facts_of(STACK))
    assert ["runs its code" in message for message in gates["lite"]] == [True]
    assert "symbolicate" not in gates
    assert "handles" in gates_of(facts_of(FIXTURES / "canaries" / "scripted.pt"))["symbolicate"][0]
    archive.split(STACK, tmp_path / "small.ptl", tmp_path / "small.ptdbg")
    for companion in (None, tmp_path / "small.ptdbg"):
        facts = facts_of(tmp_path / "small.ptl", companion=companion)
        told = [text for text in facts["left_out"] if "companion was not searched" in text]
        assert len(told) == (companion is not None)
        gates = gates_of(facts)
        assert ["`join`" in message for message in gates["migrate"]] == [True]
        assert len(gates["lite"]) == 1


def gates_of(facts: dict[str, Any]) -> dict[str, list[str]]:
    """What commands other than ``verify`` and ``leaks`` say."""
    said: dict[str, list[str]] = {}
    for command, message in zip(facts["findings"]["from"], facts["findings"]["message"], strict=True):
        if command not in {"verify", "leaks"}:
            said.setdefault(command, []).append(message)
    return said


def refusal(path: Path) -> ArchiveError:
    """Why an archive is not migrated."""
    with pytest.raises(ArchiveError) as refused:
        archive.migrate(path, to="latest", dry_run=True)
    return refused.value


def test_a_broken_section_is_left_out_and_said() -> None:
    data = tampered(STACK, {f"{PLAIN}.debug_pkl": b"broken"})
    facts = facts_of(data)
    assert "sources" not in facts
    assert [text for text in facts["left_out"] if text.startswith("sources: ") and "debug_pkl" in text]
    assert sum(facts["sizes"]["stored"]) == len(data)
