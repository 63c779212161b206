"""The wire between agent, file systems and fetcher."""

import pytest

from stoker_api.names import Reason
from stoker_sidecar.errors import ProtocolError
from stoker_sidecar.wire.credentials import (
    AmbientCredentials,
    StaticCredentials,
    UnusableCredentials,
    WebIdentityCredentials,
)
from stoker_sidecar.wire.fetcher_hints import PageWindow
from stoker_sidecar.wire.fetcher_protocol import (
    EVICTIONS,
    Configure,
    Count,
    Done,
    Failed,
    Notice,
    Progress,
    Reach,
    Reached,
    Read,
    ReadDone,
    Remove,
    Reply,
    Request,
    Watch,
    decode_reply,
    decode_request,
    encode_reply,
    encode_request,
)
from tests.support.cases import cases

ORPHANS = {"gone": ("d",)}


@cases(
    "request_",
    Configure({"uid": "u"}, StaticCredentials("id", "secret", "token", "pem"), ("d",)),
    Configure({"uid": "u"}, StaticCredentials("id", "secret")),
    PageWindow("u", "d", "pod", 5, 1.5, 2.5, 100.0, b"\0" * 16, alone=True),
    Configure({"uid": "u"}, WebIdentityCredentials("arn", "token", "2026-01-01T00:00:00Z")),
    Configure({"uid": "u"}, AmbientCredentials()),
    Configure({"uid": "u"}, UnusableCredentials(Reason.SECRET_NOT_FOUND, "there is no Secret 's'")),
    Remove("u"),
    Watch(),
    Read("u", "d", 7, 4096, 131072),
)
def test_a_request_arrives_as_it_was_sent(request_: Request) -> None:
    assert decode_request(encode_request(9, request_)) == (9, request_)


@cases(
    "reply",
    Done(),
    ReadDone("parts", "parts/7.0a0b0c0d"),
    Failed(116, "changed", "SourceChanged"),
    Progress(({"uid": "u"},), 1, 2, 3, ORPHANS, (), (Count("u", EVICTIONS, "", 1),), (Notice(1, "u", "r", "m"),)),
)
def test_a_reply_arrives_as_it_was_sent(reply: Reply) -> None:
    assert decode_reply(encode_reply(9, reply)) == (9, reply)


@cases("line", b"\n", b"[]\n", b"{}\n", b'{"id":1,"op":"fly"}\n', b'{"id":1,"op":"read"}\n', b"\xff\n")
def test_what_is_no_request_is_refused(line: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_request(line)


@pytest.mark.parametrize("line", [b"{}\n", b'{"id":"x","reply":"done"}\n', b'{"id":1,"reply":"progress"}\n'])
def test_what_is_no_reply_is_refused(line: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_reply(line)


def test_a_question_about_a_relay_is_read_and_its_answer_is_as_before() -> None:
    line = b'{"id":1,"op":"reach","uid":"u","digest":"d","part":"7.0123abcd","piece":1,"past":9}\n'
    assert decode_request(line) == (1, Reach())
    assert encode_reply(1, Reached()) == b'{"id":1,"reply":"reached","here":-1}\n'


def test_secrets_are_not_shown_when_credentials_are_printed() -> None:
    shown = repr(StaticCredentials("id", "hush", "hush", "hush")) + repr(WebIdentityCredentials("arn", "hush"))
    assert "hush" not in shown


def test_credentials_that_lack_a_field_are_refused() -> None:
    line = b'{"id":1,"op":"configure","dataset":{},"credentials":{"kind":"static","accessKeyId":"id"},"held":[]}'
    with pytest.raises(ProtocolError, match="secretAccessKey"):
        decode_request(line)
