"""Open an archive without PyTorch: its kind, its records, and the source of a place in its generated code."""

import archive

CODE = "code/__torch__/plain.py"
with archive.open("fixtures/oracles/plain_stack.ptl") as model:
    print(model.recognised.kind)
    for name in ("data.pkl", CODE, "callstack_debug_map.pkl"):
        print(f"{model.records[name].size:6,} bytes in {name}")
    position = bytes(model.records[CODE].view()).index(b"torch.add")
    place = model.locate(CODE, position)
    print(f"byte {position} of {CODE} comes from line {place.line} of {place.source.filename}")
