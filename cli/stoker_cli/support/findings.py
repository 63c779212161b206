"""Findings of `stoker doctor`, and the lines and JSON that show them. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from itertools import groupby

from stoker_cli.output import printable

_MOST_LINES = 20  # of one check and level


class FindingLevel(StrEnum):
    """How bad a finding is. FAIL: something does not work. WARN: it works with limits, or was not checked."""

    OK = "OK"
    WARN = "WARN"
    FAIL = "FAIL"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check for one subject, such as a node. ``action``: what to do; empty for OK."""

    level: FindingLevel
    check: str
    subject: str
    message: str
    action: str = ""


def ok(check: str, subject: str, message: str) -> Finding:
    """Return a finding without a problem."""
    return Finding(FindingLevel.OK, check, subject, message)


def warn(check: str, subject: str, message: str, action: str) -> Finding:
    """Return a finding about a limit."""
    return Finding(FindingLevel.WARN, check, subject, message, action)


def fail(check: str, subject: str, message: str, action: str) -> Finding:
    """Return a finding about a fault."""
    return Finding(FindingLevel.FAIL, check, subject, message, action)


def failed(findings: Sequence[Finding]) -> bool:
    """Return True if any finding is a FAIL."""
    return any(finding.level is FindingLevel.FAIL for finding in findings)


def wire(findings: Sequence[Finding]) -> dict[str, object]:
    """Return the findings as JSON."""
    counts = {level.value: sum(each.level is level for each in findings) for level in FindingLevel}
    return {"failed": failed(findings), "counts": counts, "findings": [asdict(each) for each in findings]}


def lines(findings: Sequence[Finding], *, every: bool = False) -> Iterator[str]:
    """Yield a line for each finding. Without ``every``, subjects of a check without a problem share one line."""
    for _, of_check in groupby(findings, key=lambda finding: finding.check):
        yield from _check_lines(tuple(of_check), every=every)
    counts = [f"{sum(each.level is level for each in findings)} {level}" for level in FindingLevel]
    yield f"{', '.join(counts)}."


def _check_lines(findings: Sequence[Finding], *, every: bool) -> Iterator[str]:
    fine = [each for each in findings if each.level is FindingLevel.OK]
    if fine and (every or len(fine) == 1):
        yield from map(_line, fine)
    elif fine:
        yield _line(ok(fine[0].check, "", f"no problem on {len(fine)} of {len(findings)}"))
    for level in (FindingLevel.WARN, FindingLevel.FAIL):
        bad = [each for each in findings if each.level is level]
        yield from map(_line, bad if every else bad[:_MOST_LINES])
        if not every and len(bad) > _MOST_LINES:
            yield f"{level:<4}  {bad[0].check}: and {len(bad) - _MOST_LINES} more. All are in: stoker doctor -o json"


def _line(finding: Finding) -> str:
    about = f"{finding.check} {finding.subject}".rstrip()
    return printable(f"{finding.level:<4}  {about}: {finding.message} {finding.action}".rstrip())
