"""Memory technologies: one YAML file each, every number sourced."""

from codesign.memtech.technology import Level, MemoryTechnology, Range
from codesign.memtech.technology_library import TechnologyLibrary, load_library, load_technology

__all__ = [
    "Level",
    "MemoryTechnology",
    "Range",
    "TechnologyLibrary",
    "load_library",
    "load_technology",
]
