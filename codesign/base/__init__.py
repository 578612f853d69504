"""Foundations: errors, units, records, columns, metrics, files, processes, plug-ins."""
