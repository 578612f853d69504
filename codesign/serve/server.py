"""The page on a local port: its guard, and the limits that a browser gets with the answers.

It listens on the loopback interface only. A request needs the random token of the address, a Host
of this machine (no other site's name can be made to point here), and, where a browser states an
Origin, this one. No file is read or written by a request.
"""

from __future__ import annotations

import json
import secrets
import socket
from collections.abc import Awaitable, Callable
from importlib.resources import files
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from codesign.answers.json_values import json_text
from codesign.base.columns import IntegerList
from codesign.base.errors import InputError
from codesign.report.page.html_page import style_text
from codesign.serve.session import Session

HOST = "127.0.0.1"
MOST_BYTES = 1 << 16
"""[ours] Bytes of a question."""
_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
        "img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Charts set styles of their own, so these are allowed; programs come from this address only."""


def listen(port: int) -> socket.socket:
    """A socket on the loopback interface.

    Args:
        port: Number of the port; 0 takes any that is free.

    Raises:
        InputError: The port is in use, or not to be had.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        listener.listen()
    except OSError as error:
        listener.close()
        why = (error.strerror or str(error)).lower()
        raise InputError(
            f"expected a free port, got {port}: {why}; 0 takes any", "--port"
        ) from error
    return listener


def new_token() -> str:
    """256 random bits for the address."""
    return secrets.token_urlsafe(32)


def serve(session: Session, listener: socket.socket, token: str) -> None:
    """Answer until the process is interrupted."""
    config = uvicorn.Config(
        application(session, token, listener.getsockname()[1]),
        log_level="critical",
        access_log=False,
        server_header=False,
        lifespan="off",
        ws="none",
        timeout_graceful_shutdown=1,
    )
    uvicorn.Server(config).run(sockets=[listener])


def application(session: Session, token: str, port: int) -> Any:
    """The page and its answers as an ASGI application."""
    texts = {
        "": ("text/html", _static("page.html")),
        "style.css": ("text/css", style_text() + _static("serve.css")),
        "program.js": ("text/javascript", _static("serve.js")),
        "start.json": ("application/json", json_text(session.start(), indent=None)),
    }

    async def text(request: Request) -> Response:
        media_type, content = texts[request.url.path.removeprefix(f"/{token}/")]
        return Response(content, media_type=media_type)

    async def design(request: Request) -> Response:
        body = await _body(request)
        try:
            answer = session.answer(_codes(body))
        except InputError as error:
            return Response(str(error), status_code=400, media_type="text/plain")
        return Response(json_text(answer, indent=None), media_type="application/json")

    routes = [Route(f"/{token}/{name}", text) for name in texts]
    routes.append(Route(f"/{token}/design", design, methods=["POST"]))
    return _guarded(Starlette(routes=routes), {f"{HOST}:{port}", f"localhost:{port}"})


def _guarded(application: Starlette, hosts: set[str]) -> Callable[[Any, Any, Any], Awaitable[None]]:
    """The application for requests from this machine's own page; every answer has the headers."""

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        async def add_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                secured = [(k.lower().encode(), v.encode()) for k, v in _HEADERS.items()]
                message = {**message, "headers": [*message["headers"], *secured]}
            await send(message)

        if scope["type"] != "http":
            return
        request = Request(scope)
        origin = request.headers.get("origin")
        is_own = origin is None or origin.removeprefix("http://") in hosts
        if not (request.headers.get("host") in hosts and is_own):
            refusal = Response("refused", status_code=403, media_type="text/plain")
            await refusal(scope, receive, add_headers)
            return
        await application(scope, receive, add_headers)

    return answer


async def _body(request: Request) -> bytes:
    """The question; a longer text than any question is dropped."""
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MOST_BYTES:
            return b""
    return body


def _codes(body: bytes) -> IntegerList:
    try:
        codes = json.loads(body)["codes"]
    except (ValueError, KeyError, TypeError, RecursionError):
        codes = None
    if not isinstance(codes, list) or not all(type(code) is int for code in codes):
        raise InputError('expected {"codes": [whole numbers]}', "design")
    return codes


def _static(name: str) -> str:
    return (files(__package__) / "static" / name).read_text(encoding="utf-8")
