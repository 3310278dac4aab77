"""Models that print, log and warn: replay does the same again, in the same order."""

from __future__ import annotations

import logging
import sys
import warnings
from typing import Any

import torch

from tests.effects.effect_cases import OURS, Cases, Model, tensor

CASES = Cases("reorder_logs")
LOGGER = logging.getLogger("model")


@CASES.add()
def dont_reorder_print(_: Model, x: torch.Tensor) -> torch.Tensor:
    x = x + x
    print("moo")
    return x * x


@CASES.add()
def reorder_print(_: Model, x: torch.Tensor) -> Any:
    print("moo")
    y = x + x
    print(y)
    z = y * y
    print(1, 2, 3)
    return y, z + z


@CASES.add()
def reorder_warnings(_: Model, x: torch.Tensor) -> torch.Tensor:
    y = x + x
    warnings.warn("moo")
    z = y * y
    warnings.warn(f"{z}", RuntimeWarning)
    return z + z


@CASES.add()
def reorder_print_graph_break(_: Model, x: torch.Tensor) -> torch.Tensor:
    y = x + x
    print(f"res: {y}")
    z = y * y
    print(1, 2, 3)
    return z + z


@CASES.add(says="a text that depends on a tensor", texts=[])
def reorder_custom_log_fn(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.texts.append("moo")
    self.texts.append(f"{x + x}")  # here
    return x + x


@CASES.add(test="constant_mutation")
def printed_items_of_a_list(_: Model, x: torch.Tensor) -> torch.Tensor:
    some = [x]
    some.append(x + 1)
    print(some[-1])
    result = some.pop()
    print(some[-1])
    return result


@CASES.add()
def ignore_logger(_: Model, x: torch.Tensor) -> torch.Tensor:
    x = x + x
    LOGGER.info("moo")
    return x * x


@CASES.add(OURS, step=0)
def logged_step(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.step += 1
    LOGGER.info("step %d: %.3f of %s", self.step, x.mean().item(), x.shape)
    logging.getLogger("model.inner").log(25, f"{self.step:>4d} of {x.size(0)} {{{x.dtype}}}")
    LOGGER.debug("%s", [self.step, (1, "a"), {"k": 0.5}])
    return x * self.step


@CASES.add(OURS, step=0)
def module_of_logging(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.step += 1
    logging.warning("step %d", self.step)
    return x


@CASES.add(OURS, step=0)
def order_of_prints_and_logs(self: Model, x: torch.Tensor) -> torch.Tensor:
    print("first", self.step, sep=": ", end="; ")
    self.step += 1
    warnings.warn("careful")
    LOGGER.error("then %d", self.step)
    self.step += 1
    print(f"last {self.step}", file=sys.stdout)
    return x


@CASES.add(OURS, seen=torch.zeros(2, 3))
def prints_of_a_tensor_that_changes(self: Model, x: torch.Tensor) -> torch.Tensor:
    print(self.seen)
    self.seen.add_(x)
    print(self.seen)
    self.seen.mul_(2)
    return self.seen + 1


@CASES.add(
    OURS,
    last="",
    says="a text: the number it depends on differs from call to call; 8 tables are not enough",
    step=0,
)
def text_that_is_kept(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.step += 1
    self.last = f"step {self.step}"  # here
    return x


@CASES.add(
    OURS, says="a text: the number it depends on differs from call to call; 8 tables are not enough", step=0
)
def text_that_is_changed(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.step += 1
    print(f"step {self.step}".upper())  # here
    return x


@CASES.add(
    OURS, says="a text: the number it depends on differs from call to call; 8 tables are not enough", step=0
)
def text_that_decides(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.step += 1
    print(len(f"step {self.step}"))  # here
    return x


@CASES.add(OURS, says="sys.stdout.write: what it does outside the model would be lost")
def written_past_print(_: Model, x: torch.Tensor) -> torch.Tensor:
    sys.stdout.write("moo")  # here
    return x


@CASES.add(OURS, says="print to a file")
def print_elsewhere(_: Model, x: torch.Tensor) -> torch.Tensor:
    print("moo", file=sys.stderr)  # here
    return x


@CASES.add(
    OURS,
    says="a tensor with a gradient, or a parameter, that is printed: print it detached",
    arguments=lambda number: (tensor(number, grad=True),),
)
def print_with_a_gradient(_: Model, x: torch.Tensor) -> torch.Tensor:
    print(x * 2)  # here
    return x


@CASES.add(OURS, says="a logger that gets more than a message: exc_info")
def logged_exception(_: Model, x: torch.Tensor) -> torch.Tensor:
    LOGGER.info("moo", exc_info=True)  # here
    return x


@CASES.add(OURS, says="a warning at another line than its own: stacklevel")
def warning_of_the_caller(_: Model, x: torch.Tensor) -> torch.Tensor:
    warnings.warn("moo", stacklevel=2)  # here
    return x


@CASES.add(OURS, step=0)
def messages_if_the_level_is_enabled(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.step += 1
    if LOGGER.isEnabledFor(logging.INFO):
        LOGGER.info("step %d: %.2f", self.step, x.mean().item())
        LOGGER.debug(f"step {self.step} of {len(x)}")
    if self.step > 0 and LOGGER.isEnabledFor(logging.WARNING):
        LOGGER.warning("step %d", self.step)
    return x * 2
