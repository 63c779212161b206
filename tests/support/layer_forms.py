"""The forms of metadata layers that this machine's kernel can mount, detected as in the agent."""

import tempfile
from functools import cache
from pathlib import Path

import pytest

from stoker_sidecar.volumes.layers.metadata_layer import LayerForm
from stoker_sidecar.volumes.layers.overlay_support import find_form


@cache
def best_form() -> LayerForm:
    """Return the form that an agent would choose here."""
    with tempfile.TemporaryDirectory() as folder:
        return find_form(Path(folder) / "metadata", Path(folder) / "mounts")[0]


def need(form: LayerForm) -> None:
    """Skip a test of images if the kernel mounts none."""
    if form is LayerForm.IMAGE and best_form() is not LayerForm.IMAGE:
        pytest.skip("this kernel mounts no EROFS image from a file (Linux 6.12 does)")
