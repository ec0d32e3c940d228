"""The programs behind the commands in `ci/`, one module for each command.

`ci/conformance` runs `scutch_ci.conformance`, `ci/test` runs `scutch_ci.test`, `ci/gate` runs
`scutch_ci.gate` and `ci/nightly` runs `scutch_ci.nightly`. The modules without a command hold the
code that several commands share.
Each command is a few lines of shell: it has `ci/environment` make the pinned environment, puts
`ci` and the root of the checkout on `PYTHONPATH`, and runs `python -m scutch_ci.NAME`.
"""
