"""A first adapter for a package, made from the names that the package has.

    print(draft("my_library"))

If the package has all names of a capability, the adapter claims the capability; else it claims the
names that the package has. The owner deletes the claims that the judge is not to try.
"""

import importlib

from scutch.implementation import LAYOUT, NAMES, modules_of, names_held

_TEXT = '''"""The adapter of {package} for scutch: `scutch run --implementation THIS_FILE.py`."""

from scutch import flax_shaped

implementation = flax_shaped(
    "{package}",
    version="{version}",
    # known="flax",  # if it is a fork: the known failures of what it descends from apply
    claims=[
{claims}
    ],
)
'''


def draft(package: str) -> str:
    """The text of an adapter, with a comment at each capability.

    Args:
      package: The import name of the package, which is imported.

    Raises:
      ImportError: There is no such package.
    """
    version = getattr(importlib.import_module(package), "__version__", "0")
    lines = []
    for capability in LAYOUT:
        found = names_held(capability, modules_of(package, capability, in_part=True))
        if len(found) == len(NAMES[capability]):
            lines += [f"        {capability!r},"]
        else:
            lines += [f"        # {capability}: {len(found)} of {len(NAMES[capability])} names"]
            lines += [f'        "{capability}.{name}",' for name in found]
    return _TEXT.format(package=package, version=version, claims="\n".join(lines))
