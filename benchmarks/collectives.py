"""The reader of collectives that the judge has, loaded from its file.

Benchmarks run beside any installed version of the judge, also one that has no such module.
"""

import importlib.util
from pathlib import Path

_FILE = Path(__file__).parents[1] / "conformance" / "scutch" / "models" / "collectives.py"
_spec = importlib.util.spec_from_file_location("benchmarks.collectives_of_the_judge", _FILE)
_reader = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_reader)

KINDS = _reader.KINDS
collectives = _reader.collectives
