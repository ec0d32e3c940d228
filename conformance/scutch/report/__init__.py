"""Reports: written by the judge, read by people and by the gates of CI.

`write` and `load` keep one run as JSON, and `compare` lists the changes between two. A run is
drawn by `scutch.report.badge`; several are shown side by side by `scutch.report.table` and
`scutch.report.site`. The last two need the extra `report`, and so does `load`, which validates.
"""

from scutch.judging.verdicts import VERDICTS as VERDICTS
from scutch.judging.trials import Counterexample as Counterexample
from scutch.report.comparison import (
    Change as Change,
    Comparison as Comparison,
    compare as compare,
)
from scutch.report.document import (
    SCHEMA as SCHEMA,
    Environment as Environment,
    Outcome as Outcome,
    Part as Part,
    Product as Product,
    Report as Report,
    ReportError as ReportError,
    load as load,
    schema as schema,
    suite as suite,
    write as write,
)
