"""The images of the stories, by their tags; ``python -m e2e.support.built`` builds them before a story asks."""

import shutil
import tempfile
from pathlib import Path

from e2e.cluster.imagebuild import ImageBuilder, Request
from e2e.cluster.paths import cache_folder
from e2e.cluster.processes import run

ROOT = Path(__file__).resolve().parents[2]
IMAGE = "docker.io/library/stoker:e2e"
DIGITS_IMAGE = "docker.io/library/stoker-demo-digits:demo"
# Stoker's image with the example of an order plug-in in it.
ORDER_PLUGIN_IMAGE = "docker.io/library/stoker-numpy-legacy:e2e"
CONTEXTS = {IMAGE: ROOT, DIGITS_IMAGE: ROOT / "examples" / "digits"}


def build_image(tag: str) -> Path:
    """Build an image when something changed, and return its docker-archive. Raises CommandFailedError."""
    context, archive = CONTEXTS[tag], _archive(tag)
    ImageBuilder(print).build(Request(context / "Dockerfile", tag, archive, context))
    return archive


def build_order_plugin_image() -> Path:
    """Build Stoker's image with the example of an order plug-in (docs/PLUGINS.md). Raises CommandFailedError."""
    example, archive = ROOT / "examples" / "order_plugin", _archive(ORDER_PLUGIN_IMAGE)
    stoker = build_image(IMAGE)
    with tempfile.TemporaryDirectory() as folder:
        pip = (ROOT / ".venv/bin/python", "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-index")
        run(*pip, "--no-build-isolation", "-w", folder, example)
        dockerfile = Path(shutil.copy(example / "Dockerfile", folder))
        request = Request(dockerfile, ORDER_PLUGIN_IMAGE, archive, Path(folder), {"STOKER": IMAGE}, stands_on=stoker)
        ImageBuilder(print).build(request)
    return archive


def _archive(tag: str) -> Path:
    archive = cache_folder() / "archives" / (tag.rpartition("/")[2].replace(":", "-") + ".tar")
    archive.parent.mkdir(parents=True, exist_ok=True)
    return archive


if __name__ == "__main__":
    for image in CONTEXTS:
        build_image(image)
