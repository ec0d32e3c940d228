"""A process that has imported the judge, and forks itself for each command, in 0.3 s.

Each line of its input is a JSON object with `argv`, which begins with `scutch` or `pytest`, `cwd`,
`environment` and `output`, a file; each line of its output the exit code of the command. The
command has a process group of its own, whose number is in a file beside the output.
"""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

import pytest
from scutch import cli, plugin

SECONDS = 240


def execute(request: dict[str, Any]) -> NoReturn:
    """The command, in a fork."""
    code = 99
    try:
        os.setpgid(0, 0)
        # A shell starts background jobs with SIGINT ignored, and their children inherit that.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        Path(request["output"] + ".pid").write_text(str(os.getpid()), encoding="utf-8")
        output = os.open(request["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for descriptor in (1, 2):
            os.dup2(output, descriptor)
        signal.alarm(SECONDS)
        os.chdir(request["cwd"])
        os.environ.update(request["environment"])
        program, *words = request["argv"]
        sys.argv[1:] = words
        if program == "pytest":
            sys.argv[0] = "__main__.py"  # as of `python -m pytest`
            # It cannot rewrite the assertions of plugins that are imported already.
            code = int(pytest.main(["-W", "ignore::pytest.PytestAssertRewriteWarning", *words]))
        else:
            code = cli.main(words)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    """Carry out commands until the input ends."""
    assert plugin is not pytest
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            execute(json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
