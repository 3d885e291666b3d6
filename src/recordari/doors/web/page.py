"""The routes of the dashboard: the built page at `/` and `/ui/…`, its files, the API documentation, and the sign-in."""

from __future__ import annotations

import gzip
import mimetypes
from dataclasses import dataclass
from pathlib import Path

from pydantic import ConfigDict, Field, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from recordari.doors.web.browser import COOKIE, browser_token, require_own_page
from recordari.errors import InvalidInput, NotFound
from recordari.kit.rest import Strict
from recordari.tenants import sign_ins
from recordari.tenants.auth import Authenticator

STATIC = Path(__file__).parent / "static"
PAGE_PATHS = frozenset({"/", "/docs", "/favicon.svg", "/sign_in"})
PAGE_PREFIXES = ("/ui/", "/assets/")
NOT_BUILT = """The page is not built: this is a copy of the source without `make web`.

Build it with `make web`, which needs Node or the network, and start the server again.
The API works without it: /openapi.json describes it.
"""
SAFE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def is_page(path: str) -> bool:
    """Whether a path belongs to the dashboard, which is the same for everybody."""
    return path in PAGE_PATHS or path.startswith(PAGE_PREFIXES)


@dataclass(frozen=True, slots=True)
class _File:
    content: bytes
    compressed: bytes
    media_type: str


class PageFiles:
    """The built files, read once."""

    def __init__(self, folder: Path = STATIC) -> None:
        self._files = {
            f"/{path.relative_to(folder).as_posix()}": _read(path) for path in folder.rglob("*") if path.is_file()
        }

    @property
    def are_built(self) -> bool:
        return "/index.html" in self._files

    @property
    def compressed_bytes(self) -> int:
        """What a browser that opens every page loads."""
        return sum(min(len(file.compressed), len(file.content)) for file in self._files.values())

    def answer(self, request: Request, name: str, *, kept: bool = False) -> Response:
        """The answer with a file; `kept`: its name changes with its content."""
        file = self._files.get(name)
        if file is None:
            raise NotFound("there is no such page")
        headers = {**SAFE_HEADERS, "Cache-Control": "public, max-age=31536000, immutable" if kept else "no-cache"}
        if "gzip" in request.headers.get("accept-encoding", "") and len(file.compressed) < len(file.content):
            headers |= {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
            return Response(file.compressed, media_type=file.media_type, headers=headers)
        return Response(file.content, media_type=file.media_type, headers=headers)


def _read(path: Path) -> _File:
    content = path.read_bytes()
    media_type = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    return _File(content, gzip.compress(content, mtime=0), media_type)


class Credentials(Strict):
    """A key or JWT, or a code that works once."""

    model_config = ConfigDict(hide_input_in_errors=True)

    credential: str | None = Field(default=None, max_length=8192)
    code: str | None = Field(default=None, max_length=200)


async def sign_in(request: Request) -> Response:
    """Exchange a key, a JWT or a one-time code for a cookie."""
    require_own_page(request.scope)
    try:
        given = Credentials.model_validate_json(await request.body())
    except ValidationError:
        given = Credentials()
    authenticator: Authenticator = request.app.state.authenticator
    if given.code is not None:
        signed_in = await sign_ins.redeem_code(request.app.state.resources, given.code)
    elif given.credential is not None:
        signed_in = await authenticator.sign_in(given.credential.strip())
    else:
        raise InvalidInput("send a credential or a code", field="credential")
    answer = JSONResponse({"expires_at": signed_in.expires_at.isoformat()}, headers={"Cache-Control": "no-store"})
    answer.set_cookie(
        COOKIE,
        signed_in.token,
        max_age=int(sign_ins.SIGNED_IN.total_seconds()),
        httponly=True,
        samesite="strict",
        secure=request.headers["origin"].startswith("https://"),
    )
    return answer


async def sign_out(request: Request) -> Response:
    """End the sign-in of this browser."""
    require_own_page(request.scope)
    if (token := browser_token(request.scope)) is not None:
        authenticator: Authenticator = request.app.state.authenticator
        await authenticator.sign_out(token)
    # The browser drops whatever it kept of this origin.
    answer = Response(status_code=204, headers={"Clear-Site-Data": '"cache", "storage"', "Cache-Control": "no-store"})
    answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return answer


def page_routes(files: PageFiles) -> list[Route]:
    """The routes of the dashboard; without a built page they say how to build it."""

    async def page(request: Request) -> Response:
        if not files.are_built:
            return Response(NOT_BUILT, media_type="text/plain", headers=SAFE_HEADERS)
        return files.answer(request, "/docs.html" if request.url.path == "/docs" else "/index.html")

    async def asset(request: Request) -> Response:
        return files.answer(request, request.url.path, kept=request.url.path.startswith("/assets/"))

    return [
        Route("/", page, include_in_schema=False),
        Route("/ui/{path:path}", page, include_in_schema=False),
        Route("/docs", page, include_in_schema=False),
        Route("/favicon.svg", asset, include_in_schema=False),
        Route("/assets/{path:path}", asset, include_in_schema=False),
        Route("/sign_in", sign_in, methods=["POST"], include_in_schema=False),
        Route("/sign_in", sign_out, methods=["DELETE"], include_in_schema=False),
    ]
