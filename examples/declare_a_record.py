"""Declare how a record is laid out, once: the declaration reads it, writes it, and says what is wrong in it.

The record is made up: a pickle of ``(("north", 3), ("south", 5))``, shops and how many work there.
"""

import pickle

import numpy as np
from archive.formats.schema import Int, Sequence, String, Tuple, build, parse

from archive import ArchiveError, Limits
from archive.pickles.scan import Pickle
from archive.pickles.tree import read_trees

SHOPS = Sequence(Tuple(name=String(), staff=Int()))


def shops_of(data):
    """The record's tree, and its columns: names are numbers of the tree's strings."""
    allowance = Limits().allowance(len(data))
    tree = read_trees([Pickle("shops.pkl", memoryview(data))], [False], allowance)
    return tree, parse(SHOPS, tree, np.array([0]), allowance)


print(SHOPS)
tree, shops = shops_of(pickle.dumps((("north", 3), ("south", 5)), protocol=2))
for name, staff in zip(shops.items["name"], shops.items["staff"], strict=True):
    print(tree.strings[int(name)], staff)
again = build(SHOPS, shops, tree.strings, Limits().allowance(1 << 10))
print(pickle.loads(again))
try:
    shops_of(pickle.dumps((("north", 3), ("south", None)), protocol=2))
except ArchiveError as error:
    print(error)
