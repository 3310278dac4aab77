"""An archive ↔ what is left of it and its companion.

``kept`` decides which kinds of debug information and which handles stay, ``slim`` makes the members of the
archive that is left, ``companions`` what a companion holds, and ``joined`` the archive as it was.
"""
