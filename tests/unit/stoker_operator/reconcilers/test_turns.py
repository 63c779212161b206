"""Order of turns."""

from collections.abc import Iterable

from stoker_operator.reconcilers.loops.turns import KeyedAction, Turns
from tests.support.present import present


async def nothing() -> None:
    """Do nothing."""


def action(key: str, scope: str = "team") -> KeyedAction:
    return KeyedAction(key, "step", scope, nothing)


def wish(turns: Turns, actions: Iterable[KeyedAction]) -> None:
    found: dict[str, dict[str, KeyedAction]] = {}
    for one in actions:
        found.setdefault(one.scope, {})[one.key] = one
    turns.replace(found)


def begun(turns: Turns) -> list[str]:
    """Start all actions that may start."""
    found = []
    while (one := turns.begin()) is not None:
        found.append(one.key)
    return found


def test_scopes_take_turns_however_many_offers_one_has() -> None:
    turns = Turns(at_once=4, at_once_each=4)
    wish(turns, [action(f"many-{number}", "many") for number in range(9)] + [action("few", "few")])
    assert begun(turns) == ["many-0", "few", "many-1", "many-2"]


def test_a_scope_has_its_own_limit() -> None:
    turns = Turns(at_once=9, at_once_each=2)
    wish(turns, [action(f"many-{number}", "many") for number in range(9)] + [action("few", "few")])
    assert begun(turns) == ["many-0", "few", "many-1"]


def test_a_scope_with_more_to_do_borrows_and_leaves_the_rest_to_others() -> None:
    turns = Turns(at_once=8, at_once_each=2, lent=3)
    many = [action(f"many-{number}", "many") for number in range(9)]
    wish(turns, many)
    assert len(begun(turns)) == 5
    wish(turns, [*many[5:], *(action(f"few-{number}", "few") for number in range(9))])
    assert begun(turns) == ["few-0", "few-1"]
    wish(turns, [*many[5:], action("one", "one")])
    assert begun(turns) == ["one"]


def test_what_was_borrowed_is_given_back_before_what_is_its_own() -> None:
    turns = Turns(at_once=8, at_once_each=2, lent=1)
    many = [action(f"many-{number}", "many") for number in range(3)]
    wish(turns, [*many, *(action(f"few-{number}", "few") for number in range(3))])
    assert len(begun(turns)) == 5
    turns.end(many[0])
    assert begun(turns) == ["few-2"]


def test_an_end_makes_room_for_the_next() -> None:
    turns = Turns(at_once=1, at_once_each=1)
    first, second = action("first"), action("second")
    wish(turns, [first, second])
    assert begun(turns) == ["first"]
    turns.end(first)
    assert begun(turns) == ["second"]


def test_what_is_not_offered_again_is_forgotten() -> None:
    turns = Turns(at_once=1, at_once_each=1)
    wish(turns, [action("old")])
    wish(turns, [action("new", "other")])
    assert begun(turns) == ["new"]


def test_what_waited_goes_before_what_is_offered_again() -> None:
    turns = Turns(at_once=1, at_once_each=1)
    crowd = [action(f"job-{number}") for number in range(3)]
    served = []
    for _ in crowd:  # each pass requests all of them, and has time for one
        wish(turns, crowd)
        one = present(turns.begin())
        served.append(one.key)
        turns.end(one)
    assert served == ["job-0", "job-1", "job-2"]


def test_the_scope_that_spent_least_goes_first_and_equal_ones_in_turn() -> None:
    spent = {"busy": 9.0}
    turns = Turns(at_once=9, at_once_each=9, spent=lambda scope: spent.get(scope, 0.0))
    wish(turns, [action(f"{scope}-{number}", scope) for scope in ("busy", "a", "b") for number in range(2)])
    assert begun(turns) == ["a-0", "b-0", "a-1", "b-1", "busy-0", "busy-1"]
