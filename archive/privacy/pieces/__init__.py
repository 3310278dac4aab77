"""A file → every piece of bytes that can be read in it, and the strings of each.

In: a file that is mapped. Out: its records as stored and as inflated, what stands between them, what records
hold that is a zip, a companion, a compressed stream or section, or base64 and the like (``walker``,
``packed``, ``encoded``), each with its place (``piece``). Of files of tensors that are no zips, the pieces
are texts put together (``tensor_texts``). ``walker`` says how much of what is packed is read.

The strings of a piece (``strings``), each once, with escapes undone, are those of JSON, of a pickle, or
between other bytes (``layers``, ``pickle_strings``), and those of strings that are JSON or a pickle
themselves.

``leaks`` looks for all that tells something, the proof of ``redact`` for what was to go: what one of them can
read, so can the other. ``encoded.ENCODINGS`` lists all ways to write a text that both read.
"""
