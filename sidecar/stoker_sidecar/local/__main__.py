"""Entry point of `stoker mount`, `umount` and `cache drop`, which run this as their own program (ADR 16)."""

import os
import sys
from collections.abc import Sequence

from stoker_sidecar.errors import SidecarError
from stoker_sidecar.local.options import DropOptions, MountOptions, parse


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return the exit code."""
    options = parse(sys.argv[1:] if argv is None else argv, os.environ, os.geteuid())
    try:
        # Imported late: --help and a wrong command line need none of the data path.
        from stoker_sidecar.local import cache_dropping, command
    except ModuleNotFoundError as error:
        return _refused(
            f"the Python package {error.name!r} is missing: install Stoker with its extra (pip install '.[mount]')"
        )
    try:
        if isinstance(options, MountOptions):
            command.mount(options, os.environ)
        elif isinstance(options, DropOptions):
            print("\n".join(cache_dropping.drop(options)))
        else:
            command.umount(options)
    except SidecarError as error:
        return _refused(str(error))
    except OSError as error:
        return _refused(f"{error.filename or 'the system'} refuses: {error.strerror or error}")
    return 0


def _refused(sentence: str) -> int:
    print(f"stoker: {sentence}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
