"""Results of queries."""

import numpy as np
import pytest
from PIL import Image
from small_photos import draw

from ddsh.model import Model
from ddsh.search import Hit, QueryResult


def test_a_result_is_a_sequence_of_hits_with_the_code_of_the_query(search, photos, model):
    path = photos / "red" / "0.png"
    result = search.query(path, k=5)
    assert isinstance(result, QueryResult)
    assert len(result) == 5
    assert all(isinstance(hit, Hit) for hit in result)
    assert result[0] in result
    assert result[1:3] == list(result)[1:3]
    assert result[-1] == list(result)[-1]
    assert result == list(result)
    assert result != search.query(path, k=4)
    expected = "".join(map(str, Model.load(model).encode([path]).bits()[0].tolist()))
    assert (result.code, result.n_bits) == (expected, 16)
    assert repr(result) == "QueryResult(5 hits of 16 bits, nearest at distance 0)"


def test_the_code_is_there_where_nothing_was_found_and_for_an_id(search, photos):
    path = photos / "red" / "0.png"
    number = search.id_of(path)
    code = search.query(number).code
    assert code == search.query(path).code
    search.remove(search.ids())
    empty = search.query(path)
    assert empty == []
    assert not empty
    assert empty.code == code


def test_bits_that_differ_are_those_where_the_codes_differ(search):
    result = search.query(1)
    for hit in result:
        assert [place for place in range(16) if hit.bits[place] != result.code[place]] == list(hit.flipped)


@pytest.mark.parametrize("form", [Image.fromarray, lambda array: array])
def test_pillow_images_and_arrays_can_be_added_and_asked_for(search, rng, form):
    picture = form(draw(rng, (9, 99, 199)))
    added = search.add([picture]).added
    assert search.query(picture, k=1, radius=0)[0].distance == 0
    assert len(search.add(picture).known) == len(added) == 1
    assert np.array_equal(np.asarray(Image.open(search.entry(added[0]).path)), np.asarray(picture))
