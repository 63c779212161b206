"""The error tree of the sidecar: each failure has a reason of the API, a sentence, and whether waiting can help."""

# ruff: noqa: N818 -- the names say what happened, as the API's reasons do; an Error suffix would add nothing
import errno
from enum import StrEnum

from stoker_api.names import Reason


class SidecarError(Exception):
    """Base of all. ``temporary``: the same action may work later without anyone changing anything.

    ``retry_after``: seconds for which the other side asked to be left alone.
    """

    reason: Reason = Reason.INTERNAL_ERROR
    temporary: bool = False
    errno: int = errno.EIO  # what a reader in a pod sees

    def __init__(
        self, message: str, *, reason: Reason | None = None, temporary: bool | None = None, retry_after: float = 0.0
    ) -> None:
        super().__init__(message)
        self.message = message
        self.retry_after = retry_after
        self.reason = reason if reason is not None else type(self).reason
        self.temporary = temporary if temporary is not None else type(self).temporary


class InternalError(SidecarError):
    """A bug, caught at the boundary of one dataset or connection so that the others go on."""

    temporary = True


class ProtocolError(SidecarError):
    """A line on a local socket that is not a request or reply; ends that connection."""


class SourceError(SidecarError):
    """The source cannot be read."""


class InvalidSource(SourceError):
    """The source cannot be asked at all: a scheme, bucket or pattern that makes no sense."""

    reason = Reason.INVALID_SPEC


class AccessDenied(SourceError):
    """The identity is known and may not."""

    reason = Reason.ACCESS_DENIED


class EndpointNotAllowed(SourceError):
    """The endpoint's address is one that no Dataset may have asked."""

    reason = Reason.ENDPOINT_NOT_ALLOWED


class InvalidCredentials(SourceError):
    """The identity itself is refused: unknown key, wrong signature, expired token."""

    reason = Reason.INVALID_CREDENTIALS


class BucketNotFound(SourceError):
    """There is no such bucket."""

    reason = Reason.BUCKET_NOT_FOUND


class FolderNotFound(SourceError):
    """A file:// source that this node does not see."""

    reason = Reason.FOLDER_NOT_FOUND


class EmptySource(SourceError):
    """Nothing below the prefix that can be a file."""

    reason = Reason.EMPTY_SOURCE


class NoMatch(SourceError):
    """include and exclude leave nothing."""

    reason = Reason.NO_MATCH


class SourceTooLarge(SourceError):
    """More objects or bytes than a listing takes, or a listing that does not end."""

    reason = Reason.SOURCE_TOO_LARGE


class EndpointUnreachable(SourceError):
    """No answer, or half of one: name, route, refused or broken connection, TLS, timeout."""

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
    """The object no longer is the one that was listed."""

    reason = Reason.SOURCE_CHANGED
    errno = errno.ESTALE


class ObjectGone(SourceError):
    """The object was deleted after the listing."""

    reason = Reason.OBJECT_GONE
    errno = errno.ENOENT


class CorruptBody(SourceError):
    """Length or checksum of the body is not what was promised."""

    reason = Reason.CORRUPT_BODY
    temporary = True


class CacheError(SidecarError):
    """Something is wrong with this node's cache, not with the source."""


class ManifestInvalid(CacheError):
    """A manifest file that is damaged or is not the version that it claims to be."""

    reason = Reason.MANIFEST_UNAVAILABLE


class PathsTakeTooLong(CacheError):
    """Patterns of warm.paths that would keep the node busy for too long."""

    reason = Reason.INVALID_SPEC


class WarmListInvalid(CacheError):
    """A file of the version that should say what is warmed, and cannot."""

    reason = Reason.WARM_LIST_INVALID


class ManifestUnavailable(CacheError):
    """No node gave the manifest."""

    reason = Reason.MANIFEST_UNAVAILABLE
    temporary = True


class NotConfigured(CacheError):
    """A dataset or version that this node was not given; or not yet, where a restarted fetcher waits for the agent."""

    temporary = True
    errno = errno.EAGAIN


class NotYetConfigured(NotConfigured):
    """A dataset that the agent has not told the fetcher about since the fetcher started: ask again."""

    temporary = True
    errno = errno.EAGAIN


class InUse(CacheError):
    """Refused, since pods read it."""

    reason = Reason.IN_USE
    temporary = True
    errno = errno.EBUSY


class NotWanted(CacheError):
    """Readahead that gave up its place in the queue before it was asked for; nobody waits for it."""


class DiskFull(CacheError):
    """The cache disk has no room."""

    reason = Reason.DISK_FULL
    temporary = True
    errno = errno.ENOSPC


class CacheDiskFailed(CacheError):
    """The cache disk answers with errors."""

    reason = Reason.CACHE_DISK_FAILED
    temporary = True


class VolumeCode(StrEnum):
    """Outcomes of a volume request, named like gRPC's status codes, which the kubelet acts upon."""

    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    NOT_FOUND = "NOT_FOUND"
    ALREADY_EXISTS = "ALREADY_EXISTS"  # the target holds another dataset
    PERMISSION_DENIED = "PERMISSION_DENIED"
    ABORTED = "ABORTED"  # an unpublish overtook the call
    UNAVAILABLE = "UNAVAILABLE"  # not yet: the kubelet asks again
    INTERNAL = "INTERNAL"  # a mount failed


class VolumeError(SidecarError):
    """A volume request of the kubelet ends with this code and sentence; the sentence becomes an event of the pod."""

    reason = Reason.MOUNT_FAILED

    def __init__(self, code: VolumeCode, message: str) -> None:
        super().__init__(message, temporary=code is VolumeCode.UNAVAILABLE)
        self.code = code


class KeeperUnavailable(SidecarError):
    """The keeper does not answer on its socket, or refuses to serve or release a FUSE file system."""

    reason = Reason.MOUNT_FAILED
    temporary = True


class MountError(SidecarError):
    """A mount, unmount or look at a mount failed. ``errno`` is the system call's."""

    reason = Reason.MOUNT_FAILED

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.errno = code


class ServeError(SidecarError):
    """A FUSE server did not come up, or the keeper was asked for something that it cannot serve."""

    reason = Reason.MOUNT_FAILED


class MountRefused(SidecarError):
    """The commands `stoker mount` or `stoker umount` cannot do what was asked.

    The sentence is all that its user sees.
    """

    reason = Reason.MOUNT_FAILED


class TakeoverFailed(SidecarError):
    """Two keepers could not agree who holds the mounts; the one that raises holds none, and starts anew."""

    temporary = True


class FsError(SidecarError):
    """A call of the file system fails with ``errno``; the message is for the log."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.errno = code


class FetcherUnavailable(SidecarError):
    """The fetcher's socket is not there or its connection broke; the fetcher is started again by the keeper."""

    temporary = True
