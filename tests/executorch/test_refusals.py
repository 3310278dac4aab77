"""Inputs and methods that ExecuTorch's runtime refuses: an ETRecord says what the method takes.

``NAME.refused.txt`` is what ExecuTorch 1.5 printed of calls of the programs that ``NAME.etrecord`` is of.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

import archive
from archive.app.explaining import explainer_of
from archive.app.sources import models_in
from archive.failures.explainer import LogExplainer
from archive.formats.exported.inputs import ProgramInput
from tests.support.corpus import FIXTURES

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = FIXTURES / "executorch"
TAKEN = {
    "shop": {"forward": ["first, int64 of shape (3,)", "second, int64 of shape (3,)"]},
    "methods": {
        "forward": ["ids, int64 of shape (2,)"],
        "words": ["ids, int64 of shape (2,)", "more, float32 of shape (4,)"],
        "later": ["ids, int64 of shape (2,)"],
    },
    "sized": {
        "forward": ["x, float32 of shape (s77, 2), s77 from 4", "y, float32 of shape (s17, 2), s17 from 2"]
    },
}
"""What each method takes, as its model's source declares it and the example has it."""
LINE = re.compile(
    r"\[\w+\.cpp:\d+\] (?:Input (\d) has|Error resizing tensor at input (\d)|.*number of inputs|No method).*"
)


def calls(name: str) -> Iterator[tuple[list[str], str]]:
    """The lines that a call printed, and the method that it was of."""
    lines = list[str]()
    for line in (FOLDER / f"{name}.refused.txt").read_text("utf-8").splitlines():
        lines.append(line)
        if line.startswith("RuntimeError: "):
            method = re.search(r"(?:method|method_meta for) (\w+),", line)
            assert method is not None
            yield lines, method[1]
            lines = []


def explained(text: str, name: str) -> tuple[str, LogExplainer]:
    with archive.open(FOLDER / f"{name}.etrecord") as opened:
        explainer = LogExplainer.of(opened)
        return b"".join(explainer.explain([text.encode()])).decode(), explainer


def log(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def expected(name: str, line: str, method: str) -> str:
    """What stands below a line that refuses something."""
    found = LINE.fullmatch(line)
    assert found is not None
    number = found[1] or found[2]
    if method == "absent":
        return f"The methods are {', '.join(sorted(TAKEN[name]))}"
    taken = TAKEN[name][method]
    if number:
        return f"Input {number} of method {method}: {taken[int(number)]}"
    return f"Method {method} takes {len(taken)} input{'s' * (len(taken) > 1)}: {'; '.join(taken)}"


@pytest.mark.parametrize("name", TAKEN)
def test_what_the_method_takes_stands_below_the_line_that_refuses_it(name: str) -> None:
    for lines, method in calls(name):
        text, explainer = explained(log(lines), name)
        at = next(at for at, line in enumerate(lines) if LINE.fullmatch(line))
        assert text == log([*lines[: at + 1], expected(name, lines[at], method), *lines[at + 1 :]])
        assert (explainer.explained, explainer.unknown, explainer.notes) == (1, 0, [])
        again, explainer = explained(text, name)
        assert (again, explainer.explained, explainer.unknown) == (text, 0, 0)


CHANGES = {
    r"expected (?:Long|Float)": "expected Half",
    r"old=\d": "old=7",
    r"Expected shape \(\d\)": "Expected shape (5)",
    r"Expected shape \((\d)\)": r"Expected shape (\1, \1)",
    r"in method \(\d\)": "in method (6)",
    r"at input \d": "at input 9",
    r"Input \d has": "Input 9 has",
    r"No method named 'absent'": "No method named 'forward'",
    r"method (?:forward|words|later),": "method other,",
}


@pytest.mark.parametrize("name", TAKEN)
@pytest.mark.parametrize(("old", "new"), CHANGES.items())
def test_what_the_record_contradicts_is_not_explained_by_it(name: str, old: str, new: str) -> None:
    changed = [(lines, re.sub(old, new, log(lines))) for lines, _ in calls(name)]
    tried = [text for lines, text in changed if text != log(lines)]
    assert tried or (name, old[:8]) == ("sized", "Expected")
    for text in tried:
        out, explainer = explained(text, name)
        assert (out, explainer.explained, explainer.unknown, len(explainer.notes)) == (text, 0, 1, 1)


BOUNDED = """[tensor_impl.cpp:156] Attempted to resize a bounded tensor with a maximum capacity of 8 elements to 9 elements.
[method.cpp:1243] Error resizing tensor at input 0
"""  # noqa: E501 (as the runtime prints it)


def test_sizes_that_differ_between_calls_are_none_of_a_record_that_fixes_them() -> None:
    assert explained(BOUNDED, "sized")[1].explained == 1
    assert explained(BOUNDED, "shop")[1].unknown == 1


def test_the_greatest_sizes_give_the_capacity() -> None:
    sizes, ranges = ("s0", 4, "s0"), {"s0": (2, 5)}
    assert ProgramInput("x", "float32", sizes, dict(ranges)).most_elements == 100
    assert ProgramInput("x", "float32", sizes, {"s0": (2, None)}).most_elements is None
    assert ProgramInput("x", "float32", sizes, {}).most_elements is None


def test_without_a_method_each_that_may_have_refused_it_is_listed() -> None:
    text, _ = explained("[method.cpp:1711] Input 0 has not been set.\n", "methods")
    assert text.splitlines()[1:] == [
        f"Input 0 of method {method}: ids, int64 of shape (2,)" for method in sorted(TAKEN["methods"])
    ]
    text, _ = explained(
        "[method.cpp:1206] Input 1 has unexpected scalar type: expected Float but was Int.\n", "methods"
    )
    assert text.splitlines()[1:] == ["Input 1 of method words: more, float32 of shape (4,)"]


@pytest.mark.parametrize(
    "head",
    [
        "[method.cpp:1711] ",
        "E 00:00:00.000061 executorch:method.cpp:1711] ",
        "E [executorch:method.cpp:1711 set_input()] ",
        "03-01 10:00:00.123  4321  4387 E ExecuTorch: ",
        "E/ExecuTorch( 4711): ",
        "10:00:00 worker-3 | [method.cpp:1711] ",
    ],
)
def test_a_line_counts_in_the_form_of_each_platform(head: str) -> None:
    text, explainer = explained(f"{head}Input 0 has not been set.\n", "shop")
    assert text.endswith("Input 0 of method forward: first, int64 of shape (3,)\n")
    assert explainer.explained == 1


@pytest.mark.parametrize("head", ["", "10:00:00 form: ", "[form.js:17] "])
def test_other_software_that_says_the_same_has_not_failed(head: str) -> None:
    text = log([f"{head}Input 0 has not been set.", f"{head}No method named 'words' in program"])
    out, explainer = explained(text, "shop")
    assert (out, explainer.explained, explainer.unknown) == (text, 0, 0)


def test_of_several_records_none_explains_what_another_refused() -> None:
    models = models_in([FOLDER / f"{name}.etrecord" for name in TAKEN])
    for name in TAKEN:
        for lines, method in calls(name):
            explainer = explainer_of(models)
            text = b"".join(explainer.explain([log(lines).encode()])).decode()
            at = next(at for at, line in enumerate(lines) if LINE.fullmatch(line))
            right = log([*lines[: at + 1], expected(name, lines[at], method), *lines[at + 1 :]])
            assert text in (right, log(lines))
            assert explainer.explained + explainer.ambiguous == 1
