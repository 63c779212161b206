"""Tables of cases: each row has the name of its behavior."""

import pytest


def cases(columns: str, **rows: object) -> pytest.MarkDecorator:
    """Return ``pytest.mark.parametrize`` with one case per keyword, whose name is the id.

    A row is a tuple with a value per column, or the value itself if there is one column.
    """
    return pytest.mark.parametrize(columns, list(rows.values()), ids=list(rows))
