"""Globals: numbers, containers and objects, set anew or changed, in this file and another one."""

from __future__ import annotations

from typing import Any

import torch

from tests.effects.cases import elsewhere
from tests.effects.effect_cases import Cases, Model

CASES = Cases("global")
COUNTER = 3.0
ITEMS = [1.0, 2.0, 3.0]
TABLE = {"a": 1.0, "b": 2.0}
LETTERS = ["a", "b"]
TENSOR = torch.ones(2, 3)
NAMES = 0
FLAG = True
MADE: torch.Tensor
SEEN: list[Any] = []


class Holder:
    """An object with numbers."""

    def __init__(self) -> None:
        self.x, self.y = 1.0, 2.0


OBJECT = Holder()


class Named:
    """A value, with a name from a global counter."""

    def __init__(self, value: torch.Tensor) -> None:
        self.value, self.number = value, fresh_number()

    @staticmethod
    def constant(value: torch.Tensor) -> Named:
        return Named(value)


def fresh_number() -> int:
    global NAMES
    number = NAMES
    NAMES += 1
    return number


@CASES.add()
def store_global_1(_: Model, x: torch.Tensor) -> torch.Tensor:
    global COUNTER
    result = x + COUNTER
    COUNTER += 1
    return result


@CASES.add()
def store_global_2(_: Model, x: torch.Tensor) -> torch.Tensor:
    global COUNTER
    result = x + COUNTER
    COUNTER += 1
    COUNTER += 1
    return result


@CASES.add()
def store_global_new(_: Model, x: torch.Tensor) -> torch.Tensor:
    global MADE
    MADE = x + 1
    return x + MADE


@CASES.add()
def store_global_list(_: Model, x: torch.Tensor) -> torch.Tensor:
    result = x + ITEMS[1]
    ITEMS[1] += 1
    return result


@CASES.add()
def store_global_list_2(_: Model, x: torch.Tensor) -> torch.Tensor:
    global ITEMS
    result = x + ITEMS[1]
    ITEMS = [one + 1 for one in ITEMS]
    return result


@CASES.add()
def store_global_dict(_: Model, x: torch.Tensor) -> torch.Tensor:
    result = x + TABLE["b"]
    TABLE["b"] += 1
    return result


@CASES.add()
def store_global_dict_2(_: Model, x: torch.Tensor) -> torch.Tensor:
    global TABLE
    TABLE = {key: value + 1 for key, value in TABLE.items()}
    return x + TABLE["b"]


@CASES.add()
def store_global_object(_: Model, x: torch.Tensor) -> torch.Tensor:
    result = x + OBJECT.y
    OBJECT.y += 1
    return result


@CASES.add()
def store_global_cross_file(_: Model, x: torch.Tensor) -> torch.Tensor:
    result = x + elsewhere.EXPORTED
    elsewhere.EXPORTED = elsewhere.EXPORTED + 1
    return result


@CASES.add()
def store_global_inline_1(_: Model, x: torch.Tensor) -> tuple[Any, ...]:
    one, other = Named(x), Named(x * 2)
    return one.value + other.value, one.number, other.number


@CASES.add()
def store_global_inline_2(_: Model, x: torch.Tensor) -> tuple[Any, ...]:
    one, other = Named.constant(x), Named.constant(x * 2)
    return one.value + other.value, one.number + other.number


@CASES.add("functions")
def globalvar(_: Model, x: torch.Tensor) -> torch.Tensor:
    return x - TENSOR


@CASES.add("functions")
def load_global_bool(_: Model, x: torch.Tensor) -> torch.Tensor:
    return x + 1 if FLAG else x - 1


@CASES.add(
    "list",
    says=("len() or iteration of a list whose length differs from call to call; 8 tables are not enough"),
)
def binop_imul_global_list(_: Model, x: torch.Tensor) -> torch.Tensor:
    global LETTERS
    LETTERS *= 2  # here
    return x.sin()


@CASES.add("list")
def binop_iadd_global_list(_: Model, x: torch.Tensor) -> torch.Tensor:
    global LETTERS
    LETTERS += ["a"]
    LETTERS.extend(["b"])
    return x.sin()


@CASES.add("list")
def binop_delitem_global_list(_: Model, x: torch.Tensor) -> torch.Tensor:
    LETTERS.append("c")
    del LETTERS[1]
    return x.sin()


@CASES.add("modules")
def globals_change_in_other_file(_: Model, x: torch.Tensor) -> torch.Tensor:
    return x * (elsewhere.note_call() + elsewhere.note_call())


@CASES.add("misc")
def dedup_global(_: Model, x: torch.Tensor) -> torch.Tensor:
    SEEN.append(TENSOR)
    SEEN.append(TENSOR)
    return TENSOR + TENSOR + x


@CASES.add("hooks")
def hook_on_intermediate_with_container(_: Model, x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    SEEN.append(y)
    TABLE["last"] = y
    return SEEN[-1] * 3 + TABLE["last"]
