"""Harnesses that break runs on purpose and compare what is left."""
