"""Connections: limits on their number, and timeouts in every state."""

import asyncio
import ipaddress
import json
from collections import Counter
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from ddsh.service.error_handlers import RETRY_SECONDS
from ddsh.service.settings import Settings

__all__ = ["MIN_BYTES_PER_SECOND", "LimitedProtocol", "limited_protocol"]

MIN_BYTES_PER_SECOND = 1000
"""A client that reads its response more slowly is disconnected."""

_IPV6_NETWORK = 64  # one client may have all addresses of such a network


def limited_protocol(settings: Settings) -> type[H11Protocol]:
    """Return uvicorn's protocol with limits on connections.

    uvicorn closes connections that are idle between two requests. In addition, a connection is closed if request
    headers do not arrive in time, if a request body goes on after the response, and if the client does not read the
    response; the endpoints themselves limit the time for request bodies they read and for processing. A connection is
    checked every `timeout` seconds, so it ends after twice that time at most.

    Parameters
    ----------
    settings : Settings
        The limits.
    """
    return type("ServiceProtocol", (LimitedProtocol,), {"settings": settings, "per_client": Counter()})


class LimitedProtocol(H11Protocol):
    """HTTP protocol with limits; one object per connection. Use :func:`limited_protocol`."""

    settings: Settings
    per_client: Counter[str]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Refuse the connection if there are too many, or start the checks."""
        self.counted = _CountedTransport(transport)
        super().connection_made(self.counted)  # type: ignore[arg-type]
        self.client_name = _client_name(self.client)
        self.timer: asyncio.TimerHandle | None = None
        self.is_refused = self.has_ended = False
        self.per_client[self.client_name] += 1
        if self.per_client[self.client_name] > self.settings.max_connections_per_client:
            self.refuse(503, "Too many connections from this address; close some of them.")
        elif self.per_client.total() > self.settings.max_connections:
            self.refuse(503, "Too many connections; try again in a moment.")
        else:
            self.check(None, 0)

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the checks."""
        if self.timer is not None:
            self.timer.cancel()
        self.per_client[self.client_name] -= 1
        if not self.per_client[self.client_name]:
            del self.per_client[self.client_name]
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Ignore what a refused client sends."""
        if not self.is_refused:
            super().data_received(data)

    def eof_received(self) -> bool:  # type: ignore[override]
        """Answer whole requests of a client that sends nothing more but may still read, such as ``nc -N``."""
        self.has_ended = True
        return self.is_answering()  # otherwise the connection is closed

    def on_response_complete(self) -> None:
        """Close the connection after the last request of a client that sends nothing more."""
        super().on_response_complete()  # begins with the next request, if there is one
        if self.has_ended and not self.is_answering():
            self.transport.close()

    def is_answering(self) -> bool:
        """Return whether a whole request has arrived and is not answered yet."""
        return self.cycle is not None and not self.cycle.more_body and not self.cycle.response_complete

    def check(self, previous: object, n_sent: int) -> None:
        """Close the connection if it still waits for the same thing from the client as at the previous check."""
        waits_for, now_sent = self.waits_for(), self.counted.n_sent
        if waits_for is not None and previous == waits_for:
            is_reading = waits_for[0] == "read"
            if not is_reading or now_sent - n_sent < MIN_BYTES_PER_SECOND * self.settings.timeout:
                self.transport.abort()  # close() would wait until the client has read everything
                return
        self.timer = self.loop.call_later(self.settings.timeout, self.check, waits_for, now_sent)

    def waits_for(self) -> tuple[str, object] | None:
        """Return what the client has to do next, and in which request; None if it is the turn of the service."""
        if self.transport.get_write_buffer_size():
            return "read", None
        if self.conn.their_state is h11.IDLE:
            return "send headers", self.cycle
        if self.cycle is not None and self.cycle.response_complete:
            return "end the body", self.cycle
        return None

    def refuse(self, status: int, message: str) -> None:
        """Answer without reading a request, and close the connection."""
        self.is_refused = True
        body = json.dumps({"error": message}).encode()
        head = (
            f"HTTP/1.1 {status} Refused\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
            f"Retry-After: {RETRY_SECONDS}\r\nConnection: close\r\n\r\n"
        )
        self.transport.write(head.encode() + body)
        self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Answer what is not HTTP with an error of the usual form."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self.refuse(400, f"{msg} Send HTTP/1.1 with headers of 64 kB at most.")
        else:  # a response has begun
            self.transport.close()


class _CountedTransport:
    """A transport that counts the bytes which have left it."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._n_written = 0

    @property
    def n_sent(self) -> int:
        """Number of bytes that were handed to the system."""
        return self._n_written - self._transport.get_write_buffer_size()

    def write(self, data: bytes) -> None:
        """Write bytes."""
        self._n_written += len(data)
        self._transport.write(data)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 -- any other attribute of the transport
        return getattr(self._transport, name)


def _client_name(address: tuple[str, int] | None) -> str:
    """Return the address of a client without its port; of IPv6, the network."""
    if address is None:
        return ""
    try:
        parsed = ipaddress.ip_address(address[0].partition("%")[0])
    except ValueError:
        return address[0]
    if isinstance(parsed, ipaddress.IPv6Address):
        return str(parsed.ipv4_mapped or ipaddress.ip_network((parsed, _IPV6_NETWORK), strict=False))
    return str(parsed)
