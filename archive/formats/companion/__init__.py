"""spec to be written."""

from archive.formats.companion.build import build_companion
from archive.formats.companion.facts import Facts
from archive.formats.companion.layout import ID_BYTES, MAGIC, VERSION, Profile, is_companion
from archive.formats.companion.parse import Opened, parse_companion
from archive.formats.companion.records import DebugRecords

__all__ = [
    "ID_BYTES",
    "MAGIC",
    "VERSION",
    "DebugRecords",
    "Facts",
    "Opened",
    "Profile",
    "build_companion",
    "is_companion",
    "parse_companion",
]
