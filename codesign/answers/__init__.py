"""Schemas of the JSON documents."""
