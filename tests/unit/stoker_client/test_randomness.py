"""Permutations follow from their key by the algorithm in docs/guides/client.md. Other programs can repeat them."""

import hashlib
from collections import Counter
from itertools import islice
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from stoker_client.internal.randomness import permutation, words


def test_the_orders_of_this_version_stay_as_they_are() -> None:
    assert list(permutation(10, "global", 1, 0)) == [1, 8, 6, 7, 3, 2, 0, 9, 5, 4]


def test_the_document_has_an_order_to_check_against() -> None:
    page = Path(__file__).resolve().parents[3] / "client" / "README.md"
    assert f"`{list(permutation(10, 'global', 1, 0))}`" in page.read_text(encoding="utf-8")


def test_words_are_shake_128_of_the_key_in_blocks_of_8192() -> None:
    second = hashlib.shake_128(b"stoker/1 a 7 1").digest(8)
    assert list(words(8193, "a", 7))[-1] == int.from_bytes(second, "little")


@given(st.integers(0, 500), st.integers())
def test_a_permutation_has_each_number_once(length: int, seed: int) -> None:
    assert sorted(permutation(length, "x", seed)) == list(range(length))


def test_all_orders_of_four_come_about_equally_often() -> None:
    seen = Counter(tuple(permutation(4, "x", seed)) for seed in range(24 * 200))
    # 23 degrees of freedom: one key in a thousand exceeds 49.7. The keys here are fixed.
    assert sum((seen[order] - 200) ** 2 / 200 for order in seen) + 200 * (24 - len(seen)) < 49.7


def test_the_first_numbers_do_not_depend_on_how_many_are_wanted() -> None:
    assert list(islice(words(9000, "k"), 5)) == list(words(5, "k"))
