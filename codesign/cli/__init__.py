"""The command line: parse, call, print. Whatever takes time to import is imported in commands."""

from codesign.cli.app import main

__all__ = ["main"]
