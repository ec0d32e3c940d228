"""Commands of `scutch` and `pytest`, carried out by forks of one process that has the judge.

A new process would import JAX and the judge again: most of the time of a short command.
"""

import contextlib
import json
import os
import subprocess
import sys


@contextlib.contextmanager
def warm_process(environment):
    """A process of `trials.hostile.warm`, which ends with the context.

    Args:
      environment: Its environment variables, but for `PYTHONPATH`. JAX reads its own here.
    """
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "trials.hostile.warm"],
        text=True,
        env={**environment, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with process:
        yield process
        process.stdin.close()


def begin(process, words, folder, output, environment):
    """Have a warm process begin with a command.

    Args:
      process: The warm process.
      words: The command: `scutch` or `pytest`, and its arguments.
      folder: The working directory.
      output: The file that its output is written to.
      environment: Variables that are set for this command.
    """
    request = {
        "argv": list(map(str, words)),
        "cwd": str(folder),
        "output": str(output),
        "environment": environment,
    }
    process.stdin.write(json.dumps(request) + "\n")
    process.stdin.flush()


def ended(process, output):
    """Wait for the command that a warm process has begun; gives its exit code and its output."""
    code = int(process.stdout.readline())
    return code, output.read_text("utf-8", errors="replace")


def variables():
    """The environment variables, without those by which pytest would take itself for a worker."""
    return {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
