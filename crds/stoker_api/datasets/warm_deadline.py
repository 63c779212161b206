"""The deadline of a warm-up: one time, or a local time of each day."""

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, ConfigDict, Field, JsonValue

from stoker_api.meta import Model, cel_rule
from stoker_api.times import format_time

DAILY_PATTERN = r"^([01][0-9]|2[0-3]):[0-5][0-9]$"
ZONE_PATTERN = r"^[A-Za-z][A-Za-z0-9+_-]*(/[A-Za-z0-9+_-]+)*$"
_DAILY_HINT = "is not a time of day: write for example 08:00"
_TIME_EXAMPLE = "write for example 2026-11-24T08:00:00Z"
_ZONE_HINT = "is not the name of a time zone: write for example Europe/Berlin"


def _checked_daily(text: str) -> str:
    if re.fullmatch(DAILY_PATTERN, text) is None:
        raise ValueError(f"{text!r} {_DAILY_HINT}")
    return text


def _checked_zone(name: str) -> str:
    """Return the name unchanged. Raises ValueError with a sentence if the zone does not exist."""
    if re.fullmatch(ZONE_PATTERN, name) is None:
        raise ValueError(f"{name!r} {_ZONE_HINT}")
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(f"{name!r} is not a time zone that is known here: write for example Europe/Berlin") from error
    return name


def _checked_time(text: str) -> str:
    try:
        time = _read_time(text)
        format_time(time.timestamp())  # a year that exists only in another zone has no UTC form
    except (ValueError, OverflowError, OSError) as error:
        raise ValueError(f"{text!r} is not a valid time: {_TIME_EXAMPLE}") from error
    if time.tzinfo is None:
        raise ValueError(f"{text!r} names no time zone: {_TIME_EXAMPLE}")
    return text


def _read_time(text: str) -> datetime:
    return datetime.fromisoformat(text.upper())  # RFC 3339 also allows lowercase t and z


def _rule(pattern: str, hint: str) -> dict[str, JsonValue]:
    """Return a rule instead of a pattern, because the API server shows users the raw pattern."""
    return cel_rule(f"self.matches('{pattern}')", f"it {hint}", f"self + ' {hint}'")


class WarmDeadline(Model):
    """One time, or a time of each day."""

    model_config = ConfigDict(
        json_schema_extra={
            "x-kubernetes-validations": [
                cel_rule("has(self.at) != has(self.daily)", "warm.deadline takes one of at and daily"),
                cel_rule("!has(self.timeZone) || has(self.daily)", "warm.deadline.timeZone is for daily"),
            ]
        }
    )
    at: Annotated[
        str | None,
        Field(
            description="A time, such as 2026-11-24T08:00:00+01:00.",
            max_length=64,
            json_schema_extra={"format": "date-time"},
        ),
        AfterValidator(lambda text: text if text is None else _checked_time(text)),
    ] = None
    daily: Annotated[
        str | None,
        Field(
            description="A time of each day in timeZone, such as 08:00.",
            max_length=5,
            json_schema_extra={"x-kubernetes-validations": [_rule(DAILY_PATTERN, _DAILY_HINT)]},
        ),
        AfterValidator(lambda text: text if text is None else _checked_daily(text)),
    ] = None
    time_zone: Annotated[
        str | None,
        Field(
            description="Time zone of daily, such as Europe/Berlin. Absent: UTC.",
            max_length=64,
            json_schema_extra={"x-kubernetes-validations": [_rule(ZONE_PATTERN, _ZONE_HINT)]},
        ),
        AfterValidator(lambda name: name if name is None else _checked_zone(name)),
    ] = None

    def due(self, now: float) -> float | None:
        """Return the deadline in seconds since the epoch: the time, or the next daily one.

        None if neither is set, which the API server refuses.
        """
        if self.at is not None:
            return _read_time(self.at).timestamp()
        return None if self.daily is None else _next(self.daily, self.time_zone or "UTC", now)


def _next(daily: str, zone: str, now: float) -> float:
    """Return the next such time of day after ``now``.

    A time that a clock change skips uses the offset before the change.
    """
    hour, minute = map(int, daily.split(":"))
    here = datetime.fromtimestamp(now, UTC).astimezone(ZoneInfo(zone))
    due = here.replace(hour=hour, minute=minute, second=0, microsecond=0, fold=0)
    while due.timestamp() <= now:
        due = (due + timedelta(days=1)).replace(fold=0)
    return due.timestamp()
