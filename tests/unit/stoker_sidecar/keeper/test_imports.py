"""The keeper depends only on the standard library."""

import subprocess
import sys
from pathlib import Path

import stoker_api
import stoker_sidecar.keeper.main

_ROOTS = [str(Path(package.__file__ or "").parents[1]) for package in (stoker_sidecar, stoker_api)]
_PROGRAM = f"""
import sys
sys.path[:0] = {_ROOTS!r}
import stoker_sidecar.keeper.main
print(*sorted({{name.partition('.')[0] for name in sys.modules}} - sys.stdlib_module_names - {{'__main__'}}))
"""


def test_importing_the_keeper_pulls_in_nothing_but_the_standard_library_and_ourselves() -> None:
    # -S: without site-packages, so that imports from there fail.
    done = subprocess.run([sys.executable, "-S", "-c", _PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["stoker_api", "stoker_sidecar"]
