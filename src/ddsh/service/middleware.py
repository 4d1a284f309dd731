"""ASGI middleware: host check, headers, request ids, metrics, errors."""

import ipaddress
import logging
import re
import time
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from types import MappingProxyType

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ddsh.errors import InvalidInput
from ddsh.service.error_handlers import error_response
from ddsh.service.log_format import choose_request_id, request_id

__all__ = [
    "ACCESS_LOGGER",
    "SECURITY_HEADERS",
    "Metrics",
    "ServiceMiddleware",
    "allowed_hosts",
    "host_name",
    "is_loopback",
]

logger = logging.getLogger(__name__)

ACCESS_LOGGER = "ddsh.service.access"
"""Name of the logger of finished requests."""

_access = logging.getLogger(ACCESS_LOGGER)
_UPLOAD_ROUTES = ("/search", "/items")

SECURITY_HEADERS: Mapping[str, str] = MappingProxyType(
    {
        "Content-Security-Policy": (
            "default-src 'self'; img-src 'self' blob:; object-src 'none'; base-uri 'none'; form-action 'none';"
            " frame-ancestors 'none'"
        ),
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
    }
)
"""Headers of every response."""

_DEFAULT_HEADERS = [
    (name.lower().encode(), value.encode()) for name, value in {**SECURITY_HEADERS, "Cache-Control": "no-store"}.items()
]
_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})
_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^\[\]:/@\s]+)(?::[0-9]*)?", re.IGNORECASE)
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """Prometheus metrics of one application; two in one process are counted separately."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "ddsh_requests", "Requests by route and HTTP status.", ("route", "status"), registry=self.registry
        )
        self.latency = Histogram(
            "ddsh_request_seconds",
            "Seconds from the headers of a request to the end of its response.",
            ("route",),
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.decoding = Histogram(
            "ddsh_decode_seconds",
            "Seconds to decode an uploaded image, those that are refused included.",
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self.rejected = Counter(
            "ddsh_rejected_uploads", "Uploads that were refused, by HTTP status.", ("status",), registry=self.registry
        )
        self.queue = Gauge(
            "ddsh_queue", "Requests that are running or waiting, by thread pool.", ("pool",), registry=self.registry
        )
        self.images = Gauge("ddsh_images", "Images in the index.", registry=self.registry)
        self.code_bytes = Gauge("ddsh_code_bytes", "Size of all codes in the index.", registry=self.registry)
        self.generation = Gauge("ddsh_index_generation", "Changes of the index so far.", registry=self.registry)
        self.ready = Gauge("ddsh_index_ready", "1 if the index can be searched, else 0.", registry=self.registry)


class ServiceMiddleware:
    """Middleware around all routes.

    Parameters
    ----------
    app : ASGI app
        The wrapped application.
    metrics : Metrics
        Where requests are counted.
    hosts : frozenset of str or None
        Accepted names in the ``Host`` header; None accepts all.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, hosts: frozenset[str] | None) -> None:
        self._app, self._metrics, self._hosts = app, metrics, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, status = time.perf_counter(), 0
        if scope["method"] == "HEAD":  # every GET route also answers HEAD; the server omits the body
            scope = {**scope, "method": "GET"}

        async def send_with_headers(message: Message) -> None:
            """Record the status, and add the request id and the security headers."""
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = message["headers"]
                given = {name for name, _ in headers}
                defaults = (each for each in _DEFAULT_HEADERS if each[0] not in given)
                message["headers"] = [*headers, *defaults, (b"x-request-id", request_id.get().encode())]
            await send(message)

        received = Headers(scope=scope)
        token = request_id.set(choose_request_id(received.get("x-request-id", "")))
        try:
            host = received.get("host", "")
            if self._hosts is None or host_name(host) in self._hosts:
                await self._app(scope, receive, send_with_headers)
            else:
                message = f"The host name {host!r} is not allowed; the operator can allow it with --allow-host."
                await error_response(400, message)(scope, receive, send_with_headers)
        except Exception:
            logger.exception("%s %r failed", scope["method"], scope["path"])
            if status:  # the response has begun; all that is left is to close the connection
                raise
            message = "Internal error; see the server's log."
            await error_response(500, message)(scope, receive, send_with_headers)
        finally:
            route = getattr(scope.get("route"), "path", "none")
            seconds = time.perf_counter() - started
            self._metrics.requests.labels(route, str(status)).inc()
            self._metrics.latency.labels(route).observe(seconds)
            if scope["method"] == "POST" and route in _UPLOAD_ROUTES and status >= HTTPStatus.BAD_REQUEST:
                self._metrics.rejected.labels(str(status)).inc()
            if _access.isEnabledFor(logging.INFO):
                client = (scope.get("client") or ("-",))[0]
                method, path = scope["method"], scope["path"]
                facts = {"method": method, "path": path, "route": route, "status": status, "client": client}
                facts["seconds"] = round(seconds, 6)
                _access.info("%s %s %r %d in %.6f s", client, method, path, status, seconds, extra=facts)
            request_id.reset(token)


def allowed_hosts(address: str, names: Iterable[str]) -> frozenset[str] | None:
    """Return the accepted names in the ``Host`` header, or None if all are accepted.

    The check protects against DNS rebinding: a foreign web page can let its own host name point to
    this machine and so reach a service that listens on the loopback address only, but its requests
    carry that name.

    Parameters
    ----------
    address : str
        IP address that the server listens on.
    names : iterable of str
        Names allowed by the operator.
    """
    allowed = set()
    for name in names:
        host = host_name(name)
        if host is None or host != name.lower().removesuffix("."):
            raise InvalidInput(f"A host is a name or an address without a port, such as a.example.org; got {name!r}.")
        allowed.add(host)
    if not allowed and not is_loopback(address):
        return None
    return _LOOPBACK_NAMES | allowed | {f"[{address}]" if ":" in address else address}


def is_loopback(address: str) -> bool:
    """Return whether an IP address can be reached from this machine only."""
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback


def host_name(header: str) -> str | None:
    """Return the lower-case name in a ``Host`` header without its port, or None if it is malformed."""
    match = _HOST.fullmatch(header)
    return match[1].lower().removesuffix(".") if match else None
