"""From files to files: a single one with a summary, several with a line for each as it finishes."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import closing, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, NoReturn

import click
from rich.console import Console
from rich.progress import Progress
from rich.text import Text

from archive.base.errors import one_line
from archive.cli import common
from archive.cli.jobs import told
from archive.cli.main import FAILED
from archive.cli.pool import INTERRUPTED, outcomes, perform
from archive.companion.build import DEFAULT_LEVEL
from archive.report.as_json import escaped
from archive.report.outcome_text import Sized, total_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TextIO

    from click.decorators import FC
    from rich.console import RenderableType

    from archive.cli.jobs import FilePlan, Job
    from archive.cli.pool import Outcome, Verb

MAX = 19
"""The level of zstd behind ``--max``; those above it ask much memory of whoever reads, too."""

_inputs = click.argument("inputs", nargs=-1, required=True, metavar="IN...", type=click.Path())
_output = click.option(
    "-o", "--output", "out", required=True, metavar="OUT", type=click.Path(), help="File or folder to write."
)
_jobs = click.option(
    "-j",
    "--jobs",
    type=click.IntRange(min=1),
    default=lambda: os.cpu_count() or 1,
    show_default="number of CPUs",
    help="How many files to work on at a time.",
)
_force = click.option("--force", is_flag=True, help="Replace existing files.")
_json = click.option("--json", "as_json", is_flag=True, help="Print facts as JSON; a list for several files.")
max_option = click.option(
    "--max",
    "strength",
    flag_value=MAX,
    type=int,
    default=DEFAULT_LEVEL,
    help="Compress the companion further; takes longer.",
)


def files(command: Callable[..., None]) -> Callable[..., None]:
    """``IN...`` and ``--output``, the first that a command takes: as ``inputs`` and ``out``."""
    return _inputs(_output(command))


def manner(command: Callable[..., None]) -> Callable[..., None]:
    """``--jobs``, ``--force`` and ``--json``, the last that a command takes: as a ``manner``."""

    @wraps(command)
    def told(*, jobs: int, force: bool, as_json: bool, **others: object) -> None:
        command(**others, manner=Manner(jobs, force, as_json))

    return _jobs(_force(_json(told)))


def companion_option(usual: str, words: str) -> Callable[[FC], FC]:
    """``--companion``, with where it is unless given, and what it is for."""
    return click.option(
        "-c", "--companion", metavar="COMPANION", type=click.Path(), show_default=usual, help=words
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
        facts: the facts as JSON shows them.
    """

    doing: str
    text: Callable[..., RenderableType]
    line: Callable[..., str]
    facts: Callable[..., dict[str, Any]] = asdict


@dataclass(frozen=True, slots=True)
class Manner:
    """How the work is done, whatever it is.

    Attributes:
        jobs: how many files are worked on at a time.
        force: replace existing files.
        as_json: tell facts as JSON.
    """

    jobs: int
    force: bool
    as_json: bool

    def run(
        self, plan: FilePlan, verb: Verb, words: Words, finished: Callable[[Outcome], None] | None = None
    ) -> NoReturn:
        """Do all that is planned, tell what came of it, and leave.

        Args:
            plan: the files.
            verb: the library's, to do with each; it takes ``force``.
            words: tell of it.
            finished: is told of each of several files as it finishes.
        """
        verb = partial(verb, force=self.force)
        with _ending_well():
            sys.exit(
                _several(plan, verb, words, self, finished or (lambda _: None))
                if plan.many
                else _one(plan, verb, words, self)
            )


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


def _one(plan: FilePlan, verb: Verb, words: Words, manner: Manner) -> int:
    job = plan.jobs[0]
    doing = Text(f"{words.doing} {_printable(str(job.file))}")
    with Console(stderr=True).status(doing) if sys.stderr.isatty() else nullcontext():
        outcome = perform(verb, job)
    if manner.as_json:
        common.write_json(_facts(outcome, words))
    else:
        common.console().print(words.text(outcome.facts, *_sizes(outcome)))
    return 0


def _several(
    plan: FilePlan, verb: Verb, words: Words, manner: Manner, finished: Callable[[Outcome], None]
) -> int:
    found: dict[Job, Outcome] = {}
    bar = Progress(
        console=Console(stderr=True),
        transient=True,
        disable=not sys.stderr.isatty(),
        redirect_stdout=False,
        redirect_stderr=False,
    )
    with closing(outcomes(verb, plan.jobs, manner.jobs)) as results, bar:
        for outcome in bar.track(results, total=len(plan.jobs), description=words.doing):
            found[outcome.job] = outcome
            finished(outcome)
            if outcome.error:
                _tell(bar, f"debug-archive: {problem(outcome)}", sys.stderr)
            elif not manner.as_json:
                _tell(bar, words.line(outcome.facts, *_sizes(outcome)), sys.stdout)
    failed = sum(bool(outcome.error) for outcome in found.values())
    tell_left_out(plan)
    if manner.as_json:
        common.write_json([_facts(found[job], words) for job in plan.jobs])
    else:
        sizes = zip(*(outcome.sizes for outcome in found.values() if not outcome.error), strict=True)
        common.write(total_line(len(found), failed, *map(sum, sizes)).encode() + b"\n")
    return FAILED if failed else 0


def tell_left_out(plan: FilePlan) -> None:
    """Say on standard error which files of folders are not worked on."""
    if plan.others:
        common.note(f"neither archives nor companions, and left out: {told(plan.others)}")
    if plan.left_out:
        common.note(f"without a companion, and left out: {plan.left_out:,}")


def _tell(bar: Progress, line: str, stream: TextIO) -> None:
    """A line to standard output or error, at once; above the bar if there is one on the same terminal."""
    if stream.isatty() and not bar.disable:
        bar.console.print(Text(line), soft_wrap=True)
    else:
        stream.buffer.write(f"{line}\n".encode())
        stream.flush()


def problem(outcome: Outcome) -> str:
    """Why a file failed, beginning with its name."""
    file = str(outcome.job.file)
    return _printable(outcome.error if outcome.error.startswith(file) else f"{file}: {outcome.error}")


def _printable(text: str) -> str:
    return one_line(escaped(text))


def _sizes(outcome: Outcome) -> list[Sized]:
    """What a file's work is about: file, result, and companion if there is one."""
    files = (outcome.job.file, outcome.job.out, outcome.job.companion)
    return [Sized(str(file), size) for file, size in zip(files, outcome.sizes, strict=False)]


def _facts(outcome: Outcome, words: Words) -> dict[str, object]:
    """An outcome for JSON."""
    if outcome.error:
        return {"file": str(outcome.job.file), "error": problem(outcome)}
    paths = dict(zip(("file", "out", "companion"), (one.name for one in _sizes(outcome)), strict=False))
    return {**paths, **words.facts(outcome.facts)}
