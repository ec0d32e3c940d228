"""One process of a job: `python -m scutch.judging.member SETTINGS`.

`SETTINGS` is a JSON object: how the implementation is found, under `where`, and the place of the
process in the job, see `scutch.judging.job.serve`. Process 0 is asked for laws by name:

    {"law": "test_x", "examples": 8, "seed": 0, "witness": null, "known": [],
     "replay": null}

and answers with the data of the trial. The other processes try each input that it publishes.
"""

import json
import sys
from typing import Any

from scutch.implementation import Implementation
from scutch.judging import job, suite
from scutch.judging.attempt import Setting
from scutch.judging.calls import parse_call
from scutch.judging.exchange import Exchange
from scutch.judging.jax_parts import lower_quickly
from scutch.judging.known import Expected
from scutch.judging.profiles import prepare_devices
from scutch.judging.suite import Law
from scutch.judging.trying import try_law
from scutch.loading import load


def lead(exchange: Exchange, implementation: Implementation, request: Any, *, changed: str) -> Any:
    """Try a law in every process of the job.

    Args:
      exchange: The exchange of process 0, which publishes each input to the other processes.
      implementation: The implementation under judgment.
      request: The judge's request, data from JSON: see the module's docstring. `witness` and
        `replay` may be null.
      changed: A sentence, if the implementation's claims here differ from its claims at the start
        of the run; else empty.

    Returns:
      The data of the trial, for JSON.

    Raises:
      ValueError: `changed` is not empty.
    """
    if changed:
        raise ValueError(changed)
    replay = request["replay"]
    trial = try_law(
        _law(request["law"]),
        implementation,
        examples=request["examples"],
        seed=request["seed"],
        known=Expected(request["witness"], tuple(request["known"])),
        setting=Setting(exchange=exchange),
        replay=None if replay is None else [parse_call(replay)[1]],
    )
    return trial.to_data()


def follow(exchange: Exchange, implementation: Implementation, *, changed: str) -> None:
    """Try each input that process 0 publishes, until it publishes the end.

    Args:
      exchange: The exchange of this process, which is not process 0.
      implementation: The implementation under judgment.
      changed: As in `lead`; the answer to each input, where it is not empty.
    """

    def attempt(text: str) -> str | None:
        if changed:
            return changed
        name, inputs = parse_call(text)
        trial = try_law(_law(name), implementation, examples=1, replay=[inputs])
        return trial.reason if trial.outcome == "failed" else None

    exchange.follow(attempt)


def _changed(implementation: Implementation, offers: list[str]) -> str:
    """A sentence, if its claims here differ from `offers`, its claims at the run's start."""
    if list(implementation.offers) == offers:
        return ""
    now = "; ".join(implementation.offers)
    return f"it claims {now} in this process; expected {'; '.join(offers)}"


def _law(name: str) -> Law:
    law = suite.named(name)
    if law is None:
        raise ValueError(f"process 0 asked for {name!r}; expected the name of a law")
    return law


def main() -> None:
    """Join the job, and try laws until it ends."""
    prepare_devices()
    lower_quickly()
    settings = json.loads(sys.argv[1])
    implementation = load(settings["where"])
    changed = _changed(implementation, settings["offers"])
    job.serve(
        lambda exchange, request: lead(exchange, implementation, request, changed=changed),
        lambda exchange: follow(exchange, implementation, changed=changed),
    )


if __name__ == "__main__":
    main()
