"""Declare a record once, as bytes, a pickle and JSON: the declaration reads it, and says what is wrong in it.

The records are made up: a table of shops and how many work there, in three forms.
"""

import json
import pickle

import numpy as np

from archive import ArchiveError, Limits
from archive.base import memory
from archive.formats.schema.fixed import Layout
from archive.formats.schema.json import JsonClass, ListOf, checked
from archive.formats.schema.pickled import Int, Sequence, String, Tuple, build, parse
from archive.formats.schema.words import Const, Int16ul, Int32ul, Struct
from archive.pickles.scan import Pickle
from archive.pickles.tree import read_trees

# Bytes: a Struct of fixed size, compiled to a named tuple and to columns.
SHOP = Layout(
    "shop"
    / Struct(
        "magic" / Const(b"SH"),
        "number" / Int16ul * "of the shop, from 1",
        "staff" / Int32ul * "how many work there",
    )
)
data = SHOP.build(number=1, staff=3) + SHOP.build(number=2, staff=5)
print(SHOP.read(data, at=SHOP.size))
print(SHOP.columns(data)["staff"].sum(), "work there")

# A pickle: nothing of it is executed, and all rows are read at once, as columns.
SHOPS = Sequence(Tuple(name=String(), staff=Int()))


def shops_of(data):
    """The record's tree, and its columns: names are numbers of the tree's strings."""
    with memory.charged(Limits().allowance(len(data))):
        tree = read_trees([Pickle("shops.pkl", memoryview(data))], [False])
        return tree, parse(SHOPS, tree, np.array([0]))


print(SHOPS)
tree, shops = shops_of(pickle.dumps((("north", 3), ("south", 5)), protocol=2))
for name, staff in zip(shops.items["name"], shops.items["staff"], strict=True):
    print(tree.strings[int(name)], staff)
again = build(SHOPS, shops, tree.strings)
print(pickle.loads(again))

# JSON: a value is checked before anything is made of it.
TABLE = JsonClass({"shops": ListOf(JsonClass({"name": "str", "staff": "int"}))})
print(checked(json.loads('{"shops": [{"name": "north", "staff": 3}]}'), TABLE)["shops"])

# What is wrong is one error, with its place.
for wrong in (
    lambda: SHOP.read(data[:5]),
    lambda: SHOP.read(b"XX" + data[2:]),
    lambda: shops_of(pickle.dumps((("north", 3), ("south", None)), protocol=2)),
    lambda: checked({"shops": [{"name": "north", "staff": "three"}]}, TABLE),
):
    try:
        wrong()
    except ArchiveError as error:
        print(error)
