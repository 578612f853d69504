"""Decisions of a recommended design, and the constants that would change them."""
