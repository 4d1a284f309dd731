"""What surrounds every request: the check of its host, headers that protect the page, numbers, and bugs."""

import logging
import time

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ddsh.service.metrics import Metrics
from ddsh.service.problems import Problem
from ddsh.service.security import name_in

logger = logging.getLogger(__name__)

_POLICY = (
    "default-src 'self'; img-src 'self' blob:; object-src 'none'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_NO_ROUTE = "none"


class Edge:
    """An ASGI app around another one.

    Parameters
    ----------
    app : ASGI app
        The app.
    metrics : Metrics
        Where requests are counted.
    hosts : frozenset of str or None
        Names that requests may be for; None allows any.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, hosts: frozenset[str] | None) -> None:
        self._app, self._metrics, self._hosts = app, metrics, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, seen = time.perf_counter(), _Seen(send)
        # Whoever may GET may ask for the headers alone; the server leaves out the body.
        inner = {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope
        try:
            await self._answer(inner, receive, seen)
        finally:
            path = getattr(inner.get("route"), "path", _NO_ROUTE)
            self._metrics.saw(path, seen.status, time.perf_counter() - began)

    async def _answer(self, scope: Scope, receive: Receive, send: "_Seen") -> None:
        """Answer a request; an exception that nobody foresaw is a bug, of which the client learns nothing."""
        host = Headers(scope=scope).get("host", "")
        if self._hosts is not None and name_in(host) not in self._hosts:
            line = f"This service does not answer to the name {host!r}; its operator may allow it with --allow-host."
            await Problem(400, line).response()(scope, receive, send)
            return
        try:
            await self._app(scope, receive, send)
        except Exception:
            logger.exception("%s %r failed", scope["method"], scope["path"])
            if send.status:  # half an answer is best cut off
                raise
            await Problem(500, "This is a bug of ours; the server's log says more.").response()(scope, receive, send)


class _Seen:
    """Sends an answer on, with headers, and remembers its status."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("Cache-Control", "no-store")
        await self._send(message)
