"""Devices that somebody sells: kernels whose efficiencies are fitted to measurements."""
