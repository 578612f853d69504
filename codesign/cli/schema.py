"""``codesign schema``: what the documents of ``--json`` look like."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from codesign.base.errors import UnknownNameError
from codesign.cli.documents import current, published, read_schema
from codesign.cli.output import AsJson, report, report_stream


def schema(
    name: Annotated[
        str | None,
        typer.Argument(
            help="A document, such as evaluate, or what its key 'schema' says, such as "
            "codesign/evaluate/2."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the documents that --json prints, or print the JSON Schema of one."""
    if name is not None:
        files = {**current(), **published()}
        if name not in files:
            raise UnknownNameError("document", name, published() if "/" in name else current())
        text = json.dumps(read_schema(files[name]), indent=2, ensure_ascii=False)
        print(text, file=report_stream())
        return
    titles = {file.label: read_schema(file)["title"] for file in current().values()}

    def document() -> dict[str, Any]:
        return {
            "schemas": [
                {"name": file.name, "version": file.version, "title": titles[file.label]}
                for file in current().values()
            ]
        }

    def tables() -> Any:
        from codesign.report.tables import plain_table

        table = plain_table("Documents of --json", ["schema", "what it is"])
        for label, title in titles.items():
            table.add_row(label, title)
        return [table]

    report("schemas", as_json, document, tables)
