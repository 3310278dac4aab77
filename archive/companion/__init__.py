r"""``*.ptdbg``, the companion file: all debug information of one archive. This text is its specification.

A companion holds what is needed to give every debug record again to the byte, and to answer every
question that the records answer, without them. Integers are little-endian; strings are UTF-8 (other bytes
are kept as they are).

**The file** is ``HEADER``, the directory of as many lines as the header says, and the sections in the
directory's order: see :mod:`~archive.companion.layout`. Each section has a checksum, header and
directory one of their own. Positions are not written: they follow from the sizes, so that there are no
holes and no overlaps.

**The archive id** says whose debug information this is: see :mod:`archive.formats.archive_id`.

**The tables.** Every fact is a row of a table; a table is its columns. A range that hundreds of records
repeat is one row::

    record    name, layout, rows             the source-range records, in the archive's order
    row       offset, range, line, column    their rows; the offset's line and column in the generated code
    range     source, start, end, tag        the distinct source ranges
    source    text, filename, line, null     the distinct sources; text is -1 where it is empty
    text      node                           the distinct texts
    node      parent, line                   their lines, as a tree: see texts
    handle    handle, tag, op, stack, place  the call-stack map by handle; place: of the record's n-th row
    frame     next, module, tag, function    call stacks, outermost call first
    module    type, instance, known          known: whether the archive has the class (PyTorch 1.9 asks)
    method    name, instructions             ``mobile_debug_handles.pkl``
    instruction  handle
    pathed    name, steps                    ``mobile_debug.pkl``
    step      path
    member    kind, modified                 all records of the archive in their order, for a join
    raw       name, length                   records that PyTorch's rules would not give again, whole
    file      top, qualified_top, …          what there is one of: class of the top module, versions, digest

The numbers of columns, and which table's rows each refers to:
:mod:`~archive.normalform.columns`. -1 is "none". Rows are numbered by first use, so that
references are small.

**Two profiles** hold the same facts, and are converted into each other:

- *packed* (small): columns are modelled (:mod:`~archive.companion.modelling`: what others tell is
  left out), encoded (:mod:`~archive.companion.encodings`), and compressed as one
  (:mod:`~archive.companion.packed`); strings are templates and numbers
  (:mod:`~archive.companion.templates`). Where there is much of it, long columns come in blocks.
- *mapped* (opened in no time, whatever the size): flat columns, aligned to 64 bytes, each of the
  narrowest integer that holds it, and checksums of pages (:mod:`~archive.companion.mapped`).

**A lookup** of debug handle 1445 takes these steps. Its row is found by bisection; its tag is 11; range 11
has that tag:

    >>> import archive
    >>> from archive.reader.collect import collect
    >>> with archive.open("fixtures/oracles/plain_stack.ptl") as opened:
    ...     facts = collect(opened)
    >>> def row(table, number, *fields):
    ...     return [int(facts.columns[f"{table}.{field}"][number]) for field in fields]
    >>> at = facts.columns["handle.handle"].tolist().index(1445)
    >>> row("handle", at, "tag", "stack")
    [11, 6]
    >>> row("range", 11, "source", "start", "end", "tag")
    [6, 118, 126, 11]

    Bytes 118 to 126 of source 6 are meant. Its text starts in line 130 of its file:

    >>> text, filename, line = row("source", 6, "text", "filename", "line")
    >>> text, str(facts.strings[filename]), line
    (5, '/opt/py/lib/python3.11/site-packages/torch/nn/modules/linear.py', 130)

    Text 5 is node 21, and the lines from there to the root of its tree; the range is cut out of them:

    >>> [node], lines = row("text", 5, "node"), []
    >>> while node >= 0:
    ...     node, line = row("node", node, "parent", "line")
    ...     lines.append(bytes(facts.strings.data(line)))
    >>> b"".join(lines)[118:126]
    b'F.linear'

    Frame 6 calls a method of module 0, which holds the module that frame 7 calls, and so on:

    >>> frame, calls = 6, []
    >>> while frame >= 0:
    ...     frame, module = row("frame", frame, "next", "module")
    ...     calls.append(str(facts.strings[row("module", module, "instance")[0]]))
    >>> calls
    ['blocks', '0', 'SELF', 'fc']

**Versions.** 1: the first.
"""
