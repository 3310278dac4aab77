"""Bad input ends in one error that says where; a check lists all that is wrong in a file."""

from pathlib import Path

import archive

data = bytearray(Path("fixtures/oracles/plain_stack.ptl").read_bytes())
at = data.index(b"bytecode.pkl") + 200
data[at] ^= 0xFF
for finding in archive.verify(bytes(data)):
    print(finding)
try:
    archive.open(b"GIF89a, no archive")
except archive.ArchiveError as error:
    print(error)
