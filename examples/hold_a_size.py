"""Where the bytes of a model go, and by how much a build has grown."""

import archive

old = archive.sizes("fixtures/releases/torch-1.9.0/unicode.ptl")
new = archive.sizes("fixtures/releases/torch-2.13.0/unicode.ptl")
for label, change in list(new.difference(old, "kind").items())[:3]:
    print(f"{label}: {change.old:,} → {change.new:,} bytes")
print(f"{old.size:,} bytes in PyTorch 1.9, {new.size:,} in 2.13: {new.size / old.size - 1:+.0%}")
