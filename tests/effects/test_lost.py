"""What a statement does or asks outside of the model: refused at the statement's line, wherever that is."""

from __future__ import annotations

import linecache
import sys
import types
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch", exc_type=ImportError)

import numpy as np
import torch

from archive.effects import CaptureError, capture
from tests.support.sampling import crossed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.torch

HEAD = """
import atexit, datetime, decimal, gc, getpass, json, locale, math, os, random, secrets, shutil, signal
import socket, subprocess, sys, tempfile, threading, time, uuid, warnings
from os import getcwd
from pathlib import Path
from time import time as now
import numpy as np
import torch
import torch.nn.functional as F

def indirectly():
    return os.path.getmtime("/")

class Base(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))
        self.results, self.count = [1, 2], 0
        self.append = self.results.append
"""
STATEMENTS = """
self.register_parameter("fresh", torch.nn.Parameter(torch.ones(3)))
self.register_module("fresh", torch.nn.ReLU())
self.add_module("fresh", torch.nn.ReLU())
self.register_forward_hook(lambda *_: None)
self.register_forward_pre_hook(lambda *_: None)
self.register_full_backward_hook(lambda *_: None)
torch.nn.modules.module.register_module_forward_hook(lambda *_: None)
torch.nn.modules.module.register_module_buffer_registration_hook(lambda *_: None)
self.append(3)
torch.manual_seed(0)
torch.cuda.manual_seed_all(0)
torch.default_generator.manual_seed(0)
torch.random.default_generator.manual_seed(0)
torch.random.set_rng_state(torch.zeros(5056, dtype=torch.uint8))
torch.set_printoptions(precision=3)
torch.backends.cuda.matmul.allow_tf32 = True
torch._C._set_cudnn_benchmark(True)
torch.foo = 1
torch.__dict__["foo"] = 1
vars(json)["foo"] = 1
math.foo = 1
F.relu = F.gelu
sys.foo = 1
sys.path.append("x")
sys.modules["foo"] = math
sys.setrecursionlimit(5000)
self.count = len(sys.argv)
Path("lost").write_text("x")
Path("lost").touch()
x = x + Path("lost").exists()
x = x + len(str(Path.cwd()))
open("lost", "w").close()
os.mkdir("lost")
os.nice(0)
x = x + os.path.exists("lost")
x = x + len(getcwd())
x = x + indirectly()
x = x + len(os.path.abspath("lost"))
x = x + os.cpu_count()
x = x + len(os.environ)
x = x + ("LOST" in os.environ)
os.environ["LOST"] = "1"
os.environ.pop("LOST", None)
os.putenv("LOST", "1")
shutil.copyfile("/dev/null", "lost")
shutil.which("ls")
subprocess.run(["true"])
os.system("true")
socket.gethostname()
tempfile.mkdtemp()
getpass.getuser()
time.sleep(0)
x = x + time.time()
x = x + (1 if time.time() > 0 else 2)
x = x + (1 if now() > 0 else 2)
self.count = time.localtime().tm_year
self.count = datetime.datetime.now().year
self.count = datetime.date.today().year
random.seed(0)
self.count = random.random()
x = x + random.randint(1, 1)
self.count = uuid.uuid4().version
self.count = len(secrets.token_hex())
np.random.seed(0)
x = x + (np.random.rand() < 2)
self.count = len(np.random.get_state())
np.seterr(all="ignore")
self.count = hash("text")
self.count = hash((1, "text"))
gc.collect()
gc.disable()
signal.signal(signal.SIGUSR1, signal.SIG_DFL)
locale.setlocale(locale.LC_ALL, "C")
atexit.register(print)
threading.Thread(target=print).start()
self.count = threading.get_ident() > 0
decimal.getcontext().prec = 5
warnings.simplefilter("ignore")
""".strip().splitlines()
PLACES = {
    "at the top": (
        "class Model(Base):\n    def forward(self, x):\n        {}\n        return x * self.weight\n"
    ),
    "under an if": (
        "class Model(Base):\n    def forward(self, x):\n        if x.dim() == 2:\n"
        "            {}\n        return x * self.weight\n"
    ),
    "in a loop": (
        "class Model(Base):\n    def forward(self, x):\n        for _ in range(2):\n"
        "            {}\n        return x * self.weight\n"
    ),
    "in a part": (
        "class Part(Base):\n    def forward(self, x):\n        {}\n        return x * self.weight\n"
        "class Model(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.part = Part()\n    def forward(self, x):\n        return self.part(x) + 1\n"
    ),
    "in a function": (
        "def apart(self, x):\n    {}\n    return x\n"
        "class Model(Base):\n    def forward(self, x):\n        return apart(self, x) * self.weight\n"
    ),
}


@pytest.fixture
def settings() -> Iterator[None]:
    """Nothing of the process is changed."""

    def found() -> list[Any]:
        numbers: Any = np.random.get_state()  # noqa: NPY002 (the one that models use)
        return [
            torch.get_rng_state().tolist(),
            np.asarray(numbers[1]).tolist(),
            list(sys.path),
            sys.getrecursionlimit(),
            sys.getprofile(),
        ]

    before = found()
    yield
    assert found() == before


@pytest.mark.parametrize(("statement", "place"), crossed(STATEMENTS, sorted(PLACES)))
@pytest.mark.usefixtures("settings")
def test_what_would_be_lost_is_refused_at_its_line(
    statement: str, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    source = HEAD + PLACES[place].format(statement)
    lines = source.splitlines(keepends=True)
    monkeypatch.setitem(linecache.cache, "models/lost.py", (len(source), None, lines, "models/lost.py"))
    module: Any = types.ModuleType("models_lost")
    exec(compile(source, "models/lost.py", "exec"), vars(module))  # noqa: S102 (our own source)
    model = module.Model()
    with pytest.raises(CaptureError) as caught:
        capture(model, torch.ones(1, 3))
    line = next(number for number, text in enumerate(lines, 1) if text.strip() == statement)
    own = [("models/lost.py", line)]
    if "indirectly" in statement:
        own += [("models/lost.py", lines.index('    return os.path.getmtime("/")\n') + 1)]
    assert (caught.value.filename, caught.value.line) in own
    assert not list(tmp_path.iterdir())
    assert getattr(model, "results", [1, 2]) == [1, 2]


class Marking(torch.nn.Module):
    """It marks tensors that it is given."""

    def __init__(self, which: str) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))
        self.which = which

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        marked: Any = x if self.which == "x" else self.weight
        marked.seen = True
        return x * self.weight


@pytest.mark.parametrize("which", ["x", "weight"])
def test_an_attribute_that_is_set_on_a_tensor_is_refused(which: str) -> None:
    with pytest.raises(CaptureError, match="an attribute of a tensor that is set: seen"):
        capture(Marking(which), torch.ones(3))


class Counting(torch.nn.Module):
    """It asks nothing."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1


def test_a_profile_function_sees_what_it_would_see() -> None:
    seen: set[str] = set()

    def note(frame: types.FrameType, event: str, _: object) -> None:
        if event == "call":
            seen.add(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        capture(Counting(), torch.ones(3))
        after = sys.getprofile()
    finally:
        sys.setprofile(None)
    assert after is note
    assert "forward" in seen
