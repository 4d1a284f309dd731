import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ddsh.codes import BinaryCodes, CodePair
from ddsh.errors import ArtefactError, InvalidInput

lengths = st.integers(1, 200)


@st.composite
def bit_matrices(draw, n_bits=None):
    width = draw(lengths) if n_bits is None else n_bits
    return draw(arrays(np.uint8, (draw(st.integers(0, 12)), width), elements=st.integers(0, 1)))


@given(bit_matrices())
def test_bits_and_signs_survive_packing(bits):
    codes = BinaryCodes.from_bits(bits)
    assert codes.packed.shape == (len(bits), -(-bits.shape[1] // 8))
    assert np.array_equal(codes.bits(), bits)
    assert np.array_equal(codes.signs(), 2 * bits.astype(int) - 1)
    assert BinaryCodes.from_signs(codes.signs()) == codes
    assert BinaryCodes.from_outputs(bits - 0.5) == codes


@given(lengths.flatmap(lambda n: st.tuples(bit_matrices(n), bit_matrices(n))), st.integers(1, 4000))
def test_hamming_counts_the_bits_that_differ(pair, block_bytes):
    left, right = pair
    expected = (left[:, None, :] != right[None, :, :]).sum(axis=2)
    mine, theirs = BinaryCodes.from_bits(left), BinaryCodes.from_bits(right)
    assert np.array_equal(mine.hamming(theirs), expected)
    rows = [(rows, block.copy()) for rows, block in mine.hamming_blocks(theirs, block_bytes)]
    assert [rows.start for rows, _ in rows] == sorted({rows.start for rows, _ in rows})
    if rows:
        assert np.array_equal(np.concatenate([block for _, block in rows]), expected)


@pytest.mark.parametrize("n_bits", [1, 8, 12, 63, 64, 65, 255, 256, 1024])
def test_the_largest_distance_fits_its_type(n_bits):
    zeros, ones = (BinaryCodes.from_bits(np.full((1, n_bits), bit)) for bit in (0, 1))
    assert zeros.hamming(ones).item() == n_bits
    assert zeros.hamming(zeros).item() == 0


def test_an_output_of_zero_is_bit_zero():
    codes = BinaryCodes.from_outputs([[0.0, -0.0, 1e-300, -1e-300]])
    assert codes.bits().tolist() == [[0, 0, 1, 0]]


@pytest.mark.parametrize(
    ("make", "values", "message"),
    [
        (BinaryCodes.from_bits, [[0, 2]], "0 or 1"),
        (BinaryCodes.from_signs, [[1, 0]], "-1 or \\+1"),
        (BinaryCodes.from_outputs, [[0.5, np.nan]], "NaN"),
        (BinaryCodes.from_outputs, [0.5, 1.0], "matrix"),
        (BinaryCodes.from_bits, [["a"]], "numeric"),
        (BinaryCodes.from_bits, np.zeros((3, 0)), "1 to 1024 bits; got 0"),
        (BinaryCodes.from_bits, np.zeros((1, 1025)), "1 to 1024 bits; got 1025"),
    ],
)
def test_values_that_are_no_codes_are_refused(make, values, message):
    with pytest.raises(InvalidInput, match=message):
        make(values)


def test_padding_bits_must_be_zero():
    with pytest.raises(InvalidInput, match="after bit 12"):
        BinaryCodes(np.array([[0, 0b10000]], np.uint8), 12)


def test_packed_codes_of_another_width_are_refused():
    with pytest.raises(InvalidInput, match=r"shape \(n, 2\)"):
        BinaryCodes(np.zeros((3, 3), np.uint8), 12)
    for shape in ((2,), (3, 2, 1)):
        with pytest.raises(InvalidInput, match=r"shape \(n, 2\)"):
            BinaryCodes(np.zeros(shape, np.uint8), 12)
    with pytest.raises(InvalidInput, match="got int64"):
        BinaryCodes(np.zeros((3, 2), np.int64), 12)


def test_codes_of_different_lengths_are_not_compared():
    with pytest.raises(InvalidInput, match="12 and of 13 bits"):
        BinaryCodes.from_bits(np.zeros((1, 12))).hamming(BinaryCodes.from_bits(np.zeros((1, 13))))


def test_rows_can_be_taken(rng):
    codes = BinaryCodes.from_bits(rng.integers(0, 2, (10, 20)))
    assert codes[2:4] == codes[[2, 3]]
    assert len(codes[np.arange(10) > 6]) == 3
    assert codes != codes[::-1]
    assert codes != "codes"
    assert repr(codes) == "BinaryCodes(10 codes of 20 bits)"


def test_codes_are_stacked(rng):
    codes = BinaryCodes.from_bits(rng.integers(0, 2, (10, 20)))
    assert BinaryCodes.stack([codes[:3], codes[3:]]) == codes
    with pytest.raises(InvalidInput, match="20 and of 8 bits"):
        BinaryCodes.stack([codes, BinaryCodes.from_bits([[0] * 8])])


@given(st.integers(0, 10_000), st.integers(1, 255))
def test_a_damaged_file_is_read_right_or_refused(tmp_path_factory, place, change):
    path = tmp_path_factory.mktemp("damaged") / "codes.npz"
    codes = BinaryCodes.from_bits(np.tri(6, 12, dtype=int))
    codes.save(path)
    data = bytearray(path.read_bytes())
    data[place % len(data)] ^= change
    path.write_bytes(data)
    try:
        found = BinaryCodes.load(path)
    except ArtefactError:
        return
    assert found == codes


def test_codes_survive_a_file(tmp_path, rng):
    codes = BinaryCodes.from_bits(rng.integers(0, 2, (10, 20)))
    codes.save(tmp_path / "new" / "codes.npz")
    assert BinaryCodes.load(tmp_path / "new" / "codes.npz") == codes
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["codes.npz"]


def _damaged(tmp_path, kind):
    path = tmp_path / "codes.npz"
    packed = np.zeros((3, 2), np.uint8)
    match kind:
        case "text":
            path.write_text("not a zip file")
        case "pickle":
            np.savez(path, packed=np.array([{"a": 1}], dtype=object))
        case "truncated":
            BinaryCodes(packed, 12).save(path)
            path.write_bytes(path.read_bytes()[:100])
        case "foreign":
            np.savez(path, weights=packed)
        case "version":
            np.savez(path, packed=packed, n_bits=12, version=99)
        case "width":
            np.savez(path, packed=packed, n_bits=120, version=1)
        case "array":
            with path.open("wb") as file:
                np.save(file, packed)
    return path


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("absent", "does not exist"),
        ("text", "not an .npz file"),
        ("pickle", "plain arrays"),
        ("truncated", "damaged"),
        ("foreign", "n_bits, packed, version missing"),
        ("version", "version 99"),
        ("width", "damaged"),
        ("array", "single array"),
    ],
)
def test_a_file_without_codes_is_refused(tmp_path, kind, message):
    path = _damaged(tmp_path, kind)
    with pytest.raises(ArtefactError, match=message) as caught:
        BinaryCodes.load(path)
    assert "\n" not in str(caught.value)


def test_the_first_bits_are_a_shorter_code(rng):
    bits = rng.integers(0, 2, (5, 20))
    codes = BinaryCodes.from_bits(bits)
    assert codes.first(7) == BinaryCodes.from_bits(bits[:, :7])
    assert codes.first(20) == codes
    for n_bits in (0, 21):
        with pytest.raises(InvalidInput, match="1 to 20 first bits"):
            codes.first(n_bits)


def pair(n_items=3, label_bits=5, look_bits=12, seed=0):
    bits = np.random.default_rng(seed).integers(0, 2, (n_items, label_bits + look_bits), np.uint8)
    label, look = bits[:, :label_bits], bits[:, label_bits:]
    return CodePair(*(BinaryCodes.from_bits(each) if each.shape[1] else None for each in (label, look)))


@pytest.mark.parametrize(("label_bits", "look_bits"), [(5, 12), (9, 12), (5, 0), (0, 12)])
def test_pairs_are_split_stacked_and_selected(label_bits, look_bits):
    codes = pair(3, label_bits, look_bits)
    parts = [each.packed for each in (codes.label, codes.look) if each is not None]
    assert CodePair.from_packed(np.hstack(parts), label_bits, look_bits) == codes
    assert CodePair.stack([codes[:1], codes[[1, 2]]]) == codes
    assert len(codes) == 3
    assert codes.main is (codes.label if label_bits else codes.look)


def test_pairs_are_equal_if_both_codes_are():
    codes = pair()
    assert codes == pair()
    assert codes != CodePair(codes.label, pair(seed=1).look)
    assert codes != CodePair(pair(seed=1).label, codes.look)
    assert codes != CodePair(codes.label, None)
    assert codes != 3


def test_a_pair_of_no_codes_or_of_different_numbers_is_refused():
    with pytest.raises(InvalidInput, match="label bits, look bits or both"):
        CodePair(None, None)
    with pytest.raises(InvalidInput, match="3 codes of label bits but 2 of look bits"):
        CodePair(pair(3).label, pair(2).look)
    with pytest.raises(InvalidInput, match="2 codes of label bits but 3 of look bits"):
        CodePair(pair(2).label, pair(3).look)


def test_the_codes_of_a_pair_are_not_replaced():
    codes = pair()
    with pytest.raises(AttributeError, match="cannot assign"):
        codes.look = None


@pytest.mark.parametrize(
    ("n_mine", "n_others", "block_bytes", "sizes"),
    [
        (25, 10, 1000, [10, 10, 5]),
        (25, 10, 1099, [10, 10, 5]),
        (3, 10, 0, [1, 1, 1]),
        (3, 10, 10_000, [3]),
        (3, 0, 2, [2, 1]),
        (0, 10, 1000, []),
    ],
)
def test_blocks_of_distances_take_about_ten_bytes_for_a_pair(n_mine, n_others, block_bytes, sizes):
    mine, others = (BinaryCodes(np.zeros((count, 1), np.uint8), 8) for count in (n_mine, n_others))
    blocks = [(rows, block.shape) for rows, block in mine.hamming_blocks(others, block_bytes)]
    assert [shape for _, shape in blocks] == [(size, n_others) for size in sizes]
    assert [rows.stop for rows, _ in blocks] == np.cumsum(sizes).tolist()


def test_distances_are_computed_in_blocks_of_four_megabytes():
    mine, others = (BinaryCodes(np.zeros((count, 1), np.uint8), 8) for count in (50, 10_000))
    assert next(mine.hamming_blocks(others))[0] == slice(0, 41)
