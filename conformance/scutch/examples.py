"""Examples of command lines, which the help of each command shows.

`scutch --help` shows the first example of every command.
"""

_ALL = """\
scutch run --implementation flax --report flax.json | judge the installed Flax
scutch run --implementation my_fork.py --profile quick | the requirements that find most faults
scutch run --requirement objects/graphs -n 2 | in two processes; pytest's options work
scutch run --within 30s --changed main | what a change can reach, for 30 seconds
scutch list | the parts and groups of the catalogue
scutch list objects/graphs | the requirements of a group
scutch list 'metadata/box-*' | those of several groups
scutch explain objects/graphs/merge-undoes-split | its text, its evidence and its law
scutch explain BOX-5 | by the id that it had in 0.1
scutch report reference.json flax.json --html site | side by side, and as pages
scutch report my_fork.json | one report as a table
scutch merge shard-*.json -o whole.json | one report of the shards of a run
scutch diff old.json new.json | exit 1 when something got worse
scutch diff old.json new.json --level should --allow-known | shoulds too, no known failure
scutch new-adapter my_library >my_adapter.py | an adapter that claims the names in a package
scutch known my_known.toml --from my_fork.json | what failed, as known failures
scutch known my_known.toml --from my_fork.json --update | add the ways in which known laws broke
scutch changes flax 0.12.6 0.12.12 | what an upgrade of Flax changes
scutch changes flax 0.12.6 --html changes.html --fail-on breaking | as a page, and as a check
scutch upgrade --from flax==0.12.6 src | which lines of your code an upgrade changes
scutch upgrade src tests --fix | rename what has a new name
scutch upgrade src --run 'pytest -q' | which of these lines your tests run
scutch reproduce metadata/box-axes/negative-index-counts-array-axes | a script for upstream
scutch reproduce BOX-5 --implementation my_fork.py --issue | the text of an issue about a fork
scutch reproduce --report flax.json | put a script into a report for each failure
scutch badge flax.json -o flax.svg | a picture for a README
scutch badge flax.json -o flax.svg --endpoints badges | and one for each part, by shields.io
scutch sarif my_fork.json --at my_fork.py -o my_fork.sarif | for tools of static analysis
scutch junit my_fork.json -o my_fork.xml | for services that show tables of tests
scutch github my_fork.json --at my_fork.py | annotations and a summary
scutch github my_fork.json --vouched main.json | with the changes since another report
scutch box my_boxes.py:Scaled | judge one box class
scutch box my_boxes.py:Scaled --make my_boxes.py:make --names axes | made by a function, with axes
scutch model my_model.py:setup show --html layout.html | where arrays lie, also as a page
scutch model my_model.py:setup check --mesh data=2,model=4 | train some steps on fake devices
scutch model my_model.py:setup lock --against setup.lock.json | what differs from a lock
scutch model my_model.py:setup compare new_model.py:setup | what differs from another model
scutch completion bash >~/.local/share/bash-completion/completions/scutch | for new shells
scutch completion zsh >~/.zfunc/_scutch | with `fpath+=~/.zfunc` before `compinit` in ~/.zshrc
scutch completion tcsh >~/.scutch.tcsh | with `source ~/.scutch.tcsh` in ~/.tcshrc
"""


def examples(command: str = "") -> dict[str, str]:
    """Examples of a command, or the first of every command, each with a few words about it."""
    found = dict(line.split(" | ") for line in _ALL.splitlines())
    if command:
        return {line: about for line, about in found.items() if line.split()[1] == command}
    first = {line.split()[1]: line for line in reversed(found)}
    return {line: about for line, about in found.items() if line in first.values()}


def shown(command: str = "") -> str:
    """The examples as lines for a help text, each with its words on the right, or below."""
    lines = ["examples:"]
    for line, about in examples(command).items():
        lines += [f"  {line:54}{about}"] if len(line) < 54 else [f"  {line}", f"{'':56}{about}"]
    return "\n".join(lines)
