"""What a browser sends on its own: its cookie counts only for requests that our own page made.

`SameSite=Strict` keeps other sites out. Another port of the same machine is the same site, so that a change also needs a
header that no form can send and an `Origin` equal to the `Host`.
"""

from __future__ import annotations

from http.cookies import CookieError, SimpleCookie

from starlette.types import Scope

from recordari.errors import Forbidden

COOKIE = "recordari"
PAGE_HEADER = b"recordari-page"
READING = frozenset({"GET", "HEAD"})
OURS = frozenset({b"same-origin", b"none"})
"""Values of `Sec-Fetch-Site`; `none`: the person typed the address."""


def header_of(scope: Scope, name: bytes) -> bytes | None:
    """The only header of that name; None if there is none, or more than one."""
    values: list[bytes] = [value for key, value in scope["headers"] if key == name]
    return values[0] if len(values) == 1 else None


def browser_token(scope: Scope) -> str | None:
    """The token in the cookie of a request; None if there is none."""
    header = header_of(scope, b"cookie")
    if header is None:
        return None
    try:
        morsel = SimpleCookie(header.decode("latin-1")).get(COOKIE)
    except CookieError:
        return None
    return morsel.value if morsel is not None else None


def require_own_page(scope: Scope) -> None:
    """Raise `Forbidden` unless our own page made the request."""
    site = header_of(scope, b"sec-fetch-site")
    if site is not None and site not in OURS:
        raise Forbidden("a page of another site may not use your sign-in")
    if scope["method"] in READING:
        return
    origin, host = header_of(scope, b"origin"), header_of(scope, b"host")
    if header_of(scope, PAGE_HEADER) is None or origin is None or host is None:
        raise Forbidden("a sign-in allows changes only with the headers `Recordari-Page` and `Origin`; or send a key")
    if origin.lower().partition(b"://")[2] != host.lower():
        raise Forbidden("a page of another origin may not use your sign-in")
