from ddsh.errors import DdshError, InvalidInput, UnknownName


def test_an_unknown_name_offers_the_nearest_known_one():
    assert str(UnknownName("method", "dpsg", ["dpsh", "lsh"])) == "Unknown method 'dpsg'. Did you mean 'dpsh'?"


def test_an_unknown_name_without_a_near_one_lists_what_is_known():
    assert str(UnknownName("method", "xyz", ["lsh", "dpsh"])) == "Unknown method 'xyz'. Known: dpsh, lsh."


def test_invalid_input_is_a_value_error_for_those_who_do_not_know_ddsh():
    assert issubclass(InvalidInput, ValueError)
    assert issubclass(InvalidInput, DdshError)


def test_an_unknown_name_among_none_says_so():
    assert str(UnknownName("label", "dog", [])) == "Unknown label 'dog'. Known: none."
