"""The columns of exported programs: see :mod:`archive.normalform.programs`."""

from __future__ import annotations

from archive.normalform.column import NO_ROW, Column

MOST_MARKED = 1 << 16
"""Columns of a terminal that a part of a mark stays below; a wider mark is part of the code's text."""
PROGRAM_TABLES = (
    *("scope", "site", "call", "line", "inside", "instance", "maker", "made", "origin", "address", "keyset"),
    *("key", "kept"),
)
"""Tables of exported programs, beside ``program``."""

PROGRAM_COLUMNS = (
    Column(112, "program.name", "name of an exported program", "string"),
    Column(113, "program.sites", "how many nodes it has"),
    Column(114, "program.scopes", "how many graphs are inside of its own"),
    Column(116, "scope.parent", "graph around this one; -1 for the program's own", "scope", low=NO_ROW),
    Column(117, "scope.holder", "node that holds the graph", "site"),
    Column(118, "scope.name", "name of the graph", "string"),
    Column(120, "site.scope", "graph that the node is in; -1 for the program's own", "scope", low=NO_ROW),
    Column(121, "site.base", "name of the node, without a number at its end", "string"),
    Column(122, "site.number", "number at the end of its name; -1 if there is none", low=NO_ROW),
    Column(123, "site.target", "what the node calls", "string"),
    Column(124, "site.keys", "which metadata the node has", "keyset"),
    Column(125, "site.trace", "innermost call of its stack trace; -1 if none", "call", low=NO_ROW),
    Column(
        126, "site.layout", "1: the trace's first line is indented; 2: its last one ends; 3: both", high=4
    ),
    Column(127, "site.inside", "innermost module instance; -1 if none", "inside", low=NO_ROW),
    Column(128, "site.maker", "function that made the node; -1 if none", "maker", low=NO_ROW),
    Column(
        129,
        "site.made",
        "innermost of the functions that strict export records; -1 if none",
        "made",
        low=NO_ROW,
    ),
    Column(130, "site.origin", "first of the nodes that it was made from; -1 if none", "origin", low=NO_ROW),
    Column(132, "call.outer", "call around this one; -1 for the outermost", "call", low=NO_ROW),
    Column(133, "call.line", "line that ran", "line"),
    Column(136, "line.file", "file of the line", "string"),
    Column(137, "line.number", "its number, from 1"),
    Column(138, "line.function", "function that it is part of", "string"),
    Column(139, "line.code", "its text; -1 if none is recorded", "string", low=NO_ROW),
    Column(
        140,
        "line.blank",
        "columns before the mark below it; -1 if there is no mark",
        low=NO_ROW,
        high=MOST_MARKED,
    ),
    Column(141, "line.before", "tildes before the carets of the mark", high=MOST_MARKED),
    Column(142, "line.carets", "carets of the mark", high=MOST_MARKED),
    Column(143, "line.after", "tildes behind the carets", high=MOST_MARKED),
    Column(144, "inside.outer", "instance around this one; -1 for the outermost", "inside", low=NO_ROW),
    Column(145, "inside.instance", "the module", "instance"),
    Column(
        146, "inside.id", "id of the module in the process that exported; -1 if none", "address", low=NO_ROW
    ),
    Column(147, "inside.call", "number of the call; -1 if none", low=NO_ROW),
    Column(148, "instance.name", "attribute path of a module, below the module around it", "string"),
    Column(149, "instance.whole", "1 if the name is the path from the top module", high=2),
    Column(150, "instance.class", "qualified name of the module's class", "string"),
    Column(
        151, "instance.key", "key of the instance; -1 if it follows from path or id", "string", low=NO_ROW
    ),
    Column(152, "maker.base", "name of a node when it was made, without a number at its end", "string"),
    Column(153, "maker.number", "number at the end of that name; -1 if there is none", low=NO_ROW),
    Column(154, "maker.function", "function that made it", "string"),
    Column(156, "made.outer", "function around this one; -1 for the outermost", "made", low=NO_ROW),
    Column(157, "made.maker", "the function, and the node's name", "maker"),
    Column(160, "origin.base", "name of a node of an earlier graph, without a number at its end", "string"),
    Column(161, "origin.number", "number at the end of that name; -1 if there is none", low=NO_ROW),
    Column(162, "origin.target", "what that node calls", "string"),
    Column(163, "origin.graph", "id of that graph", "address"),
    Column(164, "origin.pass", "pass that made a node of it", "string"),
    Column(165, "origin.action", "what the pass did", "string"),
    Column(
        166,
        "origin.inner",
        "first of the nodes that it was made from itself; -1 if none",
        "origin",
        low=NO_ROW,
    ),
    Column(
        167,
        "origin.next",
        "next of the nodes that one node was made from; -1 for the last",
        "origin",
        low=NO_ROW,
    ),
    Column(168, "address.value", "id of an object in the process that exported", low=None),
    Column(172, "keyset.count", "how many keys of metadata the set has"),
    Column(174, "key.name", "key of metadata: stack_trace", "string"),
    Column(176, "kept.site", "node whose text is kept as it stands", "site"),
    Column(177, "kept.key", "its key", "string"),
    Column(178, "kept.text", "the text", "string"),
)
