r"""``*.ptdbg``, the companion file: all debug information of one archive. This text is its specification.

A companion restores every debug record to the byte, and answers every question that the records answer
without making them. Integers are little-endian; strings are UTF-8, and other bytes in them are kept.

**The file** is a header, a directory with a line for each section, and the sections in that order: see
:mod:`~archive.companion.layout`. Each section has a checksum, and header and directory share one. The file
states no positions: they follow from the sizes, so sections neither overlap nor leave gaps.

**The archive id** says whose debug information this is: see :mod:`archive.formats.archive_id`.

**The tables.** Each fact is a row of a table, and a table is its columns: a source range that hundreds of
records repeat is one row of ``range``. Rows are numbered by first use, so that references are small. For each
column the list has number, name, the meaning of a value and, after ``→``, the table whose rows the values
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
     20 file.digest         digest of the archive, if a join restores its bytes
     21 file.qualified_top  qualified name of the top module's class → string
     22 file.ordered        1 if the values of range.tag never fall
     23 file.prefix         prefix of the unique handles that the split archive prints
     24 member.kind         where a join takes a record from, and how it was stored
     25 member.modified     time and date of the record, as the zip has them
     26 file.redacted       archive id of the redacted archive, in hexadecimal digits → string
     27 file.root           folder of all records, if the redacted archive has another → string
     28 replaced.name       record that the redacted archive has under another name → string
     29 replaced.by         that name → string
     30 file.salt           key of hashes in the redacted archive, in hexadecimal digits → string
     31 file.label          label of the release: 1.4.2 → string
     32 record.name         name of a source-range record → string
     33 record.layout       layout of the record's rows
     34 record.rows         how many rows the record has
     36 code.name           name of a code record whose lines have digests → string
     37 code.lines          how many lines the code has
     38 digest.line         first 3 bytes of the blake2b of a line of code
     40 row.offset          byte of the generated code; -1 in lowered modules
     41 row.range           source of the code from that byte on → range
     42 row.line            line of that byte, from 0; -1 without code
     43 row.column          bytes before it in that line
     48 range.source        source that the range is part of → source
     49 range.start         first byte of the range in the source's text
     50 range.end           byte after the last one
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
     80 frame.next          call inside this one; -1 in the innermost → frame
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
    106 object.length       bytes of a shared object after its segments
    107 object.start        byte that its section headers begin at
    108 object.sections     how many section headers it has
    109 object.names        number of the section that has the names of sections
    112 program.name        name of an exported program → string
    113 program.sites       how many nodes it has
    114 program.scopes      how many graphs are inside its own
    116 scope.parent        graph around this one; -1 for the program's own → scope
    117 scope.holder        node that holds the graph → site
    118 scope.name          name of the graph → string
    120 site.scope          graph that the node is in; -1 for the program's own → scope
    121 site.base           name of the node, without a number at its end → string
    122 site.number         number at the end of its name; -1 if there is none
    123 site.target         what the node calls → string
    124 site.keys           which metadata the node has → keyset
    125 site.trace          innermost call of its stack trace; -1 if none → call
    126 site.layout         1: the trace's first line is indented; 2: its last one ends; 3: both
    127 site.inside         innermost module instance; -1 if none → inside
    128 site.maker          function that made the node; -1 if none → maker
    129 site.made           innermost of the functions that strict export records; -1 if none → made
    130 site.origin         first of the nodes that it was made from; -1 if none → origin
    132 call.outer          call around this one; -1 for the outermost → call
    133 call.line           line that ran → line
    136 line.file           file of the line → string
    137 line.number         its number, from 1
    138 line.function       function that it is part of → string
    139 line.code           its text; -1 if none is recorded → string
    140 line.blank          columns before the mark below it; -1 without a mark
    141 line.before         tildes before the carets of the mark
    142 line.carets         carets of the mark
    143 line.after          tildes after the carets
    144 inside.outer        instance around this one; -1 for the outermost → inside
    145 inside.instance     the module → instance
    146 inside.id           id of the module in the process that exported; -1 if none → address
    147 inside.call         number of the call; -1 if none
    148 instance.name       attribute path of a module, below the module around it → string
    149 instance.whole      1 if the name is the path from the top module
    150 instance.class      qualified name of the module's class → string
    151 instance.key        key of the instance; -1 if it follows from path or id → string
    152 maker.base          name of a node when it was made, without a number at its end → string
    153 maker.number        number at the end of that name; -1 if there is none
    154 maker.function      function that made it → string
    156 made.outer          function around this one; -1 for the outermost → made
    157 made.maker          the function, and the node's name → maker
    160 origin.base         name of a node of an earlier graph, without a number at its end → string
    161 origin.number       number at the end of that name; -1 if there is none
    162 origin.target       what that node calls → string
    163 origin.graph        id of that graph → address
    164 origin.pass         pass that made a node from it → string
    165 origin.action       what the pass did → string
    166 origin.inner        first of the nodes that it was itself made from; -1 if none → origin
    167 origin.next         next of the nodes that one node was made from; -1 for the last → origin
    168 address.value       id of an object in the process that exported
    172 keyset.count        how many keys of metadata the set has
    174 key.name            key of metadata: stack_trace → string
    176 kept.site           node whose text is kept as it is → site
    177 kept.key            its key → string
    178 kept.text           the text → string

:mod:`archive.normalform.columns` declares them with their bounds, and which tables need which. Only a join
reads ``member.kind`` and ``file.digest``: see :mod:`~archive.companion.members`. A *raw* record is one that
PyTorch's rules cannot rebuild from the columns; the file holds all of it.

**Redacted archives.** A companion that ``redact`` writes has the archive's own id and, if records of the
model were rewritten, the id of the redacted archive in ``file.redacted``; it fits both. The original records
are raw, and a join prefers them to those of the redacted archive. ``file.root`` is their original folder, and
``replaced`` leads from names in the redacted archive to the original ones.

**Two layouts** hold the same, and can be converted into each other:

- *packed* is small. Columns are modelled (:mod:`~archive.companion.modelling`: what follows from other
  columns is left out), encoded (:mod:`~archive.companion.encodings`), and compressed together
  (:mod:`~archive.companion.packed`, :mod:`~archive.companion.codecs`); strings are templates and numbers
  (:mod:`~archive.companion.templates`). Long columns of large files are compressed in blocks, each separately
  (:mod:`~archive.companion.blocks`).
- *mapped* opens at once, whatever its size. Columns are arrays of the narrowest integer that fits their
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
