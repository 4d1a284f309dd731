"""Log lines of the service: request ids, and lines of JSON."""

import json
import logging
import random
import re
from contextvars import ContextVar

__all__ = ["JsonFormatter", "RequestIdFilter", "choose_request_id", "configure_logging", "request_id"]

request_id: ContextVar[str] = ContextVar("request_id", default="-")
"""Id of the request that the current task or thread works for."""

_ids = random.Random()  # noqa: S311 -- ids are not secret, and the system's random numbers take longer
_GIVEN = re.compile(r"[A-Za-z0-9._-]{1,64}")
_REQUEST_FIELDS = ("method", "path", "route", "status", "seconds", "client")


def choose_request_id(given: str) -> str:
    """Return the id that a client or a reverse proxy sent, if it is short and plain, or a random one."""
    return given if _GIVEN.fullmatch(given) else f"{_ids.getrandbits(64):016x}"


class RequestIdFilter(logging.Filter):
    """Adds the attribute ``request_id`` to every log record."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Add the id and let the record pass."""
        record.request_id = request_id.get()
        return True


class JsonFormatter(logging.Formatter):
    """Formats a log record as one line of JSON; a finished request has its facts as fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        fields: dict[str, object] = {
            "time": self.formatTime(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "request_id": getattr(record, "request_id", "-"),
        }
        fields |= {name: getattr(record, name) for name in _REQUEST_FIELDS if hasattr(record, name)}
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields, default=str)


def configure_logging(*, as_json: bool) -> None:
    """Write log lines with request ids to the standard error, as text or as JSON."""
    handler = logging.StreamHandler()
    handler.addFilter(RequestIdFilter())
    text = logging.Formatter("%(asctime)s %(levelname)s %(request_id)s %(message)s")
    handler.setFormatter(JsonFormatter() if as_json else text)
    logging.basicConfig(level=logging.INFO, handlers=[handler])
