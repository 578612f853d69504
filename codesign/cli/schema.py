"""``codesign list schema``: the JSON Schemas of the documents of ``--json``."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from codesign.base.errors import UnknownNameError
from codesign.cli.output import report, report_stream


def schema(
    name: Annotated[
        str | None,
        typer.Argument(
            help="A document, such as evaluate, or the value of its key 'schema', such as "
            "codesign/evaluate/2."
        ),
    ] = None,
) -> None:
    """List the documents that --json prints, or print the JSON Schema of one."""
    from codesign.answers.answer import answers, schema_of
    from codesign.answers.library import SchemaEntry, SchemasAnswer

    records = answers()
    if name is not None:
        names = (
            records if "/" not in name else {each.schema_label(): each for each in records.values()}
        )
        if name not in names:
            raise UnknownNameError("document", name, names)
        text = json.dumps(schema_of(names[name]), indent=2, ensure_ascii=False)
        print(text, file=report_stream())
        return
    from codesign.report.tables import plain_table

    rows = ((record.schema_label(), record.title()) for record in records.values())
    entries = [
        SchemaEntry(name=key, version=record.schema_version, title=record.title())
        for key, record in records.items()
    ]
    report(
        lambda: SchemasAnswer(schemas=entries),
        lambda: [plain_table("Documents of --json", ["schema", "content"], rows=rows)],
    )
