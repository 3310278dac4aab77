"""From files to files: a single one with a summary, several with a line for each as it finishes."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import closing, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, NoReturn

import click
from rich.console import Console
from rich.progress import Progress
from rich.text import Text

from archive.cli import common
from archive.cli.main import FAILED
from archive.cli.pool import INTERRUPTED, outcomes, perform
from archive.errors import one_line
from archive.formats.companion.build import DEFAULT_LEVEL
from archive.report.as_json import as_json as to_json
from archive.report.as_json import escaped
from archive.report.outcome_text import Sized, total_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TextIO

    from click.decorators import FC
    from rich.console import RenderableType

    from archive.cli.jobs import Job, Plan
    from archive.cli.pool import Outcome, Verb

MAX = 19
"""The level of zstd behind ``--max``; those above it ask much memory of whoever reads, too."""

inputs_argument = click.argument("inputs", nargs=-1, required=True, metavar="IN...", type=click.Path())
out_option = click.option(
    "-o", "--output", "out", required=True, metavar="OUT", type=click.Path(), help="File or folder to write."
)
jobs_option = click.option(
    "-j",
    "--jobs",
    type=click.IntRange(min=1),
    default=lambda: os.cpu_count() or 1,
    show_default="number of CPUs",
    help="How many files to work on at a time.",
)
max_option = click.option(
    "--max",
    "strength",
    flag_value=MAX,
    type=int,
    default=DEFAULT_LEVEL,
    help="Compress the companion further; takes longer.",
)
force_option = click.option("--force", is_flag=True, help="Replace existing files.")
json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print facts as JSON; a list for several files."
)


def handles_option(usual: str) -> Callable[[FC], FC]:
    """``--handles``, with what is usual where it isn't given."""
    return click.option(
        "--handles",
        type=click.Choice(["keep", "drop"]),
        show_default=usual,
        help="Whether mobile_debug_handles.pkl stays: by it, failures on a device name their handles.",
    )


def profile_option(usual: str | None = None) -> Callable[[FC], FC]:
    """``--profile``, with what is usual where it isn't given; else it must be."""
    choice = click.Choice(["packed", "mapped"])
    words = "Of the companion: small, or opened in no time at any size."
    if usual is None:
        return click.option("--profile", type=choice, required=True, help=words)
    return click.option("--profile", type=choice, default=usual, show_default=True, help=words)


def check_max(profile: str, strength: int) -> None:
    """Refuse ``--max`` where nothing is compressed."""
    if strength == MAX and profile != "packed":
        raise click.UsageError("--max is for packed companions; a mapped one is not compressed")


@dataclass(frozen=True, slots=True)
class Words:
    """How a command tells what it does.

    Attributes:
        doing: what is going on meanwhile.
        text: the summary of a single file, of its facts and sizes.
        line: one of several files in one line, of the same.
    """

    doing: str
    text: Callable[..., RenderableType]
    line: Callable[..., str]


def run(plan: Plan, verb: Verb, words: Words, *, jobs: int, as_json: bool) -> NoReturn:
    """Do all that is planned, tell what came of it, and leave.

    Args:
        plan: the files.
        verb: the library's, to do with each.
        words: tell of it.
        jobs: how many files are worked on at a time.
        as_json: tell facts as JSON.
    """
    with _ending_well():
        do = _several if plan.many else _one
        sys.exit(do(plan, verb, words, jobs, as_json=as_json))


@contextmanager
def _ending_well() -> Iterator[None]:
    """Let SIGTERM end the command as Ctrl-C does: nothing half written stays behind."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        common.note("interrupted")
        sys.exit(INTERRUPTED)
    finally:
        signal.signal(signal.SIGTERM, before)


def _one(plan: Plan, verb: Verb, words: Words, _: int, *, as_json: bool) -> int:
    job = plan.jobs[0]
    doing = Text(f"{words.doing} {_printable(str(job.file))}")
    with Console(stderr=True).status(doing) if sys.stderr.isatty() else nullcontext():
        outcome = perform(verb, job)
    if as_json:
        common.write(to_json(_facts(outcome)).encode() + b"\n")
    else:
        common.console().print(words.text(outcome.facts, *_sizes(outcome)))
    return 0


def _several(plan: Plan, verb: Verb, words: Words, jobs: int, *, as_json: bool) -> int:
    found: dict[Job, Outcome] = {}
    bar = Progress(
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
        redirect_stdout=False,
        redirect_stderr=False,
    )
    with closing(outcomes(verb, plan.jobs, jobs)) as results, bar:
        for outcome in bar.track(results, total=len(plan.jobs), description=words.doing):
            found[outcome.job] = outcome
            if outcome.error:
                _tell(bar, f"debug-archive: {_problem(outcome)}", sys.stderr)
            elif not as_json:
                _tell(bar, words.line(outcome.facts, *_sizes(outcome)), sys.stdout)
    failed = sum(bool(outcome.error) for outcome in found.values())
    if plan.left_out:
        common.note(f"without a companion, and left out: {plan.left_out:,}")
    if as_json:
        common.write(to_json([_facts(found[job]) for job in plan.jobs]).encode() + b"\n")
    else:
        sizes = zip(*(outcome.sizes for outcome in found.values() if not outcome.error), strict=True)
        common.write(total_line(len(found), failed, *map(sum, sizes)).encode() + b"\n")
    return FAILED if failed else 0


def _tell(bar: Progress, line: str, stream: TextIO) -> None:
    """A line to standard output or error, at once; above the bar if there is one on the same terminal."""
    if stream.isatty() and not bar.disable:
        bar.console.print(Text(line), soft_wrap=True)
    else:
        stream.buffer.write(f"{line}\n".encode())
        stream.flush()


def _problem(outcome: Outcome) -> str:
    """Why a file failed, beginning with its name."""
    file = str(outcome.job.file)
    return _printable(outcome.error if outcome.error.startswith(file) else f"{file}: {outcome.error}")


def _printable(text: str) -> str:
    return one_line(escaped(text))


def _sizes(outcome: Outcome) -> list[Sized]:
    """What a file's work is about: file, result, and companion if there is one."""
    files = (outcome.job.file, outcome.job.out, outcome.job.companion)
    return [Sized(str(file), size) for file, size in zip(files, outcome.sizes, strict=False)]


def _facts(outcome: Outcome) -> dict[str, object]:
    """An outcome for JSON."""
    if outcome.error:
        return {"file": str(outcome.job.file), "error": _problem(outcome)}
    paths = dict(zip(("file", "out", "companion"), (one.name for one in _sizes(outcome)), strict=False))
    return {**paths, **asdict(outcome.facts)}
