"""Typed answers of commands, from which documents and schemas are made."""
