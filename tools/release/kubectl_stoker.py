#!/usr/bin/env python3
"""kubectl stoker, with its libraries in the folder lib next to it."""

import sys
from pathlib import Path

_OLDEST, _NEWEST = (3, 11), (3, 14)  # lib has compiled modules for these
if not _OLDEST <= sys.version_info[:2] <= _NEWEST:
    sys.exit(f"kubectl stoker needs Python 3.11 to 3.14 as python3, but this is {sys.version.split()[0]}.")
sys.path.insert(0, str(Path(__file__).resolve().parent / "lib"))

from stoker_cli.entry import main  # noqa: E402

main()
