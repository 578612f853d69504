"""Memory technologies: one YAML file each, every number sourced."""

from codesign.memtech.library import TechnologyLibrary, load_library, load_technology
from codesign.memtech.technology import Level, MemoryTechnology, Range

__all__ = [
    "Level",
    "MemoryTechnology",
    "Range",
    "TechnologyLibrary",
    "load_library",
    "load_technology",
]
