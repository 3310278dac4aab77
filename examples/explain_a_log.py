"""A log of many models → the same log, each failure explained by its own model, as it comes."""

import archive

explained = 0
with open("fixtures/fleet/unique.log", "rb") as log:
    for piece in archive.explain(log, "fixtures/fleet"):
        if b"Module hierarchy" in piece:
            explained += 1
            if explained == 1:
                print(piece.decode(), end="")
print(f"{explained} failures explained")
