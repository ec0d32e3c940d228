"""All that can be counted, in one file that is the same whenever nothing changed.

`python -m benchmarks.counts FILE` runs every `track_*` that counts, in one process, and writes the
figures. What is not there, an implementation or a feature, is left out.
"""

import argparse
import contextlib
import json
import re
import sys
from pathlib import Path

from .cases import cases
from .meshes import ask_for_devices


def counts(select=""):
    """Each figure by its benchmark's name, where the name matches `select`."""
    figures = {}
    for case in cases("track_"):
        if not case.jitters and re.search(select, case.name):
            with contextlib.suppress(NotImplementedError), case.ready() as measured:
                figures[case.name] = measured()
    return figures


def main(arguments):
    """Write the file; returns an exit code, 2 when nothing was counted."""
    parser = argparse.ArgumentParser("python -m benchmarks.counts", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--select", default="", help="a regular expression for names")
    given = parser.parse_args(arguments)
    ask_for_devices(8)
    figures = counts(given.select)
    if not figures:
        print(f"nothing was counted: no benchmark that is there matches {given.select!r}")
        return 2
    given.file.write_text(json.dumps(figures, indent=1, sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
