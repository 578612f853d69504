"""``python -m codesign`` is the command ``codesign``."""

from codesign.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
