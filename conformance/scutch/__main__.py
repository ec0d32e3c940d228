"""`python -m scutch` is the command `scutch`."""

import sys

from scutch.cli import main

if __name__ == "__main__":
    sys.exit(main())
