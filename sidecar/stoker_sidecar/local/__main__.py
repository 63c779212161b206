"""Entry point of `stoker mount`, `umount` and `cache drop`, which run it as a separate program (ADR 34)."""

import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType

from stoker_sidecar.errors import SidecarError
from stoker_sidecar.local.commands import unmounting

_INTERRUPTED = 128 + signal.SIGINT  # the exit code that shells show


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command. Return the exit code."""
    words = sys.argv[1:] if argv is None else argv
    try:
        if words[:1] == [unmounting.COMMAND]:
            unmounting.umount(unmounting.parse_umount(words[1:], os.environ, os.geteuid()))
        else:
            return _mount_or_drop(words)
    except ModuleNotFoundError as error:
        return _refused(
            f"the Python package {error.name!r} is missing: install Stoker with its extra (pip install '.[mount]')"
        )
    except SidecarError as error:
        return _refused(str(error))
    except OSError as error:
        return _refused(f"{error.filename or 'the system'} refuses: {error.strerror or error}")
    return 0


def _mount_or_drop(words: Sequence[str]) -> int:
    # Imported late: unmounting needs no models, and --help or an invalid command line does not need the data path.
    from stoker_sidecar.local.options.mount_options import MountOptions, parse

    options = parse(words, os.environ, os.geteuid())
    from stoker_sidecar.local.commands import cache_dropping, mounting

    if isinstance(options, MountOptions):
        return mounting.mount(options, os.environ)
    print("\n".join(cache_dropping.drop(options)))
    return 0


def _end(_number: int, _frame: FrameType | None) -> None:
    os._exit(_INTERRUPTED)


def _refused(sentence: str) -> int:
    print(f"stoker: {sentence}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    signal.signal(signal.SIGINT, _end)  # no traceback
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # `stoker` starts this program with the signal blocked
    sys.exit(main())
