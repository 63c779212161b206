"""A mount that begins with nothing ahead finds how much should be, and is compared with fixed values in turns.

One reader goes through large files, cold, of a source half a second away. First the mount reads for a stated number of
windows in which it may try what it likes. Then fresh mounts take turns, each with an empty cache: one that begins with
what was learned, one that tunes nothing, and one for each fixed value.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from statistics import median

from bench.cold_mount import ColdMount
from bench.environment import Environment
from bench.objects import write_zeros
from bench.report import Row
from bench.systems import TUNED

_PROFILE = "P500"
_MIB = 2**20
_FILE_BYTES = 1024 * _MIB  # of zeros, that take no room at the source
_OFF = "Stoker, auto_tuning: false"
_FIXED = {f"Stoker, fixed {size} MiB": size for size in (8, 16, 32, 64)}
# The kernel's own read-ahead would hide the bad beginning: it is small for all of them.
_RULES = """
apiVersion: stoker.dev/v1alpha1
kind: TuningProfile
metadata: {name: bench}
spec:
  settings: {auto_tuning: %s}
  rules:
    - id: it
      conditions: [{type: file_pattern, value: "*"}]
      actions: [{type: prefetch, parameters: {prefetch_size: %s, kernel_read_ahead: 128Ki%s}}]
"""
_BAD = "0"


def measure(env: Environment) -> Iterator[Row]:
    """Yield the rows of the search, then those of the turns."""
    prefix = "adaptive"
    folder = env.server.bucket / prefix
    folder.mkdir()
    env.say(f"{prefix}: writing {env.scale.finding.files} objects of {_FILE_BYTES:,} zeros")
    first = folder / "00.bin"
    write_zeros(first, _FILE_BYTES)
    for number in range(1, env.scale.finding.files):
        (folder / f"{number:02}.bin").hardlink_to(first)
    with ExitStack() as stack:
        endpoint = stack.enter_context(env.profile(_PROFILE))
        known = env.scratch / "learned.db"
        rates, found = _search(env, endpoint, prefix, known)
        yield Row("adaptive", "while it searches", TUNED, "MB/s", tuple(rates), note=found)
        yield from _turns(env, endpoint, prefix, known)


def _rules(system: str) -> str:
    if system in _FIXED:
        return _RULES % ("false", f"{_FIXED[system]}Mi", "")
    return _RULES % ("false" if system == _OFF else "true", _BAD, ", strategy: Adaptive")


def _search(env: Environment, endpoint: str, prefix: str, known: Path) -> tuple[list[float], str]:
    """Read while numbers are tried; return MB/s of each window, and what was found, and where what was learned is."""
    finding = env.scale.finding
    rates: list[float] = []
    folder = env.scratch / "search"
    with ColdMount(folder, env.server, endpoint, prefix, _rules(TUNED), finding.window, None) as mount:
        for number in range(finding.windows):
            before = mount.cpu_seconds()
            rates.append(mount.rate(finding.window))
            cpu = (mount.cpu_seconds() - before) / finding.window
            said = json.loads(mount.report())["tuning"]
            now, last = said.get("numbers", {}).get("prefetch_size", 0), said.get("tuned", "")
            connections = _connections(endpoint)
            line = f"{rates[-1]:.1f} MB/s, {cpu:.0%} of a core, {connections} connections, {now / _MIB:.0f} MiB; {last}"
            env.say(f"adaptive, window {number + 1} of {finding.windows}: {line}")
        mount.keep_history(known)
    return rates, f"{finding.windows} windows of {finding.window:g} s; {last or 'nothing was found'}"


def _connections(endpoint: str) -> int:
    """Return how many connections to a port of this machine there are."""
    port = f"{int(endpoint.rpartition(':')[2]):04X}"
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(row[2].endswith(f":{port}") and row[3] == "01" for row in rows)


def _turns(env: Environment, endpoint: str, prefix: str, known: Path) -> Iterator[Row]:
    """Compare what was found, the bad beginning and fixed values, in turns."""
    finding, numbers = env.scale.finding, count()
    systems = (TUNED, _OFF, *_FIXED)
    rates: Mapping[str, list[float]] = {system: [] for system in systems}
    for turn in range(finding.turns):
        for system in systems if turn % 2 else reversed(systems):
            env.say(f"adaptive, turn {turn + 1} of {finding.turns}: {system}")
            learned = known if system == TUNED else None
            folder = env.scratch / f"turn{next(numbers)}"
            with ColdMount(folder, env.server, endpoint, prefix, _rules(system), finding.window, learned) as mount:
                mount.rate(finding.skipped)
                rates[system].append(mount.rate(finding.counted))
                env.say(f"  {rates[system][-1]:.1f} MB/s, {json.loads(mount.report())['tuning'].get('numbers', {})}")
    best = max(_FIXED, key=lambda system: median(rates[system]))
    for system in systems:
        yield Row("adaptive", f"cold, {_PROFILE}", system, "MB/s", tuple(rates[system]), best)
    shares = tuple(one / median(rates[best]) for one in rates[TUNED])
    yield Row("adaptive", f"cold, {_PROFILE}", TUNED, "of the best fixed value", shares, note=f"best: {best}")
