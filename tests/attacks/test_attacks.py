"""Every attack ends in time and within its budget, with a status of its own, and runs nothing."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING

import pytest

from tests.attacks import payloads
from tests.attacks.attack import LEAST, MARKER, MIB, PER_BYTE, STATUSES, Attack, problems
from tests.attacks.catalogue import ATTACKS
from tests.attacks.not_yet import NOT_YET
from tests.attacks.pieces import ranges
from tests.attacks.records import ONE_LINE
from tests.attacks.running import Outcome, Runner, run_attack
from tests.attacks.zips import entry, zipped
from tests.support.commands import run
from tests.support.sampling import crossed, sampled
from tools import attack_table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def listed(names: Iterator[str]) -> list[object]:
    """Names as parameters; those that are not mended yet are expected to fail."""
    marks = {name: pytest.mark.xfail(reason=reason, strict=True) for name, reason in NOT_YET.items()}
    return [pytest.param(name, marks=[marks[name]] if name in marks else []) for name in names]


PAIRS = sampled(
    ((name, command) for name, attack in ATTACKS.items() for command in attack.commands),
    most=24,
    by=(lambda pair: pair[1].split()[0],),
)
"""Attacks with their commands: each command is among them."""
COMMANDS = {name: [command for attacking, command in PAIRS if attacking == name] for name, _ in PAIRS}


def statuses_of(name: str) -> set[int]:
    """What the commands of an attack end with, as the page has it."""
    words = attack_table.read()[name]["here"].partition(";")[0].split(", ")
    return {status for status, word in attack_table.STATUSES.items() if word in words}


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    with Runner() as started:
        started.calibrate(tmp_path_factory.mktemp("calibration"))
        yield started


@pytest.mark.parametrize("name", listed(name for name in COMMANDS if name not in payloads.ATTACKS))
def test_an_attack_costs_no_more_than_its_budget(name: str, runner: Runner, tmp_path: Path) -> None:
    attack = ATTACKS[name]._replace(commands=tuple(COMMANDS[name]))
    files = attack.files()
    found = set()
    for command, outcome in run_attack(runner, attack, files, tmp_path):
        assert (command, problems(attack, files, outcome)) == (command, [])
        found.add(outcome.status)
    known = statuses_of(name)
    assert found == known if len(attack.commands) == len(ATTACKS[name].commands) else found <= known


READERS = {"inspect", "verify", "sizes", "leaks", "digest"}
"""Commands whose first argument is a file that a report may be about."""
READ = dict.fromkeys(
    (name, words[1])
    for name, attack in ATTACKS.items()
    for words in map(str.split, attack.commands)
    if words[0] in READERS and not words[1].startswith("-")
)
"""Attacks with their files: a report and an inventory take what every other command reads."""


@pytest.mark.parametrize(
    ("read", "more"), crossed(sampled(READ, most=8), ["", " --digest", " --leaks", " --verify"], most=8)
)
def test_an_inventory_costs_no_more_than_the_budget(
    read: tuple[str, str], more: str, runner: Runner, tmp_path: Path
) -> None:
    name, file = read
    command = f"inspect {file} --inventory --json{more}"
    attack = ATTACKS[name]._replace(commands=(command,), statuses=frozenset({0, 2}))
    files = attack.files()
    for _, outcome in run_attack(runner, attack, files, tmp_path):
        assert problems(attack, files, outcome) == []


@pytest.mark.parametrize(("name", "file"), sampled(READ, most=4))
def test_a_report_costs_no_more_than_the_budget(name: str, file: str, runner: Runner, tmp_path: Path) -> None:
    attack = ATTACKS[name]._replace(commands=(f"report {file} -o page.html",), statuses=STATUSES)
    files = attack.files()
    for _, outcome in run_attack(runner, attack, files, tmp_path):
        assert problems(attack, files, outcome) == []


PAYLOADS = sampled(
    ((name, command) for name, attack in payloads.ATTACKS.items() for command in attack.commands),
    most=300,
    by=(itemgetter(0), itemgetter(1)),
)
"""Payloads with commands: each payload is among them, and each command with each record."""


@pytest.mark.parametrize("name", payloads.ATTACKS)
def test_no_command_runs_a_payload(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    attack = payloads.ATTACKS[name]
    for file, data in attack.files().items():
        (tmp_path / file).write_bytes(data)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    found = set()
    commands = [command for attacking, command in PAYLOADS if attacking == name]
    for command in commands:
        done = run(*command.split(), stdin=attack.log)
        assert (command, done.returncode in attack.statuses) == (command, True)
        assert b"Traceback" not in done.stderr
        found.add(done.returncode)
    known = statuses_of(name)
    assert found == known if len(commands) == len(attack.commands) else found <= known
    assert not (tmp_path / MARKER).exists()


# --- the tests' own measures


def measured(**fields: object) -> list[str]:
    """What is wrong with an outcome that is well but for some fields."""
    well = Outcome(status=0, memory=0, loops=0.0, output=0, errors="", executed=False)
    return problems(Attack("", dict, ()), {}, well._replace(**fields))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("field", "value", "found"),
    [
        ("status", -9, "exit status -9"),
        ("status", 70, "exit status 70"),
        ("errors", "Traceback (most recent call last):\nKeyError: 'x'", "a traceback: KeyError: 'x'"),
        ("memory", LEAST + MIB, "65 MiB of memory, not 64"),
        ("loops", 1_001.0, "1,001 loops of CPU, not 1,000"),
        ("output", LEAST + 1, "67,108,865 bytes of output, not 67,108,864"),
        ("executed", True, "the payload ran"),
    ],
)
def test_each_problem_is_found(field: str, value: object, found: str) -> None:
    assert measured(**{field: value}) == [found]
    assert measured() == []


def test_memory_and_time_are_measured(runner: Runner, tmp_path: Path) -> None:
    record = ranges(bytes(range(32, 127)) * 100_000)
    entries = [entry(f"m/{name}", data) for name, data in ONE_LINE.items() if "debug" not in name]
    listed = [*entries, entry("m/code/m.py.debug_pkl", record), entry("m/version", b"3\n")]
    (tmp_path / "m.pt").write_bytes(zipped(*listed))
    outcome = runner.run("verify m.pt", tmp_path, 1_000)
    assert outcome.status == 0
    assert 5 * MIB < outcome.memory < LEAST + PER_BYTE * len(record)
    assert outcome.loops > 0.1
    assert outcome.output >= len("m.pt: well\n")


def test_a_payload_that_runs_is_seen(runner: Runner, tmp_path: Path) -> None:
    (tmp_path / MARKER).touch()
    assert runner.run("inspect nothing.pt", tmp_path, 1_000).executed


@pytest.mark.parametrize("name", NOT_YET)
def test_what_is_not_mended_is_an_attack(name: str) -> None:
    assert name in ATTACKS


# --- The page of attacks shows what was measured, and every attack


ROWS = attack_table.read()


def test_the_page_is_made_of_the_data() -> None:
    assert attack_table.DATA.read_text("utf-8") == attack_table.written(ROWS)
    assert attack_table.PAGE.read_text("utf-8") == attack_table.HEAD + attack_table.table(ROWS)


def test_each_attack_has_a_row() -> None:
    assert list(ROWS) == list(ATTACKS)


def test_the_readme_counts_them() -> None:
    assert f"| {len(ATTACKS)} attacks: " in (attack_table.PAGE.parents[2] / "README.md").read_text("utf-8")


def test_the_attacks_that_succeed_are_those_that_are_not_mended() -> None:
    assert {name for name, row in ROWS.items() if row["here"] == attack_table.SUCCEEDS} == set(NOT_YET)


def test_nothing_runs_here_and_payloads_run_in_pytorch() -> None:
    tame = {"payload by NEWOBJ", "payload by NEWOBJ_EX", "payload by EXT", "payload by PERSID"}
    run = {name for name, row in ROWS.items() if "runs it" in row["torch.load"]}
    assert run & set(payloads.ATTACKS) == set(payloads.ATTACKS) - tame
    assert not any("runs it" in row["here"] for row in ROWS.values())


@pytest.mark.parametrize(
    ("found", "words"), [([0], "well"), ([2, 2], "refused"), ([2, 0, 1, 0], "well, findings, refused")]
)
def test_statuses_in_words(found: list[int], words: str) -> None:
    assert attack_table.statuses(found) == words
