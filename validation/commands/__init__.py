"""Commands of ``python -m validation``."""
