"""The images of the stories, by their tags; ``python -m e2e.support.built`` builds them before a story asks."""

from pathlib import Path

from e2e.cluster.imagebuild import ImageBuilder, Request
from e2e.cluster.paths import cache_folder

ROOT = Path(__file__).resolve().parents[2]
IMAGE = "docker.io/library/stoker:e2e"
DIGITS_IMAGE = "docker.io/library/stoker-demo-digits:demo"
CONTEXTS = {IMAGE: ROOT, DIGITS_IMAGE: ROOT / "examples" / "digits"}


def build_image(tag: str) -> Path:
    """Build an image when something changed, and return its docker-archive. Raises CommandFailedError."""
    context = CONTEXTS[tag]
    archive = cache_folder() / "archives" / (tag.rpartition("/")[2].replace(":", "-") + ".tar")
    archive.parent.mkdir(parents=True, exist_ok=True)
    ImageBuilder(print).build(Request(context / "Dockerfile", tag, archive, context))
    return archive


if __name__ == "__main__":
    for image in CONTEXTS:
        build_image(image)
