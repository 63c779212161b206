"""Values that the chart refuses, with a message that names the value."""

from typing import Any

import pytest

from tests.support.chart import refusal

HTTPS = {"endpoint": "https://E", "bucket": "abc"}
NFS = {"path": "/nfs", "namespaces": ["a"]}


@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"operator": {"replcas": 3}}, "replcas"),
        ({"kubeletDir": "var/lib/kubelet"}, "kubeletDir"),
        ({"sidecar": {"cacheDirs": []}}, "cacheDirs"),
        ({"sidecar": {"cacheDirs": [{"medium": "Memory"}]}}, "cacheDirs"),
        ({"sidecar": {"cacheDirs": None}}, "sidecar.cacheDirs is empty"),
        ({"sidecar": {"cacheDirs": ["/a", "/a"]}}, "cacheDirs"),
        ({"sidecar": {"floor": {"bytes": "100%"}}}, "floor"),
        ({"sidecar": {"floor": {"inodes": "many"}}}, "floor"),
        ({"sidecar": {"cacheDirs": ["/a/b", "/a"]}}, "/a/b lies in /a"),
        ({"sidecar": {"cacheDirs": ["/a/../b"]}}, "/a/../b has '..' in it"),
        ({"sidecar": {"cacheDirs": ["/var/lib/stoker"]}}, "/var/lib/stoker is used for something else"),
        ({"sidecar": {"cacheDirs": ["/var/lib/stoker/state/x"]}}, "/var/lib/stoker/state/x is used for something else"),
        ({"sidecar": {"cacheDirs": ["/nfs"], "hostFolders": [NFS]}}, "/nfs is used for something else"),
        ({"sidecar": {"hostFolders": ["/nfs"]}}, "hostFolders"),
        ({"sidecar": {"hostFolders": [{"path": "/nfs"}]}}, "hostFolders"),
        ({"sidecar": {"hostFolders": [NFS | {"namespaces": []}]}}, "hostFolders"),
        ({"sidecar": {"hostFolders": [NFS, NFS | {"namespaces": ["b"]}]}}, "names /nfs twice"),
        ({"sidecar": {"ambientCredentials": {"namespaces": ["a,b"]}}}, "ambientCredentials"),
        ({"sidecar": {"endpoints": {"allow": ["localhost"]}}}, "allow"),
        ({"sidecar": {"fetch": {"workers": "auto"}}}, "workers"),
        ({"sidecar": {"overlay": "On"}}, "overlay"),
        ({"sidecar": {"peers": {"uploads": -1}}}, "uploads"),
        ({"sidecar": {"peers": {"bytesPerSecond": "fast"}}}, "bytesPerSecond"),
        *(({"sidecar": {"peers": {"rackLabel": label}}}, "rackLabel") for label in ("a rack", "-rack", "x.io/", "/r")),
        ({"sidecar": {"peers": {"mode": "On"}}}, "mode"),
        ({"sidecar": {"fetch": {"lastFiles": "On"}}}, "lastFiles"),
        ({"sidecar": {"fetch": {"lastFiles": True}}}, "lastFiles"),
        ({"origins": {"price": {"perGB": "0.09"}}}, "perGB"),
        ({"origins": {"price": {"perGB": -1}}}, "perGB"),
        ({"origins": {"price": {"perGiB": 1}}}, "perGiB"),
        ({"origins": {"caps": [{"bucket": "archive", "price": {"perThousandRequests": -1}}]}}, "perThousandRequests"),
        ({"origins": {"caps": [{"bucket": "archive", "bytesPerSecond": "fast"}]}}, "bytesPerSecond"),
        ({"origins": {"total": {"bytesPerSecond": "0"}}}, "bytesPerSecond"),
        ({"origins": {"total": {"bytesPerSecond": "0.0Gi"}}}, "bytesPerSecond"),
        ({"origins": {"caps": [{"bucket": "archive", "bytesPerSecond": "500"}]}}, "bytesPerSecond"),
        ({"origins": {"caps": [{"bucket": "abc"}, {"bucket": "abc"}]}}, "origins.caps names s3://abc twice"),
        ({"origins": {"caps": [HTTPS, HTTPS | {"endpoint": "https://e:443/"}]}}, "names https://e/abc twice"),
        ({"origins": {"caps": [{"endpoint": "http://e:80"}, {"endpoint": "http://e"}]}}, "names http://e twice"),
        ({"origins": {"caps": [{}, HTTPS, {"price": {"perGB": 1}}]}}, "origins.caps names s3:// twice"),
        ({"sidecar": {"observe": {"mode": "On"}}}, "observe"),
        ({"sidecar": {"observe": {"cpu": "5%"}}}, "cpu"),
        ({"sidecar": {"plugins": ["No Name"]}}, "plugins"),
        ({"sidecar": {"orderPlugins": ["plugin:mine"]}}, "orderPlugins"),
        ({"sidecar": {"hostPID": "yes"}}, "hostPID"),
        ({"webhook": {"failurePolicy": "fail"}}, "failurePolicy"),
        ({"logLevel": "loud"}, "logLevel"),
        ({"logging": {"format": "xml"}}, "format"),
        ({"tracing": {"endpoint": "collector:4318"}}, "endpoint"),
    ],
)
def test_a_wrong_value_is_refused_by_name(values: dict[str, Any], word: str) -> None:
    assert word in refusal(values)
