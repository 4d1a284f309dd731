"""Decoding of images from outside, in worker processes."""

import os
import time
from collections.abc import Callable

from ddsh.errors import BrokenImage, OverLimit
from ddsh.images import MAX_PIXELS, Image
from ddsh.sandbox import Sandbox
from ddsh.service.settings import Settings

__all__ = ["BYTES_PER_PIXEL", "Decoder"]

BYTES_PER_PIXEL = 24
"""Memory that decoding takes at most, per pixel; WebP with transparency needs most."""

_OVERHEAD = 100_000_000  # the file itself, and what its decoder needs for any image


class Decoder:
    """Decodes uploads and makes thumbnails, within limits on CPU time and memory.

    Any number of threads may use a decoder; it has as many worker processes as images are decoded at a time.

    Parameters
    ----------
    settings : Settings
        Limits of the service.
    on_decoded : callable, optional
        Called with the seconds that decoding an upload took, also of one that is refused.
    """

    def __init__(self, settings: Settings, on_decoded: Callable[[float], object] | None = None) -> None:
        self._max_pixels, self._on_decoded = settings.max_pixels, on_decoded

        def sandbox(function: str, max_pixels: int) -> Sandbox:
            """Return workers for images of a size."""
            return Sandbox(
                f"ddsh.images:{function}",
                cpu_seconds=settings.max_decode_seconds,
                timeout=settings.timeout,
                max_bytes=BYTES_PER_PIXEL * max_pixels + settings.max_upload_bytes + _OVERHEAD,
            )

        self._uploads = sandbox("decode_image", settings.max_pixels)
        self._thumbnails = sandbox("thumbnail", MAX_PIXELS)

    def start(self) -> None:
        """Start a worker, so that the first upload need not wait for it."""
        self._uploads.start()

    def decode(self, data: bytes) -> Image:
        """Decode the bytes of an image file to RGB; see :func:`ddsh.images.decode_image`."""
        started = time.perf_counter()
        try:
            return self._uploads.call(data, max_pixels=self._max_pixels)
        except OverLimit as error:
            raise BrokenImage(f"decoding it {error}") from error
        finally:
            if self._on_decoded:
                self._on_decoded(time.perf_counter() - started)

    def thumbnail(self, path: str | os.PathLike[str], side: int) -> bytes:
        """Return a JPEG thumbnail of an image file; see :func:`ddsh.images.thumbnail`."""
        try:
            return self._thumbnails.call(image=os.fspath(path), side=side).tobytes()
        except OverLimit as error:
            raise BrokenImage(f"decoding it {error}") from error

    def close(self) -> None:
        """End all workers; what they are decoding is given up."""
        self._uploads.close()
        self._thumbnails.close()
