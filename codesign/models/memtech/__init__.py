"""Memory technologies: one YAML file each, every number sourced."""

from codesign.models.memtech.technology import Level, MemoryTechnology, Range, Technologies
from codesign.models.memtech.technology_library import (
    TechnologyLibrary,
    load_library,
    load_technology,
)

__all__ = [
    "Level",
    "MemoryTechnology",
    "Range",
    "Technologies",
    "TechnologyLibrary",
    "load_library",
    "load_technology",
]
