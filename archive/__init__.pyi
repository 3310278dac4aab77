# Made of `__init__.py` by `python -m tools.public_api --stub`.

from archive.base.errors import ArchiveError as ArchiveError
from archive.base.errors import LimitError as LimitError
from archive.base.limits import Limits as Limits
from archive.batches.batch import batch as batch
from archive.batches.jobs import Outcome as Outcome
from archive.batches.jobs import OutcomeKind as OutcomeKind
from archive.check.verify import Diagnostic as Diagnostic
from archive.check.verify import verify as verify
from archive.compare.diff import Change as Change
from archive.compare.diff import Diff as Diff
from archive.compare.diff import Level as Level
from archive.compare.diff import TensorChange as TensorChange
from archive.compare.diff import TextChange as TextChange
from archive.compare.diff import diff as diff
from archive.compare.digest import Digest as Digest
from archive.compare.digest import digest as digest
from archive.debuginfo.symbolicate import Style as Style
from archive.debuginfo.symbolicate import Symbolication as Symbolication
from archive.describe.runtime.profile import RuntimeProfile as RuntimeProfile
from archive.describe.runtime.profile import profile_etdump as profile_etdump
from archive.describe.sizes import Account as Account
from archive.describe.sizes import sizes as sizes
from archive.failures.models.explaining import Explainer as Explainer
from archive.failures.models.explaining import explain as explain
from archive.page.report import Report as Report
from archive.page.report import report as report
from archive.privacy.leaks import Finding as Finding
from archive.privacy.leaks import LeakKind as LeakKind
from archive.privacy.leaks import Leaks as Leaks
from archive.privacy.leaks import leaks as leaks
from archive.privacy.redact import Redaction as Redaction
from archive.privacy.redact import redact as redact
from archive.privacy.redact.companions import CompanionRedaction as CompanionRedaction
from archive.privacy.redact.companions import redact_companion as redact_companion
from archive.reader.archive import Archive as Archive
from archive.reader.opening import open as open
from archive.reader.recognition import FileKind as FileKind
from archive.reader.recognition import Recognised as Recognised
from archive.reader.recognition import recognise as recognise
from archive.rewrite.canonicalise import Canonical as Canonical
from archive.rewrite.canonicalise import canonicalise as canonicalise
from archive.rewrite.convert import Conversion as Conversion
from archive.rewrite.convert import convert as convert
from archive.rewrite.join import Join as Join
from archive.rewrite.join import join as join
from archive.rewrite.join import restore as restore
from archive.rewrite.migrate.migrate import Migration as Migration
from archive.rewrite.migrate.migrate import migrate as migrate
from archive.rewrite.shrink import Shrinkage as Shrinkage
from archive.rewrite.shrink import shrink as shrink
from archive.rewrite.split import Split as Split
from archive.rewrite.split import split as split

__version__: str
__all__: list[str]
