"""The fetcher as it is in a container with a memory limit.

`python -m bench.variants.limited CGROUP`, then the fetcher's own options. It believes the limit of the group, and is
put into it by who wants it there: its own memory is then no part of what is measured.
"""

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from bench.errors import UsageError
from bench.memory_limit import limited_memory
from stoker_sidecar.fetcher import main as product
from stoker_sidecar.fetcher.download.policy import KeepWhatCame


def main(argv: Sequence[str]) -> int:
    """Run the fetcher; return its exit code. Raises UsageError for a group that there is not."""
    group, *options = argv or [""]
    folder = Path(group)
    if not (folder / "cgroup.procs").exists():
        raise UsageError(f"{group!r} is no control group: name one first")
    # Held to its own files, it could not read this group's.
    return product.main([*options, "--confine=Off"], KeepWhatCame, partial(limited_memory, folder))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
