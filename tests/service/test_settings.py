"""Settings and their validation."""

import pytest

from ddsh.errors import InvalidInput
from ddsh.service import Settings

TOKEN = "a-token-of-24-characters"


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"timeout": 0}, "timeout"),
        ({"timeout": float("nan")}, "timeout"),
        ({"timeout": float("inf")}, "timeout"),
        ({"workers": 0}, "workers"),
        ({"max_waiting": -1}, "max_waiting"),
        ({"max_upload_bytes": 0}, "max_upload_bytes"),
        ({"max_pixels": 200_000_000}, "100,000,000 at most"),
        ({"max_k": 0}, "max_k"),
        ({"token": "short"}, "16 or more"),
        ({"token": "with spaces in the middle"}, "without spaces"),
        ({"token": "tökentökentökentöken"}, "16 or more"),
    ],
    ids=str,
)
def test_invalid_settings_are_refused(wrong, word):
    with pytest.raises(InvalidInput, match=word):
        Settings(**wrong)


def test_the_token_appears_neither_in_the_repr_nor_in_errors():
    assert TOKEN not in repr(Settings(token=TOKEN))
    with pytest.raises(InvalidInput) as caught:
        Settings(token="too-short")
    assert "too-short" not in str(caught.value)
