"""A file → every piece of bytes that can be read in it, and the strings of each.

In: a file that is mapped. Out: its records as stored and as inflated, the bytes between them, and the zips,
companions, compressed streams and sections, base64 and the like in records (``walker``, ``packed``,
``encoded``), each with its place (``piece``). The pieces of files of tensors that aren't zips are texts put
together (``tensor_texts``). ``walker`` says how much of what is packed is read.

The strings of a piece (``strings``), each once, with escapes undone, are those of JSON, of a pickle, or
between other bytes (``layers``, ``escaped_layers``, ``pickle_strings``), and those of strings that are JSON
or a pickle themselves.

``leaks`` looks for all that reveals something, the proof of ``redact`` for what was to go: both can read the
same. What was found in a tensor is kept for a file that has the same bytes again (``tensors_read``).
``encoded.ENCODINGS`` lists all ways to write a text that both read.
"""
