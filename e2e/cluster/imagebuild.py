"""Builds an image from a Dockerfile without a registry: bases by debootstrap, stages by buildah."""

import fcntl
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from e2e.cluster import machine
from e2e.cluster.dockerfile import Base, bases, copied_paths, with_arguments
from e2e.cluster.errors import UsageError
from e2e.cluster.images import digest, first_tag
from e2e.cluster.machinetrust import machine_trust, pip_settings, stage
from e2e.cluster.paths import cache_folder
from e2e.cluster.processes import run

# An empty folder in every Debian image: a mount on it during the build leaves no trace.
MACHINE_FOLDER = "/mnt"
KEPT_STEPS = 150  # about ten builds of a Dockerfile with two stages
# Files that "slim" also leaves out of the official Debian images. Licenses stay.
SLIM_EXCLUDES = ("usr/share/doc", "usr/share/man", "usr/share/info", "usr/share/locale", "usr/share/groff")
SLIM_DPKG = "".join(f"path-exclude /{folder}/*\n" for folder in SLIM_EXCLUDES) + (
    "path-include /usr/share/doc/*/copyright\n"
)


@dataclass(frozen=True)
class Request:
    """The arguments of `image build`. All paths are absolute.

    ``stands_on`` is the archive of a locally built image that the Dockerfile uses as its base.
    """

    dockerfile: Path
    tag: str
    out: Path
    context: Path
    build_args: Mapping[str, str] = field(default_factory=dict)
    stands_on: Path | None = None


def context_files(context: Path, patterns: Iterable[str]) -> list[Path]:
    """Return the files that match the patterns of COPY and are not ignored by git. Raises CommandFailedError."""
    known = run("git", "-C", context, "ls-files", "-z", "-co", "--exclude-standard", check=False).split("\0")
    everything = [context / name for name in known if name] or [path for path in context.rglob("*") if path.is_file()]
    chosen: set[Path] = set()
    for pattern in patterns:
        roots = set(context.glob(pattern.strip("/"))) if pattern.strip("./") else {context}
        chosen |= {path for path in everything if path.is_file() and roots & {path, *path.parents}}
    return sorted(chosen)


def inputs_hash(request: Request, files: Iterable[Path]) -> str:
    """Return the digest of all inputs of the image. It shows whether an archive is current."""
    summed = hashlib.sha256(repr((request.tag, sorted(request.build_args.items()))).encode())
    if request.stands_on is not None:
        summed.update(digest(request.stands_on).encode())
    for file in (request.dockerfile, *files):
        mode = file.stat().st_mode & 0o777
        summed.update(
            f"{file.name if file == request.dockerfile else file.relative_to(request.context)} {mode} ".encode()
        )
        summed.update(digest(file).encode())
    return summed.hexdigest()


class ImageBuilder:
    """Builds images in a separate buildah store. Raises CommandFailedError with the output of the failed tool."""

    def __init__(self, say: Callable[[str], None] = lambda line: None, cache: Path | None = None) -> None:
        self._cache = (cache or cache_folder()) / "images"
        self._say = say

    def build(self, request: Request) -> bool:
        """Write the image as a docker-archive to `request.out`. Return False if that was already current.

        Raises UsageError if the Dockerfile cannot be built here.
        """
        text = request.dockerfile.read_text()
        wanted = inputs_hash(request, context_files(request.context, copied_paths(text)))
        stamp = request.out.with_name(request.out.name + ".inputs")
        if self._is_current(request.out, stamp, wanted):
            return False
        started = time.monotonic()
        machine.install(machine.PACKAGES | machine.IMAGE_PACKAGES)
        with self._locked():
            if self._is_current(request.out, stamp, wanted):  # by another process that held the lock
                return False
            try:
                for base in self._bases(request, text):
                    self._make_base(base)
                self._make_image(request, text)
                self._export(request)
            finally:
                self._tidy()
            stamp.write_text(wanted)
        self._say(f"built {request.tag} into {request.out} in {time.monotonic() - started:.0f} s")
        return True

    def _is_current(self, archive: Path, stamp: Path, wanted: str) -> bool:
        if not (archive.exists() and stamp.exists() and stamp.read_text() == wanted):
            return False
        self._say(f"{archive} is current")
        return True

    def _bases(self, request: Request, text: str) -> list[Base]:
        built = [] if request.stands_on is None else [self._bring(request.stands_on)]
        try:
            return bases(text, request.build_args, built)
        except ValueError as error:
            raise UsageError(str(error)) from error

    def _bring(self, archive: Path) -> str:
        """Load a locally built image into the store, which may have been emptied. Return its tag."""
        tag = first_tag(archive)
        if not self._buildah("images", "--quiet", "--filter", f"reference={tag}").strip():
            self._buildah("pull", "--quiet", f"docker-archive:{archive}")
        return tag

    def _make_base(self, base: Base) -> None:
        """Make a Debian base with debootstrap, unless the store has it."""
        if self._buildah("images", "--quiet", "--filter", f"reference={base.image}").strip():
            return
        self._say(f"bootstrapping {base.image}")
        with tempfile.TemporaryDirectory(dir=self._cache) as folder:
            root = Path(folder) / "root"
            mirrors = _debian_sources(base.suite)
            dated = {**os.environ, "SOURCE_DATE_EPOCH": "0"}  # /etc/shadow has the day of the build
            run("debootstrap", "--variant=minbase", base.suite, root, mirrors[0].split()[1], env=dated)
            (root / "etc/apt/sources.list").write_text("\n".join(mirrors) + "\n")
            _clean(root, base)
            container = self._buildah("from", "scratch").strip()
            self._buildah("copy", "--quiet", container, str(root), "/")
            self._buildah("config", "--cmd", "bash", container)
            self._buildah("commit", "--quiet", "--rm", container, f"docker.io/library/{base.image}")

    def _make_image(self, request: Request, text: str) -> None:
        with tempfile.TemporaryDirectory(prefix="machine.", dir=self._cache) as folder:
            arguments = stage(machine_trust(os.environ), pip_settings(), Path(folder), MACHINE_FOLDER)
            file = Path(folder) / "Dockerfile"
            file.write_text(with_arguments(text, arguments))
            given = (arguments | dict(request.build_args)).items()
            words = [f"--build-arg={name}={value}" for name, value in given]
            options = ["--pull-never", "--layers", "--network=host", f"--volume={folder}:{MACHINE_FOLDER}:ro"]
            self._buildah("bud", *options, *words, f"--file={file}", f"--tag={request.tag}", str(request.context))

    def _export(self, request: Request) -> None:
        draft = request.out.with_name(request.out.name + ".new")
        draft.unlink(missing_ok=True)  # buildah appends to an existing archive
        request.out.parent.mkdir(parents=True, exist_ok=True)
        self._buildah("push", "--quiet", request.tag, f"docker-archive:{draft}:{request.tag}")
        draft.replace(request.out)

    def _tidy(self) -> None:
        """Unmount the remains of a failed build. Drop old steps when most of them come from outdated builds."""
        self._buildah("rm", "--all", check=False)
        if len(self._buildah("images", "--all", "--quiet").split()) > KEPT_STEPS:
            self._buildah("rmi", "--prune", "--force", check=False)
        run("umount", str(self._cache / "store" / "overlay"), check=False)  # a bind mount that buildah does not remove

    def _buildah(self, *words: str, check: bool = True) -> str:
        store = ["--root", str(self._cache / "store"), "--runroot", str(self._cache / "run")]
        environment = {**os.environ, "BUILDAH_ISOLATION": "chroot"}
        return run("buildah", *store, *words, env=environment, check=check)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self._cache.mkdir(parents=True, exist_ok=True)
        with (self._cache / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _debian_sources(suite: str) -> list[str]:
    """Return apt's lines for `suite`, from the mirrors of this machine. Raises UsageError without mirrors."""
    known = run("apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE)").splitlines()
    lines = source_lines(suite, known)
    if not lines:
        raise UsageError("This machine's apt knows no Debian mirror; run apt-get update and look at its sources.")
    return lines


def source_lines(suite: str, known: Iterable[str]) -> list[str]:
    """Return the lines of a sources.list for `suite`, from lines "URI RELEASE" of apt, main archive first."""
    pairs = {tuple(line.split()[:2]) for line in known if "debian" in line}
    security = sorted({uri for uri, release in pairs if release.endswith("-security")})
    main = sorted({uri for uri, release in pairs if "-" not in release} - set(security))
    if not main:
        return []
    lines = [f"deb {main[0]} {suite} main", f"deb {main[0]} {suite}-updates main"]
    return lines + [f"deb {uri} {suite}-security main" for uri in security[:1]]


def _clean(root: Path, base: Base) -> None:
    """Remove files that an image does not need: package lists, caches and, for slim, documentation."""
    for folder in ("var/lib/apt/lists", "var/cache/apt", "var/log"):
        shutil.rmtree(root / folder, ignore_errors=True)
        (root / folder).mkdir(parents=True)
    if not base.slim:
        return
    (root / "etc/dpkg/dpkg.cfg.d/slim").write_text(SLIM_DPKG)
    for name in SLIM_EXCLUDES:
        for path in (root / name).rglob("*"):
            if (path.is_file() or path.is_symlink()) and path.name != "copyright":
                path.unlink()
