"""Decoding of image files: every kind comes out as RGB, everything damaged as BrokenImage."""

import io
import os
import struct
import sys
import time
import warnings
import zlib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image as Pillow

sys.path.insert(0, str(Path(__file__).parent))

from hostile_files import gif_of_many_comments, jpeg_of_many_segments, tiff_of_many_tiles

from ddsh.errors import BrokenImage, DataError, InvalidInput, NotAnImage, TooManyPixels
from ddsh.images import (
    MAX_BYTES,
    MAX_PIXELS,
    ArrayImages,
    FileImages,
    StackedImages,
    as_image,
    as_images,
    check_file,
    decode_image,
    read_image,
    thumbnail,
)

ORIENTATION = 0x0112
HEIGHT, WIDTH = 16, 24


def quadrants() -> NDArray[np.uint8]:
    """Return an image whose four corners differ, so that every turn of it differs too."""
    pixels = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    pixels[:8, :8] = (255, 0, 0)
    pixels[:8, 8:] = (0, 255, 0)
    pixels[8:, :8] = (0, 0, 255)
    pixels[8:, 8:] = (255, 255, 255)
    return pixels


def encoded(image: Pillow.Image, kind: str, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def png_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png_header(width: int, height: int) -> bytes:
    """Return a PNG that claims a size and holds next to nothing."""
    header = png_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + png_chunk(b"IDAT", b"")


def rotated_exif(orientation: int) -> Pillow.Exif:
    exif = Pillow.Exif()
    exif[ORIENTATION] = orientation
    return exif


def samples() -> list[bytes]:
    """Return one small file of each kind, also with metadata and animation."""
    picture = Pillow.fromarray(quadrants())
    frames = {"save_all": True, "append_images": [picture.rotate(180)]}
    deep = Pillow.fromarray(np.full((8, 8), 0x8000, np.uint16))
    return [
        encoded(picture, "JPEG", exif=rotated_exif(6)),
        encoded(picture, "MPO", **frames),
        encoded(picture.convert("CMYK"), "JPEG"),
        encoded(picture, "PNG", exif=rotated_exif(3)),
        encoded(picture, "PNG", **frames),
        encoded(picture.convert("P"), "PNG", transparency=0),
        encoded(deep, "PNG"),
        encoded(picture, "WEBP", exif=rotated_exif(8)),
        encoded(picture, "BMP"),
        encoded(picture, "TIFF"),
        encoded(deep, "TIFF"),
        encoded(picture, "GIF", **frames),
    ]


FAITHFUL: Mapping[str, dict[str, Any]] = {
    "JPEG": {"quality": 100, "subsampling": 0},
    "WEBP": {"lossless": True},
}
SAMPLES = samples()
FUZZ = settings(deadline=None, max_examples=250, derandomize=True)


@pytest.mark.parametrize(
    ("extension", "options"),
    [
        (".png", {}),
        (".bmp", {}),
        (".tif", {}),
        (".tiff", {"compression": "tiff_lzw"}),
        (".webp", {"lossless": True}),
    ],
)
def test_a_lossless_file_gives_back_its_pixels(tmp_path: Path, extension: str, options: dict[str, Any]) -> None:
    path = tmp_path / f"a{extension}"
    Pillow.fromarray(quadrants()).save(path, **options)
    np.testing.assert_array_equal(read_image(path), quadrants())


@pytest.mark.parametrize("extension", [".jpg", ".jpeg", ".webp"])
def test_a_lossy_file_gives_nearly_its_pixels(tmp_path: Path, extension: str) -> None:
    path = tmp_path / f"a{extension}"
    flat = np.full((HEIGHT, WIDTH, 3), (200, 120, 40), np.uint8)
    Pillow.fromarray(flat).save(path, quality=95)
    np.testing.assert_allclose(read_image(path).astype(int), flat, atol=3)


@pytest.mark.parametrize("kind", ["GIF", "PNG", "WEBP", "TIFF"])
def test_an_animation_gives_its_first_frame(kind: str) -> None:
    first, second = Pillow.new("RGB", (8, 8), "red"), Pillow.new("RGB", (8, 8), "blue")
    lossless = {"lossless": True} if kind == "WEBP" else {}
    image = decode_image(encoded(first, kind, save_all=True, append_images=[second], **lossless))
    np.testing.assert_array_equal(image, np.full((8, 8, 3), (255, 0, 0)))


def test_a_stereo_photograph_gives_its_first_frame() -> None:
    first, second = Pillow.new("RGB", (8, 8), "white"), Pillow.new("RGB", (8, 8), "black")
    assert decode_image(encoded(first, "MPO", save_all=True, append_images=[second])).min() == 255


def test_grey_becomes_three_equal_channels() -> None:
    image = decode_image(encoded(Pillow.new("L", (5, 4), 77), "PNG"))
    np.testing.assert_array_equal(image, np.full((4, 5, 3), 77))


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "BMP"])
def test_one_bit_becomes_black_and_white(kind: str) -> None:
    bits = np.arange(32).reshape(4, 8) % 3 == 0
    image = decode_image(encoded(Pillow.fromarray(bits), kind))
    np.testing.assert_array_equal(image, np.repeat(bits[..., None], 3, axis=2) * 255)


@pytest.mark.parametrize("kind", ["PNG", "GIF", "BMP", "TIFF"])
def test_palette_colours_are_looked_up(kind: str) -> None:
    palette = Pillow.fromarray(quadrants()).quantize(4)
    np.testing.assert_array_equal(decode_image(encoded(palette, kind)), quadrants())


@pytest.mark.parametrize("kind", ["PNG", "GIF"])
def test_the_transparent_colour_of_a_palette_is_white(kind: str) -> None:
    indices = Pillow.fromarray(np.array([[0, 1], [1, 0]], np.uint8), "P")
    indices.putpalette([255, 0, 0, 0, 0, 255])
    image = decode_image(encoded(indices, kind, transparency=0))
    white, blue = [255, 255, 255], [0, 0, 255]
    np.testing.assert_array_equal(image, [[white, blue], [blue, white]])


@pytest.mark.parametrize("kind", ["PNG", "WEBP", "TIFF"])
def test_transparency_is_laid_over_white(kind: str) -> None:
    pixels = np.array([[[10, 20, 30, 0], [10, 20, 30, 255], [0, 0, 0, 128]]], np.uint8)
    options = {"lossless": True, "exact": True} if kind == "WEBP" else {}
    image = decode_image(encoded(Pillow.fromarray(pixels), kind, **options))
    np.testing.assert_array_equal(image, [[[255, 255, 255], [10, 20, 30], [127, 127, 127]]])


@pytest.mark.parametrize(
    ("mode", "colour", "key"), [("L", 9, 9), ("RGB", (1, 2, 3), (1, 2, 3)), ("1", 0, 0), ("I;16", 999, 999)]
)
def test_the_key_colour_of_a_png_is_white(mode: str, colour: Any, key: Any) -> None:
    image = decode_image(encoded(Pillow.new(mode, (3, 3), colour), "PNG", transparency=key))
    assert image.min() == 255


def test_grey_with_transparency_is_laid_over_white() -> None:
    pixels = Pillow.new("LA", (2, 1), (50, 255))
    pixels.putpixel((0, 0), (50, 0))
    image = decode_image(encoded(pixels, "PNG"))
    np.testing.assert_array_equal(image, [[[255] * 3, [50] * 3]])


def test_premultiplied_grey_is_laid_over_white() -> None:
    unassociated = encoded(Pillow.new("LA", (2, 1), (100, 0)), "TIFF")
    associated = unassociated.replace(struct.pack("<HHIH", 338, 3, 1, 2), struct.pack("<HHIH", 338, 3, 1, 1))
    assert associated != unassociated
    assert decode_image(associated).min() == 255


def test_a_cmyk_jpeg_has_the_colours_it_was_made_of() -> None:
    flat = np.full((HEIGHT, WIDTH, 3), (200, 120, 40), np.uint8)
    image = decode_image(encoded(Pillow.fromarray(flat).convert("CMYK"), "JPEG", quality=95))
    np.testing.assert_allclose(image.astype(int), flat, atol=4)


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_sixteen_bit_mid_grey_is_mid_grey(kind: str) -> None:
    deep = np.array([[0, 0x8000, 0xFFFF]], np.uint16)
    image = decode_image(encoded(Pillow.fromarray(deep), kind))
    np.testing.assert_array_equal(image, [[[0] * 3, [128] * 3, [255] * 3]])


def test_a_big_endian_sixteen_bit_tiff_is_read_alike() -> None:
    deep = Pillow.new("I;16B", (2, 2), 0x8000)
    np.testing.assert_array_equal(decode_image(encoded(deep, "TIFF")), np.full((2, 2, 3), 128))


def test_sixteen_bits_whose_white_is_zero_are_inverted() -> None:
    black_is_zero = encoded(Pillow.new("I;16", (2, 2), 0x4000), "TIFF")
    tag = struct.pack("<HHI", 262, 3, 1)
    white_is_zero = black_is_zero.replace(tag + b"\1", tag + b"\0")
    np.testing.assert_array_equal(decode_image(white_is_zero), np.full((2, 2, 3), 0xFF - 0x40))


def test_twelve_bit_mid_grey_is_mid_grey() -> None:
    # Twelve bits a pixel: the four bytes 80 0F FF 00 hold 0x800 and 0xFFF.
    sixteen = encoded(Pillow.fromarray(np.array([[0x0F80, 0x00FF]], np.uint16)), "TIFF")
    tag = struct.pack("<HHI", 258, 3, 1)
    twelve = sixteen.replace(tag + b"\x10", tag + b"\x0c")
    np.testing.assert_array_equal(decode_image(twelve), [[[128] * 3, [255] * 3]])


@pytest.mark.parametrize("mode", ["F", "I"])
def test_a_pixel_type_without_an_agreed_range_is_refused(mode: str) -> None:
    with pytest.raises(BrokenImage, match=f"pixel type {mode} .* convert it to 8 bits"):
        decode_image(encoded(Pillow.new(mode, (2, 2)), "TIFF"))


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "WEBP", "JPEG"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_orientation_is_undone(kind: str, orientation: int) -> None:
    upright = quadrants()
    as_stored = {
        1: upright,
        2: upright[:, ::-1],
        3: upright[::-1, ::-1],
        4: upright[::-1],
        5: upright.transpose(1, 0, 2),
        6: np.rot90(upright, 1),
        7: upright[::-1, ::-1].transpose(1, 0, 2),
        8: np.rot90(upright, -1),
    }[orientation]
    options = FAITHFUL.get(kind, {})
    stored = Pillow.fromarray(np.ascontiguousarray(as_stored))
    image = decode_image(encoded(stored, kind, exif=rotated_exif(orientation), **options))
    np.testing.assert_allclose(image.astype(int), upright, atol=3)


def test_a_deep_image_is_turned_upright_too() -> None:
    deep = np.array([[0, 0x8000, 0xFFFF]], np.uint16)
    image = decode_image(encoded(Pillow.fromarray(deep), "PNG", exif=rotated_exif(6)))
    np.testing.assert_array_equal(image[:, 0, 0], [0, 128, 255])


@pytest.mark.parametrize(
    "exif", [b"Exif\0\0garbage", b"Exif\0\0II*\0\x08\0\0\0\xff\xff", b"Exif\0\0MM\0*\0\0\0\x08\0\x03\x01\x12"]
)
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_damaged_metadata_does_not_spoil_a_good_image(kind: str, exif: bytes) -> None:
    image = decode_image(encoded(Pillow.new("RGB", (8, 8), "white"), kind, exif=exif))
    assert image.min() == 255


def test_a_decoded_image_may_be_written_to() -> None:
    image = decode_image(SAMPLES[0])
    image[:] = 0
    assert image.max() == 0


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "BMP", "TIFF"])
@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_a_truncated_file_is_broken(tmp_path: Path, kind: str, share: float) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), np.uint8)
    whole = encoded(Pillow.fromarray(noise), kind)
    path = tmp_path / "cut"
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(BrokenImage) as raised:
        read_image(path)
    assert str(raised.value).startswith(f"{path}: ")
    assert "\n" not in str(raised.value)


def test_an_empty_file_is_broken(tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    path.touch()
    with pytest.raises(BrokenImage, match="the file is empty"):
        read_image(path)


def test_no_bytes_are_no_image() -> None:
    with pytest.raises(BrokenImage, match="not a JPEG"):
        decode_image(b"")


def test_a_text_named_as_an_image_is_broken(tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    path.write_text("not an image at all")
    with pytest.raises(BrokenImage, match=r"a\.jpg: not a JPEG, PNG"):
        read_image(path)


def test_a_kind_that_is_not_listed_is_refused() -> None:
    with pytest.raises(BrokenImage, match="not a JPEG, PNG"):
        decode_image(encoded(Pillow.new("RGB", (8, 8)), "PPM"))


@pytest.mark.parametrize("read", [read_image, check_file])
def test_what_is_not_a_readable_file_is_named(tmp_path: Path, read: Callable[[Path], object]) -> None:
    os.mkfifo(tmp_path / "pipe.jpg")
    (tmp_path / "loop.jpg").symlink_to("loop.jpg")
    for name, reason in [
        ("none.jpg", "does not exist"),
        (".", "not a file"),
        ("pipe.jpg", "not a file"),
        ("loop.jpg", "cannot be read"),
        ("a\0b.jpg", "cannot be read"),
    ]:
        with pytest.raises(BrokenImage, match=reason):
            read(tmp_path / name)


def test_a_huge_file_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "huge.png"
    with path.open("wb") as file:
        file.write(SAMPLES[3])
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(BrokenImage, match=r"1,000,000,001 bytes; the limit is 1,000,000,000"):
        read_image(path)


@pytest.mark.parametrize("size", [(50_000, 50_000), (10_000, MAX_PIXELS // 10_000 + 1), (2**31 - 1, 2**31 - 1)])
def test_a_bomb_is_refused_by_its_header(size: tuple[int, int]) -> None:
    began = time.perf_counter()
    with pytest.raises(BrokenImage, match=r"pixels.*100,000,000"):
        decode_image(png_header(*size))
    assert time.perf_counter() - began < 0.5


def test_whoever_decodes_may_set_a_lower_limit_of_pixels() -> None:
    data = encoded(Pillow.new("RGB", (5, 4)), "PNG")
    assert decode_image(data, max_pixels=20).shape == (4, 5, 3)
    with pytest.raises(TooManyPixels, match="5 x 4 pixels; expected 1 to 19 in all"):
        decode_image(data, max_pixels=19)
    with pytest.raises(TooManyPixels, match="limit of 19"):
        decode_image(png_header(50_000, 50_000), max_pixels=19)


def test_what_is_no_image_at_all_is_told_from_what_is_damaged() -> None:
    with pytest.raises(NotAnImage, match="not a JPEG"):
        decode_image(b"text")
    with pytest.raises(BrokenImage) as caught:
        decode_image(png_header(5, 4))
    assert not isinstance(caught.value, NotAnImage | TooManyPixels)


def test_a_size_that_makes_pillow_warn_is_judged_by_our_limit_alone() -> None:
    width, height = 10_000, 9_500
    assert Pillow.MAX_IMAGE_PIXELS is not None
    assert Pillow.MAX_IMAGE_PIXELS < width * height < MAX_PIXELS
    with pytest.raises(BrokenImage, match="image file is truncated"):
        decode_image(png_header(width, height))


def test_threads_leave_the_warning_filters_as_they_were() -> None:
    before = list(warnings.filters)
    with ThreadPoolExecutor(8) as pool:
        shapes = {image.shape[2] for image in pool.map(decode_image, SAMPLES * 20)}
    assert shapes == {3}
    assert list(warnings.filters) == before


def test_pillows_own_users_are_still_warned_after_a_decoding() -> None:
    decode_image(SAMPLES[0])
    with pytest.warns(Pillow.DecompressionBombWarning):
        Pillow.open(io.BytesIO(png_header(10_000, 9_500)))


def outcome(data: bytes) -> str:
    """Return what decoding gave: the shape's and type's verdict, or the message."""
    try:
        image = decode_image(data)
    except BrokenImage as error:
        return str(error)
    return "image" if image.dtype == np.uint8 and image.size and image.shape[2:] == (3,) else "not an image"


def assert_image_or_broken(data: bytes) -> None:
    message = outcome(data)
    assert message != "not an image"
    assert "\n" not in message


@given(st.binary(max_size=400))
@example(b"")
@example(b"\xff\xd8\xff")
@example(b"GIF89a")
@FUZZ
def test_arbitrary_bytes_are_an_image_or_broken(data: bytes) -> None:
    assert_image_or_broken(data)


@given(st.sampled_from(SAMPLES), st.lists(st.tuples(st.floats(0, 1), st.integers(0, 255)), max_size=8))
@FUZZ
def test_mutated_files_are_an_image_or_broken(whole: bytes, changes: list[tuple[float, int]]) -> None:
    data = bytearray(whole)
    for place, value in changes:
        data[int(place * (len(data) - 1))] = value
    assert_image_or_broken(bytes(data))


@given(st.sampled_from(SAMPLES), st.floats(0, 1), st.binary(max_size=20))
@FUZZ
def test_truncated_files_with_a_tail_are_an_image_or_broken(whole: bytes, share: float, tail: bytes) -> None:
    assert_image_or_broken(whole[: int(share * len(whole))] + tail)


@given(st.sampled_from(SAMPLES), st.integers(0, 60), st.binary(min_size=1, max_size=8))
@FUZZ
def test_damaged_headers_are_an_image_or_broken(whole: bytes, place: int, damage: bytes) -> None:
    assert_image_or_broken(whole[:place] + damage + whole[place + len(damage) :])


@pytest.fixture
def files(tmp_path: Path) -> FileImages:
    paths = [tmp_path / f"{shade}.png" for shade in (10, 20, 30)]
    for path in paths:
        Pillow.new("L", (4, 4), int(path.stem)).save(path)
    return FileImages(paths)


def test_files_are_decoded_in_the_order_asked_for(files: FileImages) -> None:
    assert len(files) == 3
    assert [image.max() for image in files.take(np.array([2, 0, 2]))] == [30, 10, 30]
    assert files.name(1).endswith("20.png")


def test_stacked_sequences_count_on(files: FileImages) -> None:
    array = np.full((2, 4, 4, 1), 99, np.uint8)
    stacked = StackedImages([files, ArrayImages(lambda: array, 2, "array"), files])
    assert len(stacked) == 8
    assert [image.max() for image in stacked.take(np.arange(8))] == [10, 20, 30, 99, 99, 10, 20, 30]
    assert stacked[-1].max() == 30
    assert [stacked.name(4), stacked.name(5)] == ["array, image 1", files.name(0)]
    with pytest.raises(IndexError):
        stacked[8]


def test_an_array_that_is_not_what_was_said_is_refused() -> None:
    images = ArrayImages(lambda: np.zeros((2, 4, 4, 3), np.uint8), 3, "here")
    with pytest.raises(DataError, match=r"here: expected uint8 images \(3, height"):
        images[0]


def test_a_tensor_is_an_image_with_channels_first() -> None:
    torch = pytest.importorskip("torch")
    pixels = quadrants()
    tensor = torch.from_numpy(pixels).permute(2, 0, 1)
    assert np.array_equal(as_image(tensor), pixels)
    assert np.array_equal(as_image(tensor / 255), pixels)
    assert np.array_equal(as_image((tensor.double() / 255).requires_grad_()), pixels)
    assert as_image(tensor[0]).shape == (HEIGHT, WIDTH, 1)
    batch = as_images(torch.stack([tensor, tensor]))
    assert len(batch) == 2
    assert np.array_equal(batch[1], pixels)


@pytest.mark.parametrize("low", [-0.1, 0.5, float("nan")])
def test_a_float_tensor_beyond_0_and_1_is_refused(low: float) -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.linspace(low, low + 1, 3 * 4 * 4).reshape(3, 4, 4)
    with pytest.raises(InvalidInput, match=r"values in 0\.\.1"):
        as_image(tensor)


@pytest.mark.parametrize("shape", [(4, 4, 2), (4,), (0, 4, 3)])
def test_an_array_of_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInput, match="got uint8 of shape"):
        as_image(np.zeros(shape, np.uint8))


def test_a_lazy_sequence_is_used_as_it_is(files: FileImages) -> None:
    assert as_images(files) is files


def test_paths_are_str_or_path(tmp_path: Path) -> None:
    Pillow.fromarray(quadrants()).save(tmp_path / "a.png")
    images = FileImages([str(tmp_path / "a.png"), tmp_path / "a.png"])
    assert images.paths == (tmp_path / "a.png", tmp_path / "a.png")
    assert np.array_equal(images[0], images[1])


@pytest.mark.parametrize("channels", [1, 3])
def test_a_thumbnail_of_an_array_fits_the_square(channels: int) -> None:
    data = thumbnail(np.zeros((40, 80, channels), np.uint8), 20)
    with Pillow.open(io.BytesIO(data)) as picture:
        assert (picture.format, picture.size) == ("JPEG", (20, 10))


def test_files_of_far_more_parts_than_a_photo_are_refused_by_their_header(tmp_path: Path) -> None:
    for data, reason in (
        (jpeg_of_many_segments(20_000), "more parts than a photo"),
        (gif_of_many_comments(20_000), "more parts than a photo"),
        (tiff_of_many_tiles(800), "640,000 strips or tiles"),
    ):
        (tmp_path / "image").write_bytes(data)
        with pytest.raises(BrokenImage, match=reason):
            decode_image(data)
        with pytest.raises(BrokenImage, match=reason):
            read_image(tmp_path / "image")


def test_files_of_many_parts_are_read_as_long_as_a_photo_could_have_them() -> None:
    assert decode_image(jpeg_of_many_segments(1000)).shape == (8, 8, 3)
    assert decode_image(gif_of_many_comments(1000)).shape == (8, 8, 3)
    assert decode_image(tiff_of_many_tiles(30)).shape == (30, 30, 3)


def test_parts_after_the_pixels_are_limited_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ddsh.images.MAX_READS", 100)
    whole = encoded(Pillow.fromarray(quadrants()), "PNG")
    with pytest.raises(BrokenImage, match="more parts"):
        decode_image(whole[:-12] + png_chunk(b"prVt", b"") * 100 + whole[-12:])
    assert decode_image(whole).shape == (HEIGHT, WIDTH, 3)
