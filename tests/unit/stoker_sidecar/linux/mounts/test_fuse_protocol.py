"""The FUSE messages that Stoker packs itself."""

import struct

import pytest

from stoker_sidecar.linux.mounts import fuse_protocol as fuse_wire

_FLAGS_EXT = 1 << 30


def _kernel_init(minor: int = 45, flags: int = 0xFFFF_FFFF, flags2: int = 0xFFFF_FFFF, opcode: int = 26) -> bytes:
    body = struct.pack("<IIIII44x", 7, minor, 131072, flags, flags2)
    return struct.pack("<IIQQIIIHH", 40 + len(body), opcode, 2, 0, 0, 0, 0, 0, 0) + body


def test_a_recent_kernel_can_resend() -> None:
    assert fuse_wire.parse_init(_kernel_init()).can_resend


def test_the_high_flags_count_only_when_announced() -> None:
    assert not fuse_wire.parse_init(_kernel_init(flags=0xFFFF_FFFF & ~_FLAGS_EXT)).can_resend


def test_an_old_short_init_is_read() -> None:
    message = _kernel_init(minor=31, flags=1)[: 40 + 16]
    assert fuse_wire.parse_init(message)[1:] == (7, 31, 131072, 1)


@pytest.mark.parametrize("message", [b"", b"\0" * 30, _kernel_init(minor=22), _kernel_init(opcode=1)])
def test_what_is_no_usable_init_is_refused(message: bytes) -> None:
    with pytest.raises(ValueError, match=r"FUSE"):
        fuse_wire.parse_init(message)


def test_the_reply_asks_for_nothing_that_was_not_offered() -> None:
    reply = fuse_wire.init_reply(fuse_wire.parse_init(_kernel_init(flags=1 | _FLAGS_EXT, flags2=0)))
    assert struct.unpack_from("<I", reply, 16 + 12)[0] == 1 | _FLAGS_EXT


def test_the_reply_answers_the_kernels_request_and_tells_its_own_length() -> None:
    reply = fuse_wire.init_reply(fuse_wire.parse_init(_kernel_init()))
    assert struct.unpack_from("<IiQ", reply) == (len(reply), 0, 2)
    assert len(reply) == 16 + 64


def test_the_reply_never_speaks_a_newer_protocol_than_the_kernel() -> None:
    reply = fuse_wire.init_reply(fuse_wire.parse_init(_kernel_init(minor=31)))
    assert struct.unpack_from("<II", reply, 16) == (7, 31)


@pytest.mark.parametrize(("flags2", "allowed"), [(0xFFFF_FFFF, 1 << 8), (0, 0)])
def test_the_reply_lets_runtimes_map_users_where_the_kernel_can(flags2: int, allowed: int) -> None:
    reply = fuse_wire.init_reply(fuse_wire.parse_init(_kernel_init(flags2=flags2)))
    assert struct.unpack_from("<I", reply, 16 + 32)[0] & (1 << 8) == allowed


def test_the_reply_leaves_automatic_readdirplus_out() -> None:
    reply = fuse_wire.init_reply(fuse_wire.parse_init(_kernel_init()))
    assert struct.unpack_from("<I", reply, 16 + 12)[0] & (1 << 14) == 0


def test_the_made_up_init_is_one_that_the_parser_takes() -> None:
    assert fuse_wire.parse_init(fuse_wire.init_request()).minor == fuse_wire.MINOR


def test_resend_is_a_notification_without_a_body() -> None:
    assert struct.unpack("<IiQ", fuse_wire.resend()) == (16, 7, 0)
