"""A made-up debug record becomes known to a copy of the library, in the two levels of CONTRIBUTING.

``mobile_notes.pkl`` is ``((handle, text), ...)``.
"""

import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest

import archive
from archive.container.serialization_id import RECORD_NAME, serialization_id
from archive.container.write import member_from, new_member, write_archive
from tests.support.corpus import ORACLES
from tests.support.processes import Forks

RECORD = "mobile_notes.pkl"
MODEL = ORACLES / "lowered_ok.ptl"
LAST_ROW = "    DebugRecord(RecordKind.ASIDE, MIGRATED),\n"

CARRIED = {
    "formats/record_kinds.py": {
        '    COMPANION = "embedded companion"\n': '    NOTES = "notes of operators"\n',
        LAST_ROW: f'    DebugRecord(RecordKind.NOTES, "{RECORD}"),\n',
    }
}
"""Lines by the line that they stand before, in each file."""

UNDERSTOOD = {
    "formats/record_kinds.py": CARRIED["formats/record_kinds.py"]
    | {
        LAST_ROW: f'    DebugRecord(RecordKind.NOTES, "{RECORD}", has_columns=True),\n',
    },
    "reader/archive.py": {
        "    # Facts\n": f"""    @property
    def notes(self):
        from archive.formats.notes import notes_of

        return notes_of(self.tree(["{RECORD}"])) if "{RECORD}" in self.records else {{}}

"""
    },
    "check/methods.py": {
        "    if EFFECTS in readable:\n": f"""    if "{RECORD}" in readable:
        report.attempt("{RECORD}", lambda: archive.notes)
"""
    },
    "compare/debug.py": {
        "    was, now = old.method_records, new.method_records\n": f"""
    for handle in old.notes.keys() | new.notes.keys():
        if old.notes.get(handle) != new.notes.get(handle):
            said = (str(one.notes.get(handle)) for one in (old, new))
            yield changed(Level.DEBUG, f"note of handle {{handle}}", "{RECORD}", *said)
"""
    },
    "describe/inspect.py": {
        "    if archive.bytecode is not None:\n": f"""    if archive.notes:
        yield "{RECORD}", f"{{len(archive.notes):,}} notes"
"""
    },
}
NOTES = '''"""Notes."""

import numpy as np

from archive.formats.schema.pickled import Int, Sequence, String, Tuple, parse

SCHEMA = Sequence(Tuple(handle=Int(), text=String()))


def notes_of(tree):
    notes = parse(SCHEMA, tree, np.array([0]))
    texts = [str(tree.strings[int(row)]) for row in notes.items["text"]]
    return dict(zip(notes.items["handle"].tolist(), texts, strict=True))
'''


IMPORTS = """
import importlib, pathlib
for path in sorted(pathlib.Path("archive").rglob("*.py")):
    if not {"backend", "demo", "effects", "model_explorer", "server", "__main__.py"} & {*path.parts}:
        importlib.import_module(".".join(path.with_suffix("").parts).removesuffix(".__init__"))
"""
"""All of the copy that needs neither PyTorch nor Model Explorer."""


class Library:
    """A copy of the library with some more lines.

    Args:
        folder: where it is put.
        changes: lines by file.
        new: whole files.
    """

    def __init__(self, folder: Path, changes: dict[str, dict[str, str]], new: dict[str, str]) -> None:
        self._folder = folder
        package = folder / "archive"
        shutil.copytree(Path(archive.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
        for name, lines in changes.items():
            text = (package / name).read_text()
            for before, line in lines.items():
                assert text.count(before) == 1, before
                text = text.replace(before, line + before)
            (package / name).write_text(text)
        for name, text in new.items():
            (package / name).write_text(text)
        self._forks = Forks(IMPORTS, folder)

    def run(self, *words: object, status: int = 0, is_error: bool = False) -> str:
        """What a command prints, or says on standard error; it ends with this status."""
        done = self._forks.run("from archive.cli import main; main()", words, self._folder)
        assert done.returncode == status, done.stderr
        return done.stderr if is_error else done.stdout

    def json(self, *words: object, status: int = 0) -> Any:  # noqa: ANN401 (read by its keys)
        return json.loads(self.run(*words, "--json", status=status))["files"][0]


def with_notes(path: Path, notes: object) -> Path:
    """The model's archive with notes, and the serialization id that goes with them."""
    with archive.open(MODEL) as opened:
        *members, _ = map(member_from, opened.container.records.values())
        members.append(new_member(RECORD, pickle.dumps(notes, protocol=2)))
        own_id = new_member(RECORD_NAME, serialization_id(members).encode())
        with path.open("wb") as out:
            write_archive(out, opened.container.root, [*members, own_id])
    return path


@pytest.fixture(scope="module")
def carrying(tmp_path_factory: pytest.TempPathFactory) -> Library:
    return Library(tmp_path_factory.mktemp("carried"), CARRIED, {})


@pytest.fixture(scope="module")
def understanding(tmp_path_factory: pytest.TempPathFactory) -> Library:
    return Library(tmp_path_factory.mktemp("understood"), UNDERSTOOD, {"formats/notes.py": NOTES})


def test_so_many_files_are_touched() -> None:
    assert len(CARRIED) == 1
    assert len(UNDERSTOOD) + 1 == 6  # and the record's own module


def test_a_carried_record_goes_where_debug_info_goes(carrying: Library, tmp_path: Path) -> None:
    model = with_notes(tmp_path / "model.ptl", ((1, "a note"),))
    other = with_notes(tmp_path / "other.ptl", ((1, "another"),))
    small, companion, joined = (tmp_path / name for name in ("small.ptl", "model.ptdbg", "joined.ptl"))
    carrying.run("split", model, "-o", small, "-c", companion)
    with archive.open(small) as opened:
        assert RECORD not in opened.records
    carrying.run("join", small, "-c", companion, "-o", joined)
    assert joined.read_bytes() == model.read_bytes()

    records = carrying.json("inspect", model)["records"]
    assert records[RECORD]["kind"] == "notes of operators"
    sizes = carrying.json("sizes", model)
    assert sizes["labels"]["notes of operators"]["stored"] == records[RECORD]["stored_size"]
    assert (
        sizes["debug_bytes"] == carrying.json("sizes", MODEL)["debug_bytes"] + records[RECORD]["stored_size"]
    )
    assert carrying.run("verify", model) == carrying.run("verify", MODEL).replace(str(MODEL), str(model))

    diff = carrying.json("diff", model, other, status=1)
    assert diff["same_model"]
    changes = [(change["level"], change["name"]) for change in diff["changes"]]
    assert changes == [("debug", RECORD), ("ids", RECORD_NAME)]
    digests = {line.split()[0] for line in carrying.run("digest", model, other, MODEL).splitlines()}
    assert len(digests) == 1


def test_a_record_that_no_migration_rewrites_is_lost_only_with_consent(
    carrying: Library, tmp_path: Path
) -> None:
    model = with_notes(tmp_path / "model.ptl", ((1, "a note"),))
    migrated, again = tmp_path / "migrated.ptl", tmp_path / "again.ptl"
    words = "migrate", model, "-o", migrated, "--to", "1.11"
    told = carrying.run(*words, status=2, is_error=True)
    assert f"the facts of {RECORD}" in told
    assert "--lossy" in told
    assert not migrated.exists()
    carrying.run(*words, "--lossy")
    with archive.open(migrated) as opened:
        assert RECORD not in opened.records
    carrying.run("migrate", migrated, "-o", again, "--to", "original")
    assert again.read_bytes() == model.read_bytes()


def test_an_understood_record_is_checked_and_compared_by_what_it_says(
    understanding: Library, tmp_path: Path
) -> None:
    model = with_notes(tmp_path / "model.ptl", ((1, "a note"),))
    other = with_notes(tmp_path / "other.ptl", ((1, "another"),))
    broken = with_notes(tmp_path / "broken.ptl", ((1, "a note"), (2, None)))
    assert understanding.json("inspect", model)["records"][RECORD]["holds"] == "1 notes"
    change, _ = understanding.json("diff", model, other, status=1)["changes"]
    assert (change["what"], change["old"], change["new"]) == ("note of handle 1", "a note", "another")
    told = f"{broken}: error: {RECORD}, row 1, field text: expected a str, found None"
    assert told in understanding.run("verify", broken, status=1).splitlines()
