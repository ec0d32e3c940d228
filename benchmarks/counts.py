"""All that can be counted, in one file that is the same whenever nothing changed.

`python -m benchmarks.counts FILE` runs every `track_*` that counts, in one process, and writes the
figures. What is not there, an implementation or a feature, is left out.
"""

import argparse
import importlib
import inspect
import itertools
import json
import re
import sys
from pathlib import Path

from .guide import ask_for_devices

FOLDER = Path(__file__).parent


def benchmarks(*prefixes):
    """Every benchmark whose method has one of the prefixes, as asv finds them.

    Yields:
      The name with its parameters, the class, the method's name, and the parameters.
    """
    for file in sorted(FOLDER.glob("[!_]*.py")):
        module = importlib.import_module(f"{__package__}.{file.stem}")
        for _, kind in inspect.getmembers(module, inspect.isclass):
            if kind.__module__ != module.__name__:
                continue
            for method in sorted(name for name in dir(kind) if name.startswith(prefixes)):
                for choice in itertools.product(*getattr(kind, "params", ())):
                    arguments = ", ".join(map(str, choice))
                    yield f"{file.stem}.{kind.__name__}.{method}({arguments})", kind, method, choice


def counts(select=""):
    """Each figure by its benchmark's name, where the name matches `select`."""
    figures, caches = {}, {}
    for name, kind, method, choice in benchmarks("track_"):
        if getattr(getattr(kind, method), "jitters", False) or not re.search(select, name):
            continue
        if hasattr(kind, "setup_cache"):
            if kind not in caches:
                caches[kind] = kind().setup_cache()
            choice = (caches[kind], *choice)
        benchmark = kind()
        try:
            getattr(benchmark, "setup", lambda *_: None)(*choice)
            figures[name] = getattr(benchmark, method)(*choice)
        except NotImplementedError:
            continue
        finally:
            getattr(benchmark, "teardown", lambda *_: None)(*choice)
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
