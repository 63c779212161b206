"""The differences between two states of a table."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker_operator.core import changed_keys as module
from stoker_operator.core.changed_keys import ChangeLog, Snapshot, changed_keys, changed_values, swap

_CHANGES = st.lists(st.tuples(st.sampled_from("abcde"), st.one_of(st.none(), st.integers(0, 3))), max_size=12)


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


@given(_CHANGES, _CHANGES)
def test_two_snapshots_of_a_table_differ_as_their_rows_do(
    first: list[tuple[str, int | None]], second: list[tuple[str, int | None]]
) -> None:
    rows, log = dict[str, int](), ChangeLog()
    for key, value in first:
        _put(rows, log, key, value)
    before = Snapshot(rows, log)
    for key, value in second:
        _put(rows, log, key, value)
    after = Snapshot(rows, log)
    _put(rows, log, "a", 7)  # a key that neither of them has
    assert sorted(changed_keys(before, after)) == sorted(changed_keys(dict(before), dict(after)))


def test_snapshots_are_compared_row_by_row_where_the_log_is_too_short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_REMEMBERED", 2)
    rows, log = dict[str, int](), ChangeLog()
    before = Snapshot(rows, log)
    for value, key in enumerate("abc"):
        _put(rows, log, key, value)
    assert sorted(changed_keys(before, Snapshot(rows, log))) == ["a", "b", "c"]


def test_snapshots_of_two_tables_are_compared_row_by_row() -> None:
    one, other = ChangeLog(), ChangeLog()
    assert changed_keys(Snapshot({"a": 1}, one), Snapshot({"a": 2}, other)) == ["a"]


def test_a_look_back_at_an_earlier_snapshot_compares_row_by_row() -> None:
    rows, log = dict[str, int](), ChangeLog()
    before = Snapshot(rows, log)
    _put(rows, log, "a", 1)
    assert changed_keys(Snapshot(rows, log), before) == ["a"]


def _put(rows: dict[str, int], log: ChangeLog, key: str, value: int | None) -> None:
    log.note(key)
    if value is None:
        rows.pop(key, None)
    else:
        rows[key] = value
