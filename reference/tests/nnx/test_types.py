"""A user's type checker can use the signatures of lifted functions (JIT-7)."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def test_decorated_functions_keep_their_parameters():
    """With options and without, in all transformations; wrong arguments are found."""
    pytest.importorskip("mypy", reason="mypy, which checks the types, is not installed")
    file = Path(__file__).with_name("typed_user_code.py")
    command = [sys.executable, "-m", "mypy", "--no-error-summary", str(file)]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert checked.stdout == ""
    assert checked.returncode == 0, checked.stderr
