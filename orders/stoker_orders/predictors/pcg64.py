"""NumPy's ``default_rng(seed).permutation(n)``, without NumPy: SeedSequence, PCG64 and its shuffle."""

from array import array

_32, _64, _128 = 2**32 - 1, 2**64 - 1, 2**128 - 1
_MULTIPLIER = 0x2360ED051FC65DA44385DF649FCCF645
_POOL = 4
_INIT_A, _MULT_A, _INIT_B, _MULT_B = 0x43B0D7E5, 0x931E8875, 0x8B51F9DD, 0x58F38DED
_MIX_L, _MIX_R = 0xCA01F9DD, 0x4973F715


def permutation(count: int, seed: int) -> "array[int]":
    """Return ``numpy.random.default_rng(seed).permutation(count)``. Raises ValueError for a negative seed."""
    if seed < 0:
        raise ValueError(f"NumPy takes no negative seed, and {seed} is one")
    order = array("I", range(count))
    state, increment = _seeded(seed)
    spare = -1  # the high half of the last 64 bits, used after the low one
    for i in range(count - 1, 0, -1):
        mask = (1 << i.bit_length()) - 1
        while True:
            if spare < 0:
                state = (state * _MULTIPLIER + increment) & _128
                mixed = (state >> 64) ^ (state & _64)
                turn = state >> 122
                drawn = (mixed >> turn) | (mixed << (64 - turn)) & _64
                spare = drawn >> 32
                j = drawn & mask & _32
            else:
                j = spare & mask
                spare = -1
            if j <= i:
                break
        order[i], order[j] = order[j], order[i]
    return order


def _seeded(seed: int) -> tuple[int, int]:
    """Return state and increment of ``PCG64(SeedSequence(seed))``."""
    high, low, high_increment, low_increment = _generate(_pool(seed))
    increment = (((high_increment << 64 | low_increment) << 1) | 1) & _128
    state = (increment + (high << 64 | low)) & _128
    return (state * _MULTIPLIER + increment) & _128, increment


def _pool(seed: int) -> list[int]:
    """Mix the words of a seed as SeedSequence does."""
    entropy = [seed & _32]
    while seed := seed >> 32:
        entropy.append(seed & _32)
    hashing = _Hash(_INIT_A, _MULT_A)
    pool = [hashing.of(entropy[i] if i < len(entropy) else 0) for i in range(_POOL)]
    for source in range(_POOL):
        for target in range(_POOL):
            if source != target:
                pool[target] = _mix(pool[target], hashing.of(pool[source]))
    for word in entropy[_POOL:]:
        for target in range(_POOL):
            pool[target] = _mix(pool[target], hashing.of(word))
    return pool


def _generate(pool: list[int]) -> list[int]:
    """Return four numbers of 64 bits, the low half of each drawn first."""
    hashing = _Hash(_INIT_B, _MULT_B)
    words = [hashing.of(pool[i % _POOL]) for i in range(8)]
    return [words[i] | words[i + 1] << 32 for i in range(0, 8, 2)]


class _Hash:
    """SeedSequence's hash of a word. Its constant changes with each word."""

    def __init__(self, constant: int, multiplier: int) -> None:
        self._constant = constant
        self._multiplier = multiplier

    def of(self, value: int) -> int:
        value ^= self._constant
        self._constant = self._constant * self._multiplier & _32
        value = value * self._constant & _32
        return value ^ value >> 16


def _mix(one: int, other: int) -> int:
    result = (_MIX_L * one - _MIX_R * other) & _32
    return result ^ result >> 16
