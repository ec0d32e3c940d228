"""The commands of `scutch` but `run`: each module has those of one subject, with their options.

    requirements.add(command)

adds the commands `list` and `explain`, where `command` is made by `command.adder`.
"""
