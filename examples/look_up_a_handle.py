"""One debug handle of a lite model → the text that PyTorch would print, and the same as facts."""

import archive

with archive.open("fixtures/oracles/plain_stack.ptl") as model:
    found = model.symbolicate(1445)
    print(found)
    for frame in found.frames:
        print(frame.range.source.filename, frame.range.line)
