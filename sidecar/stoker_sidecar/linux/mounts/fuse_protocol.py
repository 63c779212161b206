"""The FUSE kernel messages that Stoker handles directly: INIT and RESEND. Pure packing; layouts from linux/fuse.h.

The keeper answers the kernel's INIT once, so that every FUSE server, first or tenth, starts the same way: it gets a
synthetic INIT (``init_request``), and then continues on a connection that was initialized before.
"""

import struct
from typing import NamedTuple

_IN_HEADER = struct.Struct("<IIQQIIIHH")  # len opcode unique nodeid uid gid pid total_extlen padding
_INIT_IN = struct.Struct("<IIIII44x")  # major minor max_readahead flags flags2
_OUT_HEADER = struct.Struct("<IiQ")  # len error unique
_INIT_OUT = struct.Struct("<IIIIHHIIHHII24x")

_OPCODE_INIT = 26
_NOTIFY_RESEND = 7
MAJOR = 7
MINOR = 38  # the version of libfuse 3.14, the oldest supported one

_ASYNC_READ = 1 << 0
_BIG_WRITES = 1 << 5
_DO_READDIRPLUS = 1 << 13
_READDIRPLUS_AUTO = 1 << 14
_ASYNC_DIO = 1 << 15
_PARALLEL_DIROPS = 1 << 18
_MAX_PAGES = 1 << 22
_INIT_EXT = 1 << 30
_HAS_RESEND = 1 << 39
_ALLOW_IDMAP = 1 << 40  # from Linux 6.12: container runtimes may map the users of the mount (hostUsers: false)

# Requested kernel features, without READDIRPLUS_AUTO, because pyfuse3 answers only READDIRPLUS.
_WANTED = _ASYNC_READ | _BIG_WRITES | _DO_READDIRPLUS | _ASYNC_DIO | _PARALLEL_DIROPS | _MAX_PAGES | _INIT_EXT
# Features offered to the server's libfuse; pyfuse3 refuses to start without readdirplus.
_OFFERED = _WANTED | _READDIRPLUS_AUTO
# The kernel accepts mapped users only with default_permissions, which all of Stoker's mounts have. Servers see nothing
# of it: they answer for the same users, and the kernel maps them.
_ANSWERED = _WANTED | _ALLOW_IDMAP

_MAX_PAGES_PER_REQUEST = 256  # 1 MiB per read: the kernel's default ceiling (fuse.operations.max_pages_limit)
_MAX_BACKGROUND = 64  # readahead requests in flight; the kernel's default of 12 starves parallel large files
_MAX_WRITE = 4096  # the legal minimum: nothing is ever written
# The kernel's ids are small and even. An answer to this id matches no request, which libfuse ignores.
_MADE_UP_UNIQUE = 0x7FFF_FFFF_FFFF_FFFE
LARGEST_INIT = 8192  # FUSE_MIN_READ_BUFFER: the device refuses a smaller read


class Init(NamedTuple):
    """The kernel's INIT: its protocol and features."""

    unique: int
    major: int
    minor: int
    max_readahead: int
    flags: int

    @property
    def can_resend(self) -> bool:
        """True from Linux 6.9: requests that a dead server had taken can be resent."""
        return bool(self.flags & _HAS_RESEND)


def parse_init(message: bytes) -> Init:
    """Parse the kernel's first request. Raises ValueError if it is not an INIT of protocol 7.23 or later."""
    if len(message) < _IN_HEADER.size + 16:
        raise ValueError(f"the FUSE device gave {len(message)} bytes where an INIT request was due")
    _, opcode, unique, *_ = _IN_HEADER.unpack_from(message)
    body = message[_IN_HEADER.size :].ljust(_INIT_IN.size, b"\0")  # before 7.36 the message ended after flags
    major, minor, readahead, flags, flags2 = _INIT_IN.unpack_from(body)
    if opcode != _OPCODE_INIT or major != MAJOR or minor < 23:
        raise ValueError(
            f"FUSE opcode {opcode}, protocol {major}.{minor}: a kernel with protocol 7.23 or later is needed"
        )
    high = flags2 << 32 if flags & _INIT_EXT else 0
    return Init(unique, major, minor, readahead, flags | high)


def init_reply(init: Init) -> bytes:
    """Return the answer to the kernel: only offered features, large reads, directory entries with their attributes."""
    flags = init.flags & _ANSWERED
    body = _INIT_OUT.pack(
        MAJOR,
        min(init.minor, MINOR),
        init.max_readahead,
        flags & 0xFFFF_FFFF,
        _MAX_BACKGROUND,
        _MAX_BACKGROUND * 3 // 4,  # the kernel's default ratio of congestion to background
        _MAX_WRITE,
        1,  # nanoseconds
        _MAX_PAGES_PER_REQUEST,
        0,
        flags >> 32,
        0,
    )
    return _OUT_HEADER.pack(_OUT_HEADER.size + len(body), 0, init.unique) + body


def init_request() -> bytes:
    """Return the INIT for a server's libfuse, so that it considers itself initialized."""
    body = _INIT_IN.pack(MAJOR, MINOR, 128 * 1024, _OFFERED & 0xFFFF_FFFF, _OFFERED >> 32)
    return _IN_HEADER.pack(_IN_HEADER.size + len(body), _OPCODE_INIT, _MADE_UP_UNIQUE, 0, 0, 0, 0, 0, 0) + body


def resend() -> bytes:
    """Return the notification that makes the kernel resend requests that were read but never answered."""
    return _OUT_HEADER.pack(_OUT_HEADER.size, _NOTIFY_RESEND, 0)
