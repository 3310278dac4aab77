"""Processes that are forked from one that explains, as servers do that load an application once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from tests.failures.models.test_three_models import FLEET
from tests.support.reports import case

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no forks")

TRACEBACK = case("plain_free_functions.jit")
SCRIPT = """
import itertools, json, os, random, sys, threading, time, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads: what is tested
import archive
from archive.failures.models import models

models.MOST_OPEN = int(sys.argv[3])
failures = json.load(open(sys.argv[2]))
explainer = archive.Explainer(sys.argv[1], seconds=60).warm()  # a slow machine is not what is tested
done = threading.Event()

def explain(start, step, most=None):
    for one in itertools.islice(itertools.cycle(failures[start::step]), most):
        assert explainer.explain_event(one["unique"]) == one["explained"]
        if done.is_set():
            break

threads = [threading.Thread(target=explain, args=(start, 3)) for start in range(3)]
for thread in threads:
    thread.start()
for number in range(int(sys.argv[4])):
    child = os.fork()
    if not child:
        sys.stderr = sys.stdout
        try:
            again = [threading.Thread(target=explain, args=(start, 20, 10)) for start in range(3)]
            for thread in again:
                thread.start()
            for thread in again:
                thread.join(60)
            assert not any(thread.is_alive() for thread in again), "a lock of the parent"
            before = explainer.stats
            explain(number, 40, 5)
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", flush=True)
            os._exit(1)
        os._exit(explainer.stats.failed + explainer.stats.late + explainer.stats.left)
    assert os.waitpid(child, 0)[1] == 0, number
done.set()
for thread in threads:
    thread.join()
assert not (explainer.stats.left or explainer.stats.late or explainer.stats.failed), explainer.stats
print("all explained")
"""


@pytest.mark.parametrize(("most", "children"), [(1, 4), (256, 12)])
def test_children_explain_while_threads_of_their_parent_do(most: int, children: int) -> None:
    given = (FLEET, FLEET / "failures.json", most, children)
    words = [sys.executable, "-c", SCRIPT, *map(str, given)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=300)
    assert done.stdout == "all explained\n", done.stdout + done.stderr


GUNICORN = """
import logging, os, sys
import archive
archive.install(sys.argv[1])  # before the fork, as with --preload
text = open(sys.argv[2]).read()
for _ in range(2):
    if not os.fork():
        logging.getLogger("worker").error("%s", RuntimeError(text))
        os._exit(0)
    os.wait()
"""


PROPERTY = """
import os, sys, threading
import archive
from archive.failures import traceback_failures as tracebacks

explainer, text = archive.Explainer(sys.argv[1], seconds=60).warm(), open(sys.argv[2]).read()
entered, done, read = threading.Event(), threading.Event(), tracebacks.Traceback

def slow(*given):
    if threading.current_thread() is not threading.main_thread():
        entered.set()
        done.wait()
    return read(*given)

tracebacks.Traceback = slow  # a cached property makes one
thread = threading.Thread(target=explainer.explain_event, args=(text,))
thread.start()
entered.wait()
if not os.fork():
    sys.stdout.write(explainer.explain_event(text))
    sys.stdout.flush()
    os._exit(0)
os.wait()
done.set()
thread.join()
"""


def test_a_child_gets_no_lock_of_a_property_that_a_thread_computes(tmp_path: Path) -> None:
    text = tmp_path / "failure.txt"
    text.write_bytes(TRACEBACK.stripped)
    words = [sys.executable, "-W", "ignore", "-c", PROPERTY, str(TRACEBACK.path), str(text)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, start_new_session=True) as process:
        try:
            assert process.communicate(timeout=60)[0] == TRACEBACK.full
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def test_what_is_installed_before_a_fork_explains_in_the_children(tmp_path: Path) -> None:
    text = tmp_path / "failure.txt"
    text.write_bytes(TRACEBACK.stripped)
    words = [sys.executable, "-c", GUNICORN, str(TRACEBACK.path), str(text)]
    done = subprocess.run(words, capture_output=True, check=True)
    assert done.stderr.decode() == 2 * f"{TRACEBACK.full.decode()}\n"
