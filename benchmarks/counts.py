"""Every figure that is a count, in one file that is the same whenever nothing changed.

`python -m benchmarks.counts FILE` runs every `track_*` whose figure does not jitter, in one
process, and writes the figures as JSON. A benchmark whose implementation or feature is not there is
left out.
"""

import argparse
import contextlib
import json
import os
import re
import sys
from pathlib import Path

from .configurations import configurations
from .meshes import ask_for_devices


def counts(select=""):
    """The count of each configuration whose name matches the regular expression `select`.

    Every benchmark is named on standard error when it begins.
    """
    figures, begun = {}, ""
    for each in configurations("track_"):
        if not each.jitters and re.search(select, each.name):
            if each.benchmark != begun:
                print(each.benchmark, file=sys.stderr, flush=True)
                begun = each.benchmark
            with contextlib.suppress(NotImplementedError), each.ready() as measured:
                figures[each.name] = measured()
    return figures


def main(arguments):
    """Write the file; returns an exit code, 2 when nothing was counted."""
    parser = argparse.ArgumentParser("python -m benchmarks.counts", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--select", default="", help="a regular expression for names")
    parser.add_argument(
        "--implementation",
        default="",
        metavar="NAME|MODULE:ATTR|FILE",
        help="an adapter, as `scutch run` takes it, to be counted beside the others",
    )
    options = parser.parse_args(arguments)
    if options.implementation:
        os.environ["SCUTCH_IMPLEMENTATION"] = options.implementation
    ask_for_devices(8)
    figures = counts(options.select)
    if not figures:
        print(f"nothing was counted: no benchmark that is there matches {options.select!r}")
        return 2
    options.file.write_text(json.dumps(figures, indent=1, sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
