r"""``*.ptdbg``, the companion file: all debug information of one archive. This text is its specification.

A companion gives every debug record again to the byte, and answers every question that the records answer
without making them. Integers are little-endian; strings are UTF-8, and other bytes in them are kept.

**The file** is a header, a directory with a line for each section, and the sections in that order: see
:mod:`~archive.companion.layout`. Each section has a checksum, and header and directory have one together. The
file states no positions: they follow from the sizes, so that sections neither overlap nor leave holes.

**The archive id** says whose debug information this is: see :mod:`archive.formats.archive_id`.

**The tables.** Each fact is a row of a table, and a table is its columns: a source range that hundreds of
records repeat is one row of ``range``. Rows are numbered by first use, so that references are small. For each
column the list has number, name, the meaning of a value, and behind ``→`` the table whose rows the values
are:

    >>> from archive.normalform.columns import column_lines
    >>> for line in column_lines():
    ...     print(line)
      8 string.length       bytes of the string
      9 string.template     the string's template → template
     10 template.length     bytes of the template
     12 string.end          where the string ends in the section of strings
     11 number.value        number in a hole of a template
     16 file.top            class of the top module, as PyTorch prints it → string
     17 file.callstacks     0: rows of the call-stack map have 3 elements; 1: 4
     18 file.method_version bytecode version in mobile_debug_handles.pkl
     19 file.path_version   bytecode version in mobile_debug.pkl
     20 file.digest         digest of the archive, if a join gives its bytes again
     21 file.qualified_top  qualified name of the top module's class → string
     22 file.ordered        1 if the values of range.tag never fall
     23 file.prefix         prefix of the unique handles that the split archive prints
     24 member.kind         where a join takes a record from, and how it was stored
     25 member.modified     time and date of the record, as the zip has them
     32 record.name         name of a source-range record → string
     33 record.layout       layout of the record's rows
     34 record.rows         how many rows the record has
     40 row.offset          byte of the generated code; -1 in lowered modules
     41 row.range           source of the code from that byte on → range
     42 row.line            line of that byte, from 0; -1 where there is no code
     43 row.column          bytes before it in that line
     48 range.source        source that the range is part of → source
     49 range.start         first byte of the range in the source's text
     50 range.end           byte behind the last one
     51 range.tag           number of the range in the archive; -1 without tags
     56 source.text         text; -1 if it is empty → text
     57 source.filename     file of the text; -1 if none is recorded → string
     58 source.line         line of the file that the text begins in
     59 source.null         1 for PyTorch's null source, which stands for no source
     64 text.node           first line of the text → node
     65 node.parent         line that follows this one; -1 at the text's end → node
     66 node.line           the line, with its line feed → string
     72 handle.handle       debug handle; rows are in the order of handles
     73 handle.tag          tag of the operation's range
     74 handle.op           name of the operator; -1 if none is recorded → string
     75 handle.stack        outermost call; -1 for an operation of the top method → frame
     76 handle.place        handle in the n-th row of the call-stack map → handle
     80 frame.next          call inside of this one; -1 in the innermost → frame
     81 frame.module        module whose method is called; -1 for a function → module
     82 frame.tag           tag of the call's range in the caller; -1 if unknown
     83 frame.function      name of what is called; -1 if none is recorded → string
     84 module.type         qualified name of the module's class → string
     85 module.instance     attribute that holds the module → string
     86 module.known        1 if the module tree has that class
     88 method.name         qualified name of a method in mobile_debug_handles.pkl → string
     89 method.instructions how many instructions the method has
     90 instruction.handle  debug handle of the instruction
     96 pathed.name         qualified name of a method in mobile_debug.pkl → string
     97 pathed.steps        how many operators the method has
     98 step.path           module path of the operator → string
    104 raw.name            name of a raw record → string
    105 raw.length          bytes of the raw record

:mod:`archive.normalform.columns` declares them with their bounds, and which tables need which. Only a join
reads ``member.kind`` and ``file.digest``: see :mod:`~archive.companion.members`. A *raw* record is one that
PyTorch's rules would not give again from the columns; the file holds it whole.

**Two profiles** hold the same, and are converted into each other:

- *packed* is small. Columns are modelled (:mod:`~archive.companion.modelling`: what other columns tell is
  left out), encoded (:mod:`~archive.companion.encodings`), and compressed together
  (:mod:`~archive.companion.packed`); strings are templates and numbers
  (:mod:`~archive.companion.templates`). Long columns of large files are compressed in blocks, each for itself
  (:mod:`~archive.companion.blocks`).
- *mapped* opens at once, whatever its size. Columns are arrays of the narrowest integer that holds their
  values, aligned to 64 bytes, with checksums of pages (:mod:`~archive.companion.mapped`).

**A lookup** of debug handle 1445 takes these steps. Its row is found by bisection; its tag is 11; range 11
has that tag:

    >>> import archive
    >>> from archive.reader.collect import collect
    >>> with archive.open("fixtures/oracles/plain_stack.ptl") as opened:
    ...     contents = collect(opened)
    >>> def row(table, number, *fields):
    ...     return [int(contents.columns[f"{table}.{field}"][number]) for field in fields]
    >>> at = contents.columns["handle.handle"].tolist().index(1445)
    >>> row("handle", at, "tag", "stack")
    [11, 6]
    >>> row("range", 11, "source", "start", "end", "tag")
    [6, 118, 126, 11]

    The range is bytes 118 to 126 of source 6, whose text begins in line 130 of its file:

    >>> text, filename, line = row("source", 6, "text", "filename", "line")
    >>> text, str(contents.strings[filename]), line
    (5, '/opt/py/lib/python3.11/site-packages/torch/nn/modules/linear.py', 130)

    The text is its first line, node 21, and the lines that follow up to the root of the tree:

    >>> [node], lines = row("text", 5, "node"), []
    >>> while node >= 0:
    ...     node, line = row("node", node, "parent", "line")
    ...     lines.append(bytes(contents.strings.data(line)))
    >>> b"".join(lines)[118:126]
    b'F.linear'

    Frame 6 calls a method of module 0, which holds the module that frame 7 calls, and so on:

    >>> frame, calls = 6, []
    >>> while frame >= 0:
    ...     frame, module = row("frame", frame, "next", "module")
    ...     calls.append(str(contents.strings[row("module", module, "instance")[0]]))
    >>> calls
    ['blocks', '0', 'SELF', 'fc']
"""
