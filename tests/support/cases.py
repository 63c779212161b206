"""Tables of cases: each row that needs one has the name of its behavior."""

import pytest


def cases(columns: str, /, *rows: object, **named: object) -> pytest.MarkDecorator:
    """Return ``pytest.mark.parametrize`` with one case per row. The id of a keyword's row is its name.

    A row is a tuple with a value per column, or the value itself if there is one column.
    """
    return pytest.mark.parametrize(columns, [*rows, *named.values()], ids=[*[None] * len(rows), *named])
