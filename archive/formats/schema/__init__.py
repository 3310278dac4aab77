r"""How every format is written down here: once, in one vocabulary.

A declaration says what is where, in the names of the format's own documents. The reader, the writer, the
error that names the place, and the page ``docs/reference/fields.md`` follow from it.

===========================  =================================================  ====================
a record of                  is declared with                                   for example
===========================  =================================================  ====================
bytes at fixed places        ``Struct`` of :mod:`.words`, in a                  headers of zips, ELF
                             :class:`.fixed.Layout`
integers of variable length  the same, in a :class:`.varints.VariableLayout`    companions
rows with texts in them      construct's, in a :class:`.bounded.CompiledRow`    GGUF
other bytes                  any construct, read by :func:`.binary.parse`       GGUF's values
FlatBuffers                  ``Table``, ``Vector`` of :mod:`.flatbuffer`        ETDump
protobuf                     ``Message``, ``Numbered`` of :mod:`.protobuf`      ONNX
a pickle                     ``Tuple``, ``Shared`` … of :mod:`.pickled`         source ranges
JSON                         ``JsonClass``, ``ListOf`` … of :mod:`.json`        exported programs
===========================  =================================================  ====================

A field has a name, a type and, unless these say it all, a doc. In each of the three notations::

    Struct("line" / Int32ul * "counted from 1", "column" / Int16ul)
    Tuple(line=Int(low=1) * "counted from 1", column=Int())
    JsonClass({"line": "int", "column": "int"}, docs={"line": "counted from 1"})

Five rules hold for all of them:

- *What all commands read needs no import of construct*, which takes a tenth of a short one: :mod:`.words` are
  construct's own words for numbers and bytes, and make construct's objects only where these are needed.
- *What repeats is compiled.* construct takes 2 to 3 µs a field. So a ``Struct`` of fixed size becomes one
  call of :mod:`struct`, and many of them one numpy array; pickles and FlatBuffers are read as columns, all
  rows of an archive at once. construct itself reads what occurs once, and is what tests compare with.
- *What a file claims is checked against what it has.* A count or a size is compared with the bytes that are
  left, and memory is requested from the ``Allowance``, before anything is created.
- *What is wrong is one* :class:`~archive.base.errors.ArchiveError`, whose place ends with the field:
  ``byte 30, field crc32``, ``row 17, field tag``, ``graph.nodes[3].target``.
- *Bytes come back.* Wherever there is a writer, it rebuilds the bytes that were read.
"""
