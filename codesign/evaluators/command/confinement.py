"""Programs of campaign files that nobody trusts: without network, and with their folder alone.

Bubblewrap (``bwrap``) makes namespaces in which a program sees the system's libraries, the Python
of codesign and its own folder, of which it may change only the last. It has no network, no
variable of the caller, and no other process. There is no second best: without bubblewrap, such a
campaign is refused.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from codesign.base.columns import StringList, StringMap, Strings
from codesign.base.errors import InputError

UNTRUSTED = "CODESIGN_UNTRUSTED"
"""Environment variable of a command that was called with ``--untrusted``, and of its workers."""
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/alternatives")
"""Paths that a program may read beside those of Python."""


def is_confined() -> bool:
    """True if programs of campaign files are confined."""
    return UNTRUSTED in os.environ


def check_confinement() -> None:
    """See that programs can be confined here.

    Raises:
        InputError: Bubblewrap is missing, or may not make namespaces.
    """
    if shutil.which("bwrap") is None:
        raise InputError("expected the program bwrap, of the package bubblewrap", "--untrusted")
    command = confined(["true"], Path.cwd(), {})
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        words = " ".join(done.stderr.split()) or f"exit code {done.returncode}"
        raise InputError(f"bwrap cannot confine programs here: {words}", "--untrusted")


def confined(command: Strings, folder: Path, environment: StringMap) -> StringList:
    """The command that runs another one confined to a folder.

    Args:
        environment: Variables that the program gets.
    """
    place = str(folder.resolve())
    words = ["bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--clearenv"]
    for name, value in {"PATH": os.defpath, "HOME": place, **environment}.items():
        words += ["--setenv", name, value]
    # An interpreter may lie below /tmp, so that stands first.
    words += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"]  # in the namespace
    for path in dict.fromkeys([*_SYSTEM, sys.prefix, sys.base_prefix]):
        words += ["--ro-bind-try", path, path]
    return [*words, "--bind", place, place, "--chdir", place, "--", *command]


def check_within(file: str) -> None:
    """Refuse a file that an untrusted campaign may not hand to its program.

    Raises:
        InputError: It lies outside the folder in which codesign runs.
    """
    if is_confined() and not Path(file).resolve().is_relative_to(Path.cwd()):
        raise InputError(f"expected a file below the working folder, got {file}", "--untrusted")
