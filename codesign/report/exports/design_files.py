"""Parts shared by the exports of one design: written files, and limits of a format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from codesign.answers.json_values import json_text
from codesign.base.columns import Fields, StringList, Strings, StringTuple
from codesign.base.errors import InputError
from codesign.base.files import replacing_together
from codesign.base.records import frozen
from codesign.report.chosen import ChosenDesign
from codesign.report.machine import Machine


@frozen
class Written:
    """Files and notes of an export of a design.

    Attributes:
        notes: What the format cannot express, one sentence each; the files say it too.
    """

    paths: tuple[Path, ...]
    notes: StringTuple = ()


def write_texts(texts: Mapping[Path, str]) -> tuple[Path, ...]:
    """Write files, all or none.

    Raises:
        InputError: A place cannot be written.
    """
    with replacing_together(list(texts)) as unfinished:
        for place, text in zip(unfinished, texts.values(), strict=True):
            place.write_text(text, encoding="utf-8")
    return tuple(texts)


def write_document(design: ChosenDesign, path: Path, document: Fields, notes: Strings) -> Written:
    """Write a design's document as JSON, with notes and provenance.

    Raises:
        InputError: The place cannot be written.
    """
    stated = {**document, "notes": notes, "provenance": design.provenance()}
    return Written(write_texts({path: json_text(stated) + "\n"}), tuple(notes))


def export_machines(
    write: Callable[[ChosenDesign, Path], Written], design: ChosenDesign, path: Path
) -> Written:
    """An export of a machine; of a system one per pool, ``NAME-POOL`` each, all or none.

    Args:
        write: The export.

    Raises:
        InputError: The format cannot express a machine, or a place cannot be written.
    """
    pools_by_note: dict[str, StringList] = {}

    def paths(machine: ChosenDesign, place: Path) -> tuple[Path, ...]:
        written = write(machine, place)
        for note in written.notes:
            pools_by_note.setdefault(note, []).append(machine.pool)
        return written.paths

    written = write_machines(paths, design, path)
    notes = (
        " and ".join(filter(None, names)) + (": " if design.pools else "") + note
        for note, names in pools_by_note.items()
    )
    return Written(written, tuple(notes))


def write_machines(
    write: Callable[[ChosenDesign, Path], tuple[Path, ...]], design: ChosenDesign, path: Path
) -> tuple[Path, ...]:
    """Write files of a machine; of a system of one per pool, ``NAME-POOL`` each, all or none."""
    if not design.pools:
        return write(design, path)
    with TemporaryDirectory() as folder:
        drafts = [
            draft
            for name, machine in design.pools.items()
            for draft in write(machine, Path(folder) / path_of_pool(path, name).name)
        ]
        finished = tuple(path.with_name(draft.name) for draft in drafts)
        with replacing_together(finished) as unfinished:
            for place, draft in zip(unfinished, drafts, strict=True):
                place.write_bytes(draft.read_bytes())
    return finished


def path_of_pool(path: Path, pool: str) -> Path:
    """``NAME-POOL`` with the ending of ``NAME``."""
    return path.with_name(f"{path.stem}-{pool}{path.suffix}")


def flat_memory_notes(machine: Machine) -> StringList:
    """Losses of this machine in a format with one off-chip memory."""
    notes = []
    if len(machine.tiers) > 1:
        listed = ", ".join(f"{level.title}: {level.words}" for level in machine.tiers)
        notes.append(
            f"the {len(machine.tiers)} off-chip tiers are one memory here, with the sum of their "
            f"capacities and of their bandwidths, an upper bound ({listed})"
        )
    lost = [
        f"{level.title} ({level.words}) reads at {level.read_energy_joules_per_byte / 8e-12:.3g} "
        f"and writes at {level.write_energy_joules_per_byte / 8e-12:.3g} pJ/bit, its first byte "
        f"after {level.latency_s * 1e9:.4g} ns"
        for level in machine.tiers
    ]
    notes.append(f"the format has neither energies nor latencies of tiers: {'; '.join(lost)}")
    return notes


def format_notes(machine: Machine, bits: int) -> StringList:
    """Note that elements of several widths have one width here."""
    if len(set(machine.formats.values())) <= 1:
        return []
    listed = ", ".join(f"{operand} {name}" for operand, name in machine.formats.items())
    return [f"one number format for all data: {bits} bits (the design has {listed})"]


def need_tiers(exported: ChosenDesign, form: str) -> None:
    """Raises InputError if a format that needs an off-chip memory gets a machine without one."""
    if not exported.machine.tiers:
        raise InputError(f"{form} needs an off-chip memory, the design has none", exported.title)


def commented(lines: Strings) -> str:
    """Lines as comments."""
    return "".join(f"# {line}".rstrip() + "\n" for line in lines)
