"""A job of several processes trains as one process does, and ends when any of them dies."""

import math
import threading
import time

import pytest

from benchmarks import processes


def test_two_processes_train_as_one_does():
    one, two = (processes.job("reference", processes=count)["norms"] for count in (1, 2))
    assert len(one) == 3
    assert len(set(one)) == 3
    assert all(math.isclose(a, b, rel_tol=1e-5) for a, b in zip(one, two, strict=True))


def test_a_killed_process_ends_the_job_within_a_minute_with_a_message():
    members, killed = [], []

    def kill_later(started):
        members.extend(started)
        timer = threading.Timer(8, lambda: (killed.append(time.monotonic()), started[1].kill()))
        timer.daemon = True
        timer.start()

    with pytest.raises(processes.JobFailed, match="process 1 of 2 ended with code -9, and the job"):
        processes.job("reference", steps=100_000, on_start=kill_later)
    assert time.monotonic() - killed[0] < 60
    assert all(member.poll() is not None for member in members)
