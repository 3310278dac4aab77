"""Bounds: what a file may cost follows from its size, and whoever needs more is told how to allow it."""

from __future__ import annotations

from dataclasses import astuple

import pytest

from archive.base import memory
from archive.base.errors import ArchiveError, LimitError
from archive.base.limits import DEFAULT_LIMITS, Allowance, Limits, Steps
from archive.base.spending import Recent, Spending

MIB = 1 << 20


# --- memory


def test_the_memory_that_a_file_may_cost_follows_from_its_size() -> None:
    assert DEFAULT_LIMITS.allowance(0).memory == 64 * MIB
    assert DEFAULT_LIMITS.allowance(1000).memory == 64 * MIB + 256_000
    assert Limits(memory=5).allowance(1000).memory == 5
    assert Limits(depth=7).allowance(0).limits.depth == 7


def test_what_nobody_sent_may_cost_what_there_is() -> None:
    memory.take(1 << 50)
    memory.current().take(1 << 50)
    assert memory.limits() == memory.current().limits == DEFAULT_LIMITS


def test_memory_is_asked_for_before_it_is_had() -> None:
    allowance = Limits(memory=100).allowance(0)
    allowance.take(60)
    with pytest.raises(LimitError) as raised:
        allowance.take(41, "lines", record="code/m.py", place="byte 7")
    assert str(raised.value) == (
        "code/m.py, byte 7: memory is limited to 100, found 101 with lines; "
        "if you trust the file: --limit memory=256"
    )
    assert (raised.value.resource, raised.value.limit, raised.value.actual) == ("memory", 100, 101)
    assert (allowance.taken, allowance.peak) == (60, 60)
    allowance.take(40)
    allowance.give(70)
    assert (allowance.taken, allowance.peak) == (30, 100)


def test_what_is_lent_is_given_back_however_the_block_ends() -> None:
    allowance = Limits(memory=100).allowance(0)
    with memory.charged(allowance), memory.lent(80, "texts"):
        assert allowance.taken == 80
    with pytest.raises(KeyError), memory.charged(allowance), memory.lent(90):
        raise KeyError
    assert (allowance.taken, allowance.peak) == (0, 90)
    with (
        pytest.raises(LimitError, match="found 101 with texts") as raised,
        memory.charged(allowance),
        memory.lent(101, "texts", record="a", place="b"),
    ):
        pass
    assert (raised.value.record, raised.value.place) == ("a", "b")


def test_a_part_shares_the_whole_s_memory_and_gives_all_back() -> None:
    whole = Limits(memory=100, depth=3).allowance(0)
    whole.take(50)
    with memory.charged(whole), memory.part() as part:
        assert part.limits.depth == 3
        part.take(20)
        part.give(5)
        assert (part.taken, part.peak, whole.taken) == (15, 20, 65)
        with pytest.raises(LimitError) as raised:
            part.take(40, "columns", record="r", place="p")
        assert (raised.value.limit, raised.value.actual) == (100, 105)
        assert (raised.value.record, raised.value.place) == ("r", "p")
        assert (part.taken, whole.taken) == (15, 65)
    assert (whole.taken, whole.peak) == (50, 70)
    with pytest.raises(LimitError), memory.charged(whole), memory.part() as part:
        take_too_much(part)
    assert whole.taken == 50


def take_too_much(part: Allowance) -> None:
    part.take(50)
    part.take(1)


def test_the_usual_bounds() -> None:
    assert astuple(DEFAULT_LIMITS) == (None, 1_000, 4_096, 4_096, 16 * MIB, 262_144, 256, 100, 1_024 * MIB)


def test_limits_are_shown_by_what_is_not_usual() -> None:
    assert repr(DEFAULT_LIMITS) == "Limits()"
    assert repr(Limits(memory=5, depth=1_000, work=1)) == "Limits(memory=5, work=1)"


@pytest.mark.parametrize(
    ("actual", "named"),
    [
        (1, "4"),
        (511, "1024"),
        (512, "2K"),
        (600_000, "2M"),
        (524_287, "1024K"),
        (524_288, "2M"),
        (67_108_865, "256M"),
        (1 << 29, "2G"),
        (1 << 40, "4096G"),
    ],
)
def test_the_message_names_a_round_bound_well_above(actual: int, named: str) -> None:
    assert str(LimitError("work", 0, actual)).endswith(f"--limit work={named}")


# --- work and output


def test_steps_are_counted_before_they_are_taken() -> None:
    steps = Steps(10)
    steps.take()
    steps.take(9)
    assert (steps.most, steps.taken) == (10, 10)
    with pytest.raises(LimitError, match="work is limited to 10, found 11"):
        steps.take()


SMALL = Limits(work=10, output=100)


def test_a_log_may_take_more_steps_the_longer_it_is() -> None:
    spending = Spending(SMALL)
    spending.count(160, 0)  # sixteen failures without a log
    with pytest.raises(LimitError, match="work is limited to 160, found 161"):
        spending.count(1, 0)
    assert list(spending.counted([b"12345", b"67890"])) == [b"12345", b"67890"]
    assert spending.read == 10
    spending.count(200 - 161, 0)  # four more for each byte
    with pytest.raises(LimitError, match="work is limited to 200, found 201"):
        spending.count(1, 0)


def test_explanations_may_have_more_bytes_the_longer_the_log_is() -> None:
    spending = Spending(SMALL)
    assert spending.most_output == 400
    spending.count(0, 400)
    with pytest.raises(LimitError, match="output is limited to 400, found 401"):
        spending.count(0, 1)
    assert list(spending.counted([b"7"])) == [b"7"]
    assert spending.most_output == 400 + 256


def test_a_failure_has_its_own_steps_as_long_as_the_log_has_some_left() -> None:
    spending = Spending(SMALL)
    with spending.one_failure() as steps:
        assert steps.most == 10
        steps.take(9)
    spending.count(146, 0)
    with spending.one_failure() as steps:
        assert steps.most == 5
        with pytest.raises(LimitError):
            steps.take(10)
    with spending.one_failure() as steps:
        assert (spending.steps, steps.most) == (165, 0)


def test_an_explanation_is_written_only_if_it_and_all_together_are_short_enough() -> None:
    spending = Spending(SMALL)
    assert [spending.write(size) for size in (101, 100, 100, 100, 100, 1)] == [False] + [True] * 4 + [False]
    assert spending.output == 400


def test_values_seen_before_are_kept_until_they_weigh_too_much() -> None:
    recent: Recent[str, int] = Recent(10)
    assert recent.get("a") is None
    assert recent.keep("a", 1, 6) == 1
    assert recent.keep("b", 2, 4) == 2
    assert (recent.get("a"), recent.get("b")) == (1, 2)
    assert recent.keep("c", 3, 1) == 3  # forgets all that was kept
    assert (recent.get("a"), recent.get("b"), recent.get("c")) == (None, None, 3)
    assert recent.keep("d", 4, 9) == 4
    assert (recent.get("c"), recent.get("d")) == (3, 4)
    assert recent.keep("e", 5, 11) == 5  # too heavy to be kept at all
    assert (recent.get("d"), recent.get("e")) == (None, None)
    assert recent.keep("f", 6, 10) == recent.get("f") == 6  # as heavy as all may be


def test_a_limit_error_is_an_error_of_the_archive() -> None:
    assert issubclass(LimitError, ArchiveError)
