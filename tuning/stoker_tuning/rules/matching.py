"""Matching a text with an automaton: one look at each character, whatever the pattern.

Sets of states become states of their own when they are first met (a lazy DFA); how many are kept is bounded.
"""

from stoker_tuning.rules.regex_syntax import Automaton

_MOST_TRANSITIONS = 5_000  # of one pattern, some 500 kB; then they are forgotten and found anew
_MOST_TEXT = 4_096  # characters: no path on Linux is longer


class _States(dict[str, "_States"]):
    """A set of the automaton's states, and by the next character the set that follows."""

    __slots__ = ("accepting", "accepting_at_end", "matcher", "numbers")

    def __init__(self, matcher: "Matcher", numbers: frozenset[int], accepting: bool, accepting_at_end: bool) -> None:
        super().__init__()
        self.matcher, self.numbers = matcher, numbers
        self.accepting, self.accepting_at_end = accepting, accepting_at_end

    def __missing__(self, character: str) -> "_States":
        return self.matcher.step(self, character)


class Matcher:
    """An automaton made ready. With ``whole`` the whole text has to match, else any part of it."""

    def __init__(self, automaton: Automaton, *, whole: bool) -> None:
        self._automaton, self._whole = automaton, whole
        self._forget()

    @property
    def states(self) -> int:
        """How many states the automaton has: what a character costs at the most."""
        return len(self._automaton.takes)

    def holds(self, text: str) -> bool:
        """Tell whether the text matches; one that is longer than any path does not."""
        if len(text) > _MOST_TEXT:
            return False
        now = self._begin
        for character in text:
            now = now[character]
        return now.accepting_at_end

    def step(self, states: _States, character: str) -> _States:
        """Find out what follows a set of states, and note it there."""
        if self._transitions >= _MOST_TRANSITIONS:
            self._forget()
        self._transitions += 1
        found = states if states.accepting and not self._whole else self._following(states, character)
        states[character] = found
        return found

    def _forget(self) -> None:
        self._known: dict[frozenset[int], _States] = {}
        self._transitions = 0
        self._begin = self._states([self._automaton.start], begin=True)

    def _following(self, states: _States, character: str) -> _States:
        takes, forks = self._automaton.takes, self._automaton.forks
        reached: list[int] = []
        for number in states.numbers:
            characters = takes[number]
            if characters is not None and characters.takes(character):
                reached += forks[number]
        if not self._whole:
            reached.append(self._automaton.start)
        return self._states(reached)

    def _states(self, reached: list[int], *, begin: bool = False) -> _States:
        numbers = self._closure(reached, begin=begin, end=False)
        known = self._known.get(numbers) if not begin else None
        if known is None:
            at_end = self._automaton.accept in self._closure(reached, begin=begin, end=True)
            known = _States(self, numbers, self._accepts(numbers), at_end)
            if not begin:
                self._known[numbers] = known
        return known

    def _accepts(self, numbers: frozenset[int]) -> bool:
        accept = self._automaton.accept
        return accept in numbers and self._automaton.only_at[accept] != "end"

    def _closure(self, reached: list[int], *, begin: bool, end: bool) -> frozenset[int]:
        """Return the states that are reached without taking a character."""
        found, open_ones = set[int](), list(reached)
        takes, forks, only_at = self._automaton.takes, self._automaton.forks, self._automaton.only_at
        while open_ones:
            number = open_ones.pop()
            if number in found or (only_at[number] == "begin" and not begin):
                continue
            if only_at[number] == "end" and not end:
                found.add(number)  # kept, lest two sets that differ at the end be taken for one; goes nowhere
                continue
            found.add(number)
            if takes[number] is None:
                open_ones += forks[number]
        return frozenset(found)
