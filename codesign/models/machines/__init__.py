"""Machines that run operators: from their numbers to seconds and joules."""
