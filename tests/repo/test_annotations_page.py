"""The page of annotations and labels names every key of the code, and no other."""

import re
from pathlib import Path

from stoker_api import names

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference/annotations.md"
KEY = rf"[\w.]*{re.escape(names.GROUP)}/[\w-]+"


def test_the_page_has_every_key_and_no_other() -> None:
    constants = (value for name, value in vars(names).items() if name.isupper() and isinstance(value, str))
    keys = {value for value in constants if re.fullmatch(KEY, value)} - {names.API_VERSION}
    assert set(re.findall(rf"`({KEY})`", PAGE.read_text(encoding="utf-8"))) == keys
