"""Says in a few lines which files a measured run reached least."""

from typing import Any

SHOWN = 10
# Below this a file's share says nothing.
LEAST_STATEMENTS = 10


def lines(report: dict[str, Any], shown: int = SHOWN) -> list[str]:
    """Return the sum and the ``shown`` least covered files of a report that coverage wrote as JSON."""
    rows = [(path, file["summary"]) for path, file in report["files"].items()]
    rows = [row for row in rows if row[1]["num_statements"] >= LEAST_STATEMENTS]
    rows.sort(key=lambda row: (row[1]["percent_covered"], row[0]))
    total = report["totals"]
    head = (
        f"reached by the unit tests: {total['percent_covered']:.1f} % of {total['num_statements']} statements; least:"
    )
    return ["", head, *(f"{row['percent_covered']:6.1f} %  {path}" for path, row in rows[:shown])]
