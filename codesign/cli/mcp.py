"""Answers of commands as tools for agents, over the Model Context Protocol [MCP]_.

A tool is a command with ``--json``: its arguments are the command's flags, its answer is the
command's document. Each call is a process of its own.

.. [MCP] Model Context Protocol, specification of 2025-11-25, "Server features: tools".
"""

from __future__ import annotations

import inspect
import json
import os
import shutil
import sys
from contextlib import redirect_stdout, suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, get_args

import typer

from codesign.base.errors import InputError, check_known, needing_extra
from codesign.cli.campaigns import Folder
from codesign.cli.flag_records import command_help, spread
from codesign.cli.heartbeat import silence
from codesign.cli.output import report_stream

if TYPE_CHECKING:
    from mcp.types import CallToolResult, Tool

    from codesign.base.columns import Fields, JsonObject, StringDict, StringList, StringTuple
    from codesign.base.schema import Record

_LISTS = (
    "technologies", "spaces", "models", "devices", "workloads", "metrics", "optimizers",
    "evaluators", "problems", "runs",
)  # fmt: skip
TOOLS: dict[str, tuple[str, StringTuple]] = {
    "list": ("list", _LISTS),
    "show": ("list NAME", (*_LISTS[4:-2], "technology", "space", "model", "device", "problem")),
    "evaluate": ("evaluate", ("evaluate",)),
    "front": ("status front", ("pareto",)),
    "enumerate": ("enumerate", ("enumerate",)),
    "decide": ("explain decide", ("decide",)),
}
"""Command of each tool, and the names of the schemas of its answers."""
_STORING = ("enumerate", "decide")
"""Tools that store what they find."""
_HIDDEN = ("folder", "output", "executor")
"""Parameters of commands that a tool does not have: they write files or choose machines."""


def serve_tools(
    store: bool = False,
    folder: Folder = None,
) -> None:
    """Offer list, show, evaluate, front, enumerate and decide as tools to an agent, over stdio.

    Without --store, your files stay unchanged and results last until the server ends.
    Programs of campaign files are confined as by --untrusted.

    Args:
        store: Store exact fronts and decisions in the campaigns' folders.
    """
    with needing_extra("the MCP server", "mcp"):
        import anyio
        import mcp.server.stdio
    silence()  # it serves until it is ended
    with TemporaryDirectory(prefix="codesign-") as private, suppress(KeyboardInterrupt):

        async def serve() -> None:
            server = _server(folder, None if store else Path(private))
            with redirect_stdout(report_stream()):
                async with mcp.server.stdio.stdio_server() as streams:
                    await server.run(*streams, server.create_initialization_options())

        anyio.run(serve)


serve_tools.__name__ = "mcp"


def _server(folder: Path | None, private: Path | None) -> Any:
    """The server of the tools.

    Args:
        folder: Folder of the campaigns' folders.
        private: Temporary folder for results; None to store them in ``folder``.
    """
    import anyio
    from mcp import types
    from mcp.server.lowlevel import Server

    import codesign
    from codesign.evaluators.command.confinement import UNTRUSTED

    async def list_tools(*_: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[describe(name, private is None) for name in TOOLS])

    async def call_tool(_: object, request: types.CallToolRequestParams) -> types.CallToolResult:
        try:
            words = words_of(request.name, request.arguments or {}, folder, private)
        except InputError as error:
            return _answer(str(error))
        process = await anyio.run_process(
            [sys.executable, "-P", "-m", "codesign", *words],
            check=False,
            env=os.environ | {UNTRUSTED: "1"},
        )
        if process.returncode:
            lines = [line.split("error: ", 1) for line in process.stderr.decode().splitlines()]
            errors = [fields[1] for fields in lines if len(fields) > 1 and not fields[0]]
            return _answer("\n".join(errors) or f"ended with exit code {process.returncode}")
        document = json.loads(process.stdout)
        return _answer(json.dumps(document, ensure_ascii=False), document)

    return Server(
        "codesign", version=codesign.__version__, on_list_tools=list_tools, on_call_tool=call_tool
    )


def _answer(text: str, document: JsonObject | None = None) -> CallToolResult:
    """Result of a call: its text and document; an error without a document."""
    from mcp.types import CallToolResult, TextContent

    return CallToolResult(
        content=[TextContent(text=text)], structured_content=document, is_error=document is None
    )


def describe(name: str, is_stored: bool = False) -> Tool:
    """A tool: its text, and the schemas of its arguments and its answers."""
    from mcp.types import Tool, ToolAnnotations

    from codesign.answers.answer import answers, schema_of
    from codesign.cli.app import COMMANDS

    command, documents = TOOLS[name]
    schemas = [schema_of(answers()[document]) for document in documents]
    return Tool(
        name=name,
        description=command_help(COMMANDS[command]),
        input_schema=arguments_of(name)[0].model_json_schema(),
        output_schema=schemas[0] if len(schemas) == 1 else {"type": "object", "anyOf": schemas},
        annotations=ToolAnnotations(
            read_only_hint=not (is_stored and name in _STORING),
            destructive_hint=False,
            open_world_hint=False,
        ),
    )


@cache
def arguments_of(name: str) -> tuple[type[Record], StringDict]:
    """The record of a tool's arguments, and the flag of each; empty for a bare word."""
    from pydantic import Field, create_model

    from codesign.base.schema import Record
    from codesign.cli.app import COMMANDS

    command = spread(COMMANDS[TOOLS[name][0]])
    fields: JsonObject = {}
    flags: StringDict = {}
    for parameter in inspect.signature(command).parameters.values():
        value_type, info = get_args(parameter.annotation)[:2]
        if parameter.name in _HIDDEN or info.help == "As --design.":
            continue
        usual = f"--{parameter.name.replace('_', '-')}"
        declared = (info.default, *(info.param_decls or ()))
        flag = next((text for text in declared if str(text).startswith("--")), usual)
        key = flag[2:].replace("-", "_")
        is_required = parameter.default is inspect.Parameter.empty
        fields[key] = value_type, Field(
            ... if is_required else parameter.default, description=info.help, ge=info.min,
            le=info.max,
        )  # fmt: skip
        flags[key] = "" if isinstance(info, typer.models.ArgumentInfo) else flag
    return create_model(name, __base__=Record, **fields), flags


def _copy_newer(source: str, target: str) -> None:
    place = Path(target)
    if not place.exists() or place.stat().st_mtime < Path(source).stat().st_mtime:
        shutil.copy2(source, target)


def words_of(
    name: str, arguments: Fields, folder: Path | None = None, private: Path | None = None
) -> StringList:
    """The command line of a call.

    Raises:
        InputError: The tool does not exist, or an argument is wrong.
    """
    from codesign.base.schema import Document, parse_record
    from codesign.search.campaign.status import results_folder

    check_known("tool", name, TOOLS)
    record, flags = arguments_of(name)
    values = parse_record(Document(name, dict(arguments), {}), record)
    names: StringList = []
    options = ["--json"]
    for key, value in values.model_dump(mode="json", exclude_defaults=True).items():
        for element in value if isinstance(value, list) else [value]:
            text = f"{flags[key]}={element}" if flags[key] else str(element)
            (options if flags[key] else names).append(flags[key] if element is True else text)
    campaign = arguments.get("campaign", arguments.get("name"))
    if campaign is not None or arguments.get("group") == "campaigns":
        if campaign and private:
            source = results_folder(folder) / Path(str(campaign)).stem
            folder = private
            if source.is_dir():
                copied = private / source.name
                shutil.copytree(source, copied, copy_function=_copy_newer, dirs_exist_ok=True)
        options += [f"--folder={folder}"] if folder is not None else []
    command = TOOLS[name][0].removesuffix(" NAME").split()
    return [*command, *names, *options]
