"""Serves plain async methods by gRPC on a unix socket: one place for logging, counting and error codes."""

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

from stoker_sidecar.errors import SidecarError, VolumeCode, VolumeError

log = logging.getLogger(__name__)

# (method, gRPC code name, seconds) of every call that ended.
Observe = Callable[[str, str, float], None]

# Calls that still run at a stop may finish a mount; the agent as a whole stops in 5 s.
STOP_SECONDS = 2.0
_STATUS = {code: grpc.StatusCode[code.value] for code in VolumeCode}
# The kubelet and its probes ask these every few seconds and nobody wants to read it.
_QUIET = frozenset({"Probe", "GetPluginInfo", "NodeGetCapabilities", "NodeGetVolumeStats"})


@dataclass(frozen=True)
class Method:
    """A unary method: the message it takes, and what answers it or raises a SidecarError."""

    request: type[Message]
    answer: Callable[[Any], Awaitable[Message]]


def handler(service: str, methods: Mapping[str, Method], observe: Observe) -> "grpc.GenericRpcHandler[Any, Any]":
    """All methods of a service; others answer UNIMPLEMENTED."""
    return grpc.method_handlers_generic_handler(
        service, {name: _method_handler(name, method, observe) for name, method in methods.items()}
    )


@asynccontextmanager
async def serve(socket: Path, handlers: Sequence["grpc.GenericRpcHandler[Any, Any]"]) -> AsyncIterator[None]:
    """Serve handlers on a unix socket while inside; a socket that a killed agent left behind is replaced."""
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
        started = time.monotonic()
        try:
            response = await method.answer(request)
        except asyncio.CancelledError:
            _finish(name, request, "CANCELLED", time.monotonic() - started, observe, "the caller hung up")
            raise
        except SidecarError as error:
            status = _status_of(error)
            _finish(name, request, status.name, time.monotonic() - started, observe, error.message)
            await context.abort(status, error.message)
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
    volume = getattr(request, "volume_id", "")
    log.log(level, "%s volume=%s %s in %.3f s%s", name, volume, code, seconds, f": {trouble}" if trouble else "")


def _make_room(socket: Path) -> None:
    socket.parent.mkdir(parents=True, exist_ok=True)
    socket.unlink(missing_ok=True)
