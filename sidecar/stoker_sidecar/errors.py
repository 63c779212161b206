"""The error tree of the sidecar. Each error has a reason of the API, a message, and whether a retry can help."""

# ruff: noqa: N818 -- the names say what happened, as the API's reasons do; an Error suffix would add nothing
import errno
from enum import StrEnum

from stoker_api.names import Reason


class SidecarError(Exception):
    """Base of all errors. ``temporary``: a later retry may succeed without any change.

    ``retry_after``: seconds that the server asked to wait before a retry.
    """

    reason: Reason = Reason.INTERNAL_ERROR
    temporary: bool = False
    errno: int = errno.EIO  # the errno of a pod's read

    def __init__(
        self, message: str, *, reason: Reason | None = None, temporary: bool | None = None, retry_after: float = 0.0
    ) -> None:
        super().__init__(message)
        self.message = message
        self.retry_after = retry_after
        self.reason = reason if reason is not None else type(self).reason
        self.temporary = temporary if temporary is not None else type(self).temporary


def copy_of(error: SidecarError) -> SidecarError:
    """Return a new exception with the same message. An exception that is raised repeatedly keeps all its frames."""
    return type(error)(error.message, reason=error.reason, temporary=error.temporary, retry_after=error.retry_after)


class InternalError(SidecarError):
    """A bug, caught at the boundary of one dataset or connection so that it affects no other."""

    temporary = True


class ProtocolError(SidecarError):
    """A line on a local socket that is not a request or reply; ends that connection."""


class SourceError(SidecarError):
    """The source cannot be read."""


class InvalidSource(SourceError):
    """The source cannot be requested: an invalid scheme, bucket or pattern."""

    reason = Reason.INVALID_SPEC


class AccessDenied(SourceError):
    """The identity is known but lacks permission."""

    reason = Reason.ACCESS_DENIED


class DeniedEarlier(AccessDenied):
    """The source denied other objects, so this one was not requested. ``retry_after``: seconds until it may be."""


class EndpointNotAllowed(SourceError):
    """The endpoint has an address that Datasets may not use."""

    reason = Reason.ENDPOINT_NOT_ALLOWED


class InvalidCredentials(SourceError):
    """The identity itself is refused: unknown key, wrong signature, expired token."""

    reason = Reason.INVALID_CREDENTIALS


class BucketNotFound(SourceError):
    """The bucket does not exist."""

    reason = Reason.BUCKET_NOT_FOUND


class FolderNotFound(SourceError):
    """The folder of a file:// source does not exist on this node."""

    reason = Reason.FOLDER_NOT_FOUND


class EmptySource(SourceError):
    """The prefix has no objects that can be files."""

    reason = Reason.EMPTY_SOURCE


class NoMatch(SourceError):
    """No object matches include and exclude."""

    reason = Reason.NO_MATCH


class SourceTooLarge(SourceError):
    """The listing has too many objects or bytes, or does not end."""

    reason = Reason.SOURCE_TOO_LARGE


class EndpointUnreachable(SourceError):
    """No response, or an incomplete one: name, route, refused or broken connection, TLS, timeout."""

    reason = Reason.ENDPOINT_UNREACHABLE
    temporary = True


class Throttled(SourceError):
    """The server asks for fewer requests."""

    reason = Reason.THROTTLED
    temporary = True


class ServerError(SourceError):
    """The server failed."""

    reason = Reason.SERVER_ERROR
    temporary = True


class SourceChanged(SourceError):
    """The object changed after the listing."""

    reason = Reason.SOURCE_CHANGED
    errno = errno.ESTALE


class ObjectGone(SourceError):
    """The object was deleted after the listing."""

    reason = Reason.OBJECT_GONE
    errno = errno.ENOENT


class CorruptBody(SourceError):
    """The length or checksum of the body is wrong."""

    reason = Reason.CORRUPT_BODY
    temporary = True


class CacheError(SidecarError):
    """An error of this node's cache, not of the source."""


class ManifestInvalid(CacheError):
    """A manifest file is damaged or does not match its version."""

    reason = Reason.MANIFEST_UNAVAILABLE


class PathsTakeTooLong(CacheError):
    """Patterns of warm.paths that would keep the node busy for too long."""

    reason = Reason.INVALID_SPEC


class WarmListInvalid(CacheError):
    """A file of the version that should list the paths to warm is invalid."""

    reason = Reason.WARM_LIST_INVALID


class ManifestUnavailable(CacheError):
    """No node provided the manifest."""

    reason = Reason.MANIFEST_UNAVAILABLE
    temporary = True


class NotConfigured(CacheError):
    """This node has no such dataset or version, or its restarted fetcher still waits for the agent."""

    temporary = True
    errno = errno.EAGAIN


class NotYetConfigured(NotConfigured):
    """The fetcher restarted and has no configuration of the dataset from the agent: retry."""

    temporary = True
    errno = errno.EAGAIN


class InUse(CacheError):
    """Refused because pods read the dataset."""

    reason = Reason.IN_USE
    temporary = True
    errno = errno.EBUSY


class NotWanted(CacheError):
    """A readahead request left the queue before it was sent. No reader waits for it."""


class DiskFull(CacheError):
    """The cache disk is full."""

    reason = Reason.DISK_FULL
    temporary = True
    errno = errno.ENOSPC


class CacheDiskFailed(CacheError):
    """The cache disk returns errors."""

    reason = Reason.CACHE_DISK_FAILED
    temporary = True


class VolumeCode(StrEnum):
    """Outcomes of a volume request, named like the gRPC status codes that the kubelet handles."""

    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    NOT_FOUND = "NOT_FOUND"
    ALREADY_EXISTS = "ALREADY_EXISTS"  # the target holds another dataset
    PERMISSION_DENIED = "PERMISSION_DENIED"
    ABORTED = "ABORTED"  # an unpublish overtook the call
    UNAVAILABLE = "UNAVAILABLE"  # the kubelet retries
    INTERNAL = "INTERNAL"  # a mount failed


class VolumeError(SidecarError):
    """A volume request of the kubelet fails with this code and message. The message becomes an event of the pod."""

    reason = Reason.MOUNT_FAILED

    def __init__(self, code: VolumeCode, message: str) -> None:
        super().__init__(message, temporary=code is VolumeCode.UNAVAILABLE)
        self.code = code


class KeeperUnavailable(SidecarError):
    """The keeper does not answer on its socket, or refuses to serve or release a FUSE file system."""

    reason = Reason.MOUNT_FAILED
    temporary = True


class MountError(SidecarError):
    """A mount, an unmount or an inspection of a mount failed. ``errno`` is that of the system call."""

    reason = Reason.MOUNT_FAILED

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.errno = code


class ServeError(SidecarError):
    """A FUSE server did not start, or the keeper cannot serve the request."""

    reason = Reason.MOUNT_FAILED


class MountRefused(SidecarError):
    """A command `stoker mount` or `stoker umount` failed.

    The user sees the message only.
    """

    reason = Reason.MOUNT_FAILED


class TakeoverFailed(SidecarError):
    """Two keepers failed to agree on the owner of the mounts. The one that raises owns none and restarts."""

    temporary = True


class FsError(SidecarError):
    """A call of the file system fails with ``errno``; the message is for the log."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.errno = code


class ReaderUnavailable(SidecarError):
    """No reader answers now. The keeper starts one for each request."""

    temporary = True


class ReadRefused(SidecarError):
    """A reader cannot execute the request, now or later. The message has the reason."""


class FetcherUnavailable(SidecarError):
    """The fetcher's socket is missing or its connection broke. The keeper restarts the fetcher."""

    temporary = True
