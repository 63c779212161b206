"""Generated files equal the output of the current code."""

from pathlib import Path

import pytest

from stoker_api.schema import crds, render
from stoker_tuning.documents.reference import reference
from tools.rooms import PAGE, page

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("folder", ["crds", "charts/stoker/crds"])
@pytest.mark.parametrize(("name", "document"), crds().items())
def test_crds_are_current(folder: str, name: str, document: dict[str, object]) -> None:
    assert (ROOT / folder / name).read_text(encoding="utf-8") == render(document), "stale: run `make crds`"


def test_the_page_on_rules_is_current() -> None:
    assert (ROOT / "docs" / "reference/rules.md").read_text(encoding="utf-8") == reference(), "stale: run `make rules`"


def test_the_page_of_packages_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "stale: run `make rooms`"
