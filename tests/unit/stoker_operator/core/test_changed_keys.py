"""What differs between two states of a table."""

from stoker_operator.core.changed_keys import changed_keys, changed_values, swap


def test_what_came_went_or_was_replaced_has_changed() -> None:
    same, old, new = object(), object(), object()
    found = changed_keys({"same": same, "other": old, "gone": old}, {"same": same, "other": new, "new": new})
    assert sorted(found) == ["gone", "new", "other"]


def test_what_went_is_found_where_as_much_came() -> None:
    assert sorted(changed_keys({"a": "1"}, {"b": "1"})) == ["a", "b"]


def test_a_row_that_says_the_same_anew_is_another_object_and_no_other_value() -> None:
    before, after = {"a": [1], "b": [1]}, {"a": [1], "b": [2]}
    assert (changed_keys(before, after), changed_values(before, after)) == (["a", "b"], ["b"])


def test_an_index_forgets_keys_that_nobody_is_under() -> None:
    index = {"a": {"one"}, "b": {"one", "other"}}
    swap(index, {"a", "b"}, {"c"}, "one")
    assert index == {"b": {"other"}, "c": {"one"}}
