"""Serves async methods by gRPC on a unix socket, with logging, metrics and error codes in one place."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.message import Message

from stoker_api import names
from stoker_api.log_lines import log_subject
from stoker_api.meta import cut_to_bytes
from stoker_sidecar.errors import SidecarError, VolumeCode, VolumeError

log = logging.getLogger(__name__)

# (method, gRPC code name, seconds) of every finished call.
Observe = Callable[[str, str, float], None]

# Running calls at a stop may finish a mount; the agent as a whole stops in 5 s.
STOP_SECONDS = 2.0
# Bytes of an error: the limit of the event that the kubelet creates from it.
MOST_ERROR = 1024
_MOST_ID = 200  # bytes of a volume id, a Dataset or a pod in a log line
_STATUS = {code: grpc.StatusCode[code.value] for code in VolumeCode}
# The kubelet and its probes call these every few seconds, so they are not logged.
_QUIET = frozenset({"Probe", "GetPluginInfo", "NodeGetCapabilities", "NodeGetVolumeStats"})


@dataclass(frozen=True)
class Method:
    """A unary method: its request type, and its handler, which may raise a SidecarError."""

    request: type[Message]
    answer: Callable[[Any], Awaitable[Message]]


def handler(service: str, methods: Mapping[str, Method], observe: Observe) -> "grpc.GenericRpcHandler[Any, Any]":
    """Return a handler for the methods of a service; other methods answer UNIMPLEMENTED."""
    return grpc.method_handlers_generic_handler(
        service, {name: _method_handler(name, method, observe) for name, method in methods.items()}
    )


@asynccontextmanager
async def serve(socket: Path, handlers: Sequence["grpc.GenericRpcHandler[Any, Any]"]) -> AsyncIterator[None]:
    """Serve handlers on a unix socket inside the context. The socket of a killed agent is replaced."""
    _make_room(socket)
    server = grpc.aio.server()
    server.add_generic_rpc_handlers(tuple(handlers))
    server.add_insecure_port(f"unix:{socket}")
    await server.start()
    try:
        yield
    finally:
        await server.stop(STOP_SECONDS)
        _make_room(socket)


def _method_handler(name: str, method: Method, observe: Observe) -> "grpc.RpcMethodHandler[Any, Any]":
    async def call(request: Message, context: "grpc.aio.ServicerContext[Any, Any]") -> Message:
        with log_subject(**_log_fields(request)):
            return await answer(request, context)

    async def answer(request: Message, context: "grpc.aio.ServicerContext[Any, Any]") -> Message:
        started = time.monotonic()
        try:
            response = await method.answer(request)
        except asyncio.CancelledError:
            _finish(name, request, "CANCELLED", time.monotonic() - started, observe, "the caller hung up")
            raise
        except SidecarError as error:
            status, sentence = _status_of(error), cut_to_bytes(error.message, MOST_ERROR)
            _finish(name, request, status.name, time.monotonic() - started, observe, sentence)
            await context.abort(status, sentence)
        _finish(name, request, "OK", time.monotonic() - started, observe)
        return response

    return grpc.unary_unary_rpc_method_handler(
        call, request_deserializer=method.request.FromString, response_serializer=_serialize
    )


def _serialize(message: Message) -> bytes:
    return message.SerializeToString()


def _status_of(error: SidecarError) -> grpc.StatusCode:
    return _STATUS[error.code] if isinstance(error, VolumeError) else grpc.StatusCode.INTERNAL


def _finish(name: str, request: Message, code: str, seconds: float, observe: Observe, trouble: str = "") -> None:
    observe(name, code, seconds)
    level = logging.DEBUG if name in _QUIET and code == "OK" else logging.INFO if code == "OK" else logging.WARNING
    about = subject(request)
    log.log(level, "%s%s %s in %.3f s%s", name, about, code, seconds, f": {trouble}" if trouble else "")


def _log_fields(request: Message) -> dict[str, str]:
    """Return a request's fields of JSON log lines."""
    context: Mapping[str, str] = getattr(request, "volume_context", {})
    return {
        "uid": context.get(names.CSI_POD_UID, "") or _pod_uid(getattr(request, "target_path", "")),
        "namespace": context.get(names.CSI_POD_NAMESPACE, ""),
        "pod": context.get(names.CSI_POD_NAME, ""),
        "dataset": context.get(names.CSI_ATTRIBUTE_DATASET, ""),
    }


def subject(request: Message) -> str:
    """Return a request's volume, Dataset and pod for a log line, each of bounded length; empty if it has none."""
    context: Mapping[str, str] = getattr(request, "volume_context", {})
    pod = _joined(context.get(names.CSI_POD_NAMESPACE, ""), context.get(names.CSI_POD_NAME, ""))
    namespace = context.get(names.CSI_ATTRIBUTE_DATASET_NAMESPACE) or context.get(names.CSI_POD_NAMESPACE, "")
    known = {
        "volume": getattr(request, "volume_id", ""),
        "dataset": _joined(namespace, context.get(names.CSI_ATTRIBUTE_DATASET, "")),
        "pod": pod or _pod_uid(getattr(request, "target_path", "")),
    }
    return "".join(f" {name}={cut_to_bytes(value, _MOST_ID)}" for name, value in known.items() if value)


def _joined(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace and name else name


def _pod_uid(target: str) -> str:
    """Return the pod's UID in a kubelet target path, the only pod data in an unpublish request."""
    return target.partition("/pods/")[2].partition("/")[0]


def _make_room(socket: Path) -> None:
    socket.parent.mkdir(parents=True, exist_ok=True)
    socket.unlink(missing_ok=True)
