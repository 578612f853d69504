"""``python -m codesign`` is the command ``codesign``."""

import os
import sys

from codesign.cli import main
from codesign.cli.app import INTERRUPTED

if __name__ == "__main__":
    code = main()
    if code == INTERRUPTED:
        # At the end of `-m`, Python kills itself by SIGINT if the interrupt passed through code
        # that a library ran from text, although it was handled. Nothing is left to clean up.
        sys.stdout.flush()
        os._exit(code)
    raise SystemExit(code)
