"""Redaction: planted credentials are gone from texts and objects, and the words that find a fault stay."""

import json
import time

from stoker_cli.support.bundle.redaction import REMOVED, redact, redact_object
from tests.support.cases import cases

KEY_ID = "AKIA" + "IOSFODNN7EXAMPLE"
SECRET = "wJalrXUtnFEMI/K7MDENG/" + "bPxRfiCYEXAMPLEKEY"
TOKEN = "FwoGZXIvYXdzEBYaD" + "x9Qk3" * 30
JWT = "eyJhbGciOiJSUzI1NiJ9." + "eyJzdWIiOiJzeXN0ZW0ifQ." + "c2lnbmF0dXJl"


@cases(
    "text, secret",
    an_access_key_id=(f"AccessDenied for {KEY_ID} at gpu-1", KEY_ID),
    a_secret_key_alone=(f"tried {SECRET} once", SECRET),
    a_secret_key_by_name=("aws_secret_access_key = hunter2hunter2", "hunter2"),
    a_session_token=(f"AWS_SESSION_TOKEN={TOKEN}", TOKEN),
    a_session_token_alone=(f"x {TOKEN} y", TOKEN),
    a_jwt=(f"token review of {JWT} failed", JWT),
    a_bearer_token=("Authorization: Bearer abcdef0123456789", "abcdef0123456789"),
    a_bearer_token_in_a_sentence=("sent bearer abcdef0123456789 to it", "abcdef0123456789"),
    a_signed_header=("AWS4-HMAC-SHA256 Credential=x/20260601, Signature=00ff", "00ff"),
    a_presigned_url=("GET https://b.s3.amazonaws.com/k?X-Amz-Signature=00ff&X-Amz-Expires=60 403", "00ff"),
    a_presigned_path=("GET /k?x=1&X-Amz-Signature=00ffaa HTTP/1.1", "00ffaa"),
    a_shared_access_signature=("https://acct.blob.core.windows.net/c/k?sv=2024&sig=abc%2Bdef", "abc%2Bdef"),
    a_password_in_a_url=("proxy http://user:hunter2@proxy:3128/ failed", "hunter2"),
    a_password=('{"password": "hunter2 and more"}', "hunter2 and more"),
    a_flag=("train.py --api-key hunter2 --lr 0.1", "hunter2"),
    a_flag_with_equals=("train.py --token=hunter2", "hunter2"),
    a_token_of_hugging_face=("HF login hf_abcdefghijklmnopqrst", "abcdefghijklmnopqrst"),
    a_token_of_github=("clone with ghp_0123456789abcdefghijABCD", "0123456789abcdefghijABCD"),
    a_key_of_google=("key AIzaSyA0123456789abcdefghijklmnopqrstuv", "SyA0123456789"),
    a_private_key=("-----BEGIN EC PRIVATE KEY-----\nMHcCAQ\n-----END EC PRIVATE KEY-----\n", "MHcCAQ"),
    half_a_private_key=("log: -----BEGIN PRIVATE KEY-----\nMHcCAQ", "MHcCAQ"),
    the_path_of_the_webhook=("POST /mutate/" + "ab" * 32, "ab" * 32),
    a_cookie=("Set-Cookie: session=hunter2", "hunter2"),
)
def test_a_credential_in_a_text_is_masked(text: str, secret: str) -> None:
    masked = redact(text)
    assert secret not in masked
    assert REMOVED in masked


@cases(
    "text",
    a_digest="version 5c2fafd6e1a94a6f9f0d5a1b2c3d4e5f60718293a4b5c6d7e8f90123456789ab",
    a_path="/var/lib/stoker/cache/5c2fafd6-0a1b/tree/train/n01440764/n01440764_10026.JPEG",
    an_address="The API server at https://10.0.0.1:6443 did not answer",
    a_uri="source s3://bucket/imagenet/train/ is not readable: AccessDenied",
    a_uid="pod 5c2fafd6-1111-2222-3333-444455556666 waits",
    the_name_of_a_secret="Secret s3-keys has no key AWS_ACCESS_KEY_ID",
)
def test_words_that_find_a_fault_stay(text: str) -> None:
    assert redact(text) == text


@cases(
    "item",
    a_variable={"containers": [{"name": "c", "env": [{"name": "WANDB_API_KEY", "value": "hunter2"}]}]},
    a_plain_variable={"containers": [{"name": "c", "env": [{"name": "DB", "value": "hunter2"}]}]},
    an_argument={"containers": [{"name": "c", "args": ["--db", "hunter2"]}]},
    a_command={"initContainers": [{"name": "c", "command": ["sh", "-c", "login hunter2"]}]},
    a_probe={"containers": [{"name": "c", "livenessProbe": {"exec": {"command": ["hunter2"]}}}]},
    an_annotation_of_another_system={"metadata": {"annotations": {"vault.hashicorp.com/secret": "hunter2"}}},
    the_last_applied_configuration={
        "metadata": {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": '{"x": "hunter2"}'}}
    },
    managed_fields={"metadata": {"managedFields": [{"manager": "hunter2"}]}},
    a_field_of_that_name={"spec": {"password": "hunter2"}},
    the_data_of_a_secret={"kind": "Secret", "data": {"k": "hunter2"}, "stringData": {"k": "hunter2"}},
    a_message={"status": {"conditions": [{"message": "GET https://b/k?X-Amz-Signature=hunter2"}]}},
    a_key={"spec": {"nodeSelector": {"token=hunter2": "x"}}},
    the_path_of_the_webhook={"clientConfig": {"service": {"name": "s", "path": "/mutate/hunter2"}}},
    the_url_of_a_webhook={"clientConfig": {"url": "https://hunter2@x/"}},
    an_event={"kind": "Event", "message": "login --password hunter2 failed"},
)
def test_a_credential_in_an_object_is_removed(item: dict[str, object]) -> None:
    assert "hunter2" not in json.dumps(redact_object(item))


def test_what_finds_a_fault_stays_in_an_object() -> None:
    container = {"name": "c", "image": "i", "env": [{"name": "STOKER_PEERS", "value": "Auto"}]}
    item = {
        "metadata": {"name": "n", "annotations": {"stoker.dev/datasets": "a:/a"}},
        "spec": {
            "credentials": {"secretRef": {"name": "s3-keys"}},
            "containers": [container],
            "serviceAccountName": "x",
        },
    }
    assert redact_object(item) == item


@cases(
    "part",
    dots="a.",
    dashes="-",
    words="token",
    tokens="eyJ",
    urls="https://",
    paths="A1b/",
    queries="?a=",
    pem="-----BEGIN A-----",
)
def test_a_hostile_text_takes_linear_time(part: str) -> None:
    began = time.process_time()
    redact(part * 20_000)
    assert time.process_time() - began < 5
