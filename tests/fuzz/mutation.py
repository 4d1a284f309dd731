"""Small changes to bytes, the same for the same seed."""

import random

_TELLING = (
    b"\0",
    b"\xff",
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff",
    b"-1",
    b"1e999",
    b"\\ud800",
    b"[" * 400,
    b"\n",
    b'"',
)


def mutate(data: bytes, others: list[bytes], seed: int) -> bytes:
    """Return the bytes with one to four changes: bits, bytes, runs that are cut, repeated, or taken from others."""
    chance, changed = random.Random(seed), bytearray(data)
    for _ in range(chance.randint(1, 4)):
        place = chance.randint(0, len(changed))
        length = min(chance.choice((1, 2, 4, 8, 64)), len(changed) - place)
        match chance.randrange(6):
            case 0 if length:
                changed[place] ^= 1 << chance.randrange(8)
            case 1:
                changed[place : place + length] = chance.randbytes(length)
            case 2:
                del changed[place : place + length]
            case 3:
                changed[place:place] = changed[place : place + length] * chance.choice((1, 2, 50))
            case 4:
                changed[place : place + length] = chance.choice(_TELLING)
            case _:
                other = chance.choice(others)
                start = chance.randint(0, len(other))
                changed[place : place + length] = other[start : start + 64]
    return bytes(changed)
