"""Forms with one file (multipart/form-data), read in memory."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks


class BadForm(Exception):
    """The form cannot be read, or is not one file in one field."""


@dataclass
class _Part:
    """One field of a form."""

    name: bytes = b""
    value: bytearray = field(default_factory=bytearray)
    disposition: dict[bytes, bytes] = field(default_factory=dict)
    content: bytearray = field(default_factory=bytearray)


class _Parts:
    """Gathers what the parser finds."""

    def __init__(self) -> None:
        self.parts: list[_Part] = []
        self.is_whole = False

    def callbacks(self) -> "MultipartCallbacks":
        """Return what the parser calls."""
        return {
            "on_part_begin": self._begin,
            "on_header_field": self._name_header,
            "on_header_value": self._extend_header,
            "on_header_end": self._end_header,
            "on_part_data": self._extend,
            "on_end": self._end,
        }

    def _begin(self) -> None:
        self.parts.append(_Part())

    def _name_header(self, data: bytes, start: int, end: int) -> None:
        self.parts[-1].name += data[start:end]

    def _extend_header(self, data: bytes, start: int, end: int) -> None:
        self.parts[-1].value += data[start:end]

    def _end_header(self) -> None:
        part = self.parts[-1]
        if part.name.lower() == b"content-disposition":
            part.disposition = parse_options_header(bytes(part.value))[1]
        part.name, part.value = b"", bytearray()

    def _extend(self, data: bytes, start: int, end: int) -> None:
        self.parts[-1].content += data[start:end]

    def _end(self) -> None:
        self.is_whole = True


def file_of_form(content_type: str, body: bytes, name: str) -> bytes:
    """Return the content of the only field of a form, which is a file.

    Parameters
    ----------
    content_type : str
        The header of that name; it says what separates the fields.
    body : bytes
        The form.
    name : str
        What the field must be called.
    """
    found = _Parts()
    try:
        parser = MultipartParser(parse_options_header(content_type)[1].get(b"boundary", b""), found.callbacks())
        parser.write(body)
        parser.finalize()
    except FormParserError as error:
        raise BadForm("The form cannot be read") from error
    if not found.is_whole:
        raise BadForm("The form is cut short")
    if [part.disposition.get(b"name") for part in found.parts] != [name.encode()]:
        raise BadForm(f"The form has other fields than {name!r}")
    return bytes(found.parts[0].content)
