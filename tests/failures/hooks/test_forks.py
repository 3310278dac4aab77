"""Processes that are forked from one that explains, as servers do that load an application once."""

from __future__ import annotations

import os
import subprocess
import sys
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
explainer = archive.Explainer(sys.argv[1]).warm()
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


def test_what_is_installed_before_a_fork_explains_in_the_children(tmp_path: Path) -> None:
    text = tmp_path / "failure.txt"
    text.write_bytes(TRACEBACK.stripped)
    words = [sys.executable, "-c", GUNICORN, str(TRACEBACK.path), str(text)]
    done = subprocess.run(words, capture_output=True, check=True)
    assert done.stderr.decode() == 2 * f"{TRACEBACK.full.decode()}\n"
