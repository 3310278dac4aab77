"""Programs of ExecuTorch, ``.pte``: :mod:`.layout` declares the file, :mod:`.program` reads it."""
