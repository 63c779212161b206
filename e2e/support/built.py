"""The images of the stories. ``python -m e2e.support.built [IMAGE...]`` builds them in advance."""

import shutil
import sys
import tempfile
from pathlib import Path

from e2e.cluster.errors import UsageError
from e2e.cluster.imagebuild import ImageBuilder, Request
from e2e.cluster.paths import cache_folder
from e2e.cluster.processes import run

ROOT = Path(__file__).resolve().parents[2]
IMAGE = "docker.io/library/stoker:e2e"
# The demo's training image: Debian's PyTorch. Examples of workloads run in it.
TRAINING_IMAGE = "docker.io/library/stoker-demo-training:demo"
# The training image with the Trainer of Hugging Face.
TRAINER_IMAGE = "docker.io/library/stoker-trainer:e2e"
# Stoker's image with the example of an order plug-in.
ORDER_PLUGIN_IMAGE = "docker.io/library/stoker-numpy-legacy:e2e"
# The previous release, from and to which the stories upgrade and roll back.
PREVIOUS = "d853cc78"
PREVIOUS_IMAGE = "docker.io/library/stoker:previous"


def build_image() -> Path:
    """Build Stoker's image if its inputs changed. Return its docker-archive. Raises CommandFailedError."""
    archive = _archive(IMAGE)
    ImageBuilder(print).build(Request(ROOT / "Dockerfile", IMAGE, archive, ROOT))
    return archive


def build_training_image() -> Path:
    """Build the demo's training image. Return its docker-archive. Raises CommandFailedError."""
    context, archive = ROOT / "examples" / "photos", _archive(TRAINING_IMAGE)
    ImageBuilder(print).build(Request(context / "Dockerfile", TRAINING_IMAGE, archive, context))
    return archive


def build_trainer_image() -> Path:
    """Build the training image with the Trainer of the tests. Return its docker-archive. Raises CommandFailedError."""
    packages, archive = ROOT / ".venv/trainer/lib/python3.11/site-packages", _archive(TRAINER_IMAGE)
    if not packages.exists():
        raise UsageError("the Trainer is not installed: run tools/install-clients.sh .venv")
    training = build_training_image()
    dockerfile = Path(__file__).with_name("trainer.Dockerfile")
    request = Request(dockerfile, TRAINER_IMAGE, archive, packages, {"TRAINING": TRAINING_IMAGE}, stands_on=training)
    ImageBuilder(print).build(request)
    return archive


def build_order_plugin_image() -> Path:
    """Build Stoker's image with the example of an order plug-in (docs/guides/plugins.md). Raises CommandFailedError."""
    example, archive = ROOT / "examples" / "order_plugin", _archive(ORDER_PLUGIN_IMAGE)
    stoker = build_image()
    with tempfile.TemporaryDirectory() as folder:
        pip = (ROOT / ".venv/bin/python", "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index")
        run(*pip, "--no-build-isolation", "-w", folder, example)
        dockerfile = Path(shutil.copy(example / "Dockerfile", folder))
        request = Request(dockerfile, ORDER_PLUGIN_IMAGE, archive, Path(folder), {"STOKER": IMAGE}, stands_on=stoker)
        ImageBuilder(print).build(request)
    return archive


def previous_release() -> Path:
    """Return a folder with the files of the previous release. Raises UsageError if git does not have it."""
    folder = cache_folder() / "previous" / PREVIOUS
    if folder.exists():
        return folder
    if run("git", "-C", ROOT, "cat-file", "-t", PREVIOUS, check=False).strip() != "commit":
        raise UsageError(f"commit {PREVIOUS} is not in this clone: fetch the full history (git fetch --unshallow)")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as draft:
        run("git", "-C", ROOT, "archive", "-o", Path(draft) / "files.tar", PREVIOUS)
        files = Path(draft) / "files"
        files.mkdir()
        run("tar", "-x", "-C", files, "-f", Path(draft) / "files.tar")
        files.rename(folder)
    return folder


def build_previous_image() -> Path:
    """Build the image of the previous release. Return its docker-archive. Raises CommandFailedError."""
    context, archive = previous_release(), _archive(PREVIOUS_IMAGE)
    ImageBuilder(print).build(Request(context / "Dockerfile", PREVIOUS_IMAGE, archive, context))
    return archive


def _archive(tag: str) -> Path:
    archive = cache_folder() / "archives" / (tag.rpartition("/")[2].replace(":", "-") + ".tar")
    archive.parent.mkdir(parents=True, exist_ok=True)
    return archive


BUILDS = {
    "stoker": build_image,
    "previous": build_previous_image,
    "order-plugin": build_order_plugin_image,
    "training": build_training_image,
    "trainer": build_trainer_image,
}

if __name__ == "__main__":
    for image in sys.argv[1:] or BUILDS:
        BUILDS[image]()
