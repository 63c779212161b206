"""Entry point of `stoker mount`, `umount` and `cache drop`, which run this as their own program (ADR 16)."""

import os
import sys
from collections.abc import Sequence

from stoker_sidecar.errors import SidecarError
from stoker_sidecar.local import unmounting


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return the exit code."""
    words = sys.argv[1:] if argv is None else argv
    try:
        if words[:1] == [unmounting.COMMAND]:
            unmounting.umount(unmounting.parse_umount(words[1:], os.environ, os.geteuid()))
        else:
            _mount_or_drop(words)
    except ModuleNotFoundError as error:
        return _refused(
            f"the Python package {error.name!r} is missing: install Stoker with its extra (pip install '.[mount]')"
        )
    except SidecarError as error:
        return _refused(str(error))
    except OSError as error:
        return _refused(f"{error.filename or 'the system'} refuses: {error.strerror or error}")
    return 0


def _mount_or_drop(words: Sequence[str]) -> None:
    # Imported late: unmounting needs no models, and --help and a wrong command line none of the data path.
    from stoker_sidecar.local.options import MountOptions, parse

    options = parse(words, os.environ, os.geteuid())
    from stoker_sidecar.local import cache_dropping, command

    if isinstance(options, MountOptions):
        command.mount(options, os.environ)
    else:
        print("\n".join(cache_dropping.drop(options)))


def _refused(sentence: str) -> int:
    print(f"stoker: {sentence}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
