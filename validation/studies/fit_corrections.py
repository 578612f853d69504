"""Write the measured corrections of laws that the package ships.

``python -m validation.studies.fit_corrections``, after the constants of the laws are
fitted: corrections are of what they leave. Nothing is random.
"""

from __future__ import annotations

from codesign.base.files import replacing
from codesign.models.machines.device.corrections import CORRECTIONS_FILE, write_groups
from validation.studies.kernel_families.correcting import fitted_groups
from validation.studies.kernels import FAMILIES, family_of, measured_kernels


def main() -> None:
    """Fit the corrections of all families that have some, and ship them."""
    table, _ = measured_kernels()
    families = [family for family in map(family_of, FAMILIES) if family.case is not None]
    groups = {family.file: fitted_groups(family, table.of(family.operators)) for family in families}
    with replacing(CORRECTIONS_FILE) as path:
        write_groups(groups, path)


if __name__ == "__main__":
    main()
