"""The few FUSE kernel messages that we speak ourselves: INIT and RESEND. Pure packing; layouts from linux/fuse.h.

The keeper answers the kernel's INIT once, so that every FUSE server, first or tenth, starts the same way: it is told a
made-up INIT (``init_request``) and then continues on a connection that has been initialised long ago.
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
MINOR = 38  # what libfuse 3.14, the oldest that we run on, speaks

_ASYNC_READ = 1 << 0
_BIG_WRITES = 1 << 5
_DO_READDIRPLUS = 1 << 13
_READDIRPLUS_AUTO = 1 << 14
_ASYNC_DIO = 1 << 15
_PARALLEL_DIROPS = 1 << 18
_MAX_PAGES = 1 << 22
_INIT_EXT = 1 << 30
_HAS_RESEND = 1 << 39

# What we ask of the kernel. READDIRPLUS_AUTO is left out: pyfuse3 answers READDIRPLUS only.
_WANTED = _ASYNC_READ | _BIG_WRITES | _DO_READDIRPLUS | _ASYNC_DIO | _PARALLEL_DIROPS | _MAX_PAGES | _INIT_EXT
# What the server's libfuse is told that the kernel offers; pyfuse3 refuses to start without readdirplus.
_OFFERED = _WANTED | _READDIRPLUS_AUTO

_MAX_PAGES_PER_REQUEST = 256  # 1 MiB a read: the kernel's default ceiling (fuse.operations.max_pages_limit)
_MAX_BACKGROUND = 64  # readahead requests in flight; the kernel's 12 starves parallel large files
_MAX_WRITE = 4096  # the least that is legal: nothing is ever written
# The kernel's own ids are small and even; an answer to this one finds no request, which libfuse ignores.
_MADE_UP_UNIQUE = 0x7FFF_FFFF_FFFF_FFFE
LARGEST_INIT = 8192  # FUSE_MIN_READ_BUFFER: a smaller read of the device is refused


class Init(NamedTuple):
    """The kernel's INIT: its protocol and what it can do."""

    unique: int
    major: int
    minor: int
    max_readahead: int
    flags: int

    @property
    def can_resend(self) -> bool:
        """True from Linux 6.9: requests that a dead server had taken can be handed out again."""
        return bool(self.flags & _HAS_RESEND)


def parse_init(message: bytes) -> Init:
    """Read the kernel's first request. Raises ValueError when it is not an INIT of protocol 7.23 or later."""
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
    """Make our answer to the kernel: only what it offered, large reads, directory entries with their attributes."""
    flags = init.flags & _WANTED
    body = _INIT_OUT.pack(
        MAJOR,
        min(init.minor, MINOR),
        init.max_readahead,
        flags & 0xFFFF_FFFF,
        _MAX_BACKGROUND,
        _MAX_BACKGROUND * 3 // 4,  # the kernel's own proportion of congestion to background
        _MAX_WRITE,
        1,  # nanoseconds
        _MAX_PAGES_PER_REQUEST,
        0,
        flags >> 32,
        0,
    )
    return _OUT_HEADER.pack(_OUT_HEADER.size + len(body), 0, init.unique) + body


def init_request() -> bytes:
    """Make the INIT that a server's libfuse is told, so that it believes it is initialised."""
    body = _INIT_IN.pack(MAJOR, MINOR, 128 * 1024, _OFFERED & 0xFFFF_FFFF, _OFFERED >> 32)
    return _IN_HEADER.pack(_IN_HEADER.size + len(body), _OPCODE_INIT, _MADE_UP_UNIQUE, 0, 0, 0, 0, 0, 0) + body


def resend() -> bytes:
    """Make the notification with which the kernel hands out again what was read but never answered."""
    return _OUT_HEADER.pack(_OUT_HEADER.size, _NOTIFY_RESEND, 0)
