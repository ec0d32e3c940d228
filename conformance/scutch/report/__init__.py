"""Reports: written by the judge, read by people and by the gates of CI.

`write` and `load` keep one run as JSON, and `compare` finds what changed between two. A run is
drawn by `scutch.report.badge`; several are shown side by side by `scutch.report.table` and
`scutch.report.site`. The last two need the extra `report`, and so does `load`, which validates.
"""

from scutch.judging.verdicts import VERDICTS as VERDICTS
from scutch.judging.verdicts import Counterexample as Counterexample
from scutch.report.comparison import Change as Change
from scutch.report.comparison import Comparison as Comparison
from scutch.report.comparison import compare as compare
from scutch.report.document import SCHEMA as SCHEMA
from scutch.report.document import Environment as Environment
from scutch.report.document import Outcome as Outcome
from scutch.report.document import Product as Product
from scutch.report.document import Report as Report
from scutch.report.document import ReportError as ReportError
from scutch.report.document import load as load
from scutch.report.document import schema as schema
from scutch.report.document import suite as suite
from scutch.report.document import write as write
