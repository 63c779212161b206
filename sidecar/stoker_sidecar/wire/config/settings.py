"""Reads a process's settings: from a flag, else from the environment, else the default (ADR 1)."""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo

from stoker_api.meta import parse_quantity
from stoker_sidecar.wire.config.disk_floor import Floor

LOG_LEVELS = ("debug", "info", "warning", "error")


def _log_level(text: str) -> str:
    if text.lower() not in LOG_LEVELS:
        raise ValueError(f"{text!r} must be one of {', '.join(LOG_LEVELS)}")
    return text.upper()


def _absolute(path: Path) -> Path:
    if not path.is_absolute():
        raise ValueError(f"{str(path)!r} must be an absolute path")
    return path


def _quantity(value: str | int) -> int:
    return parse_quantity(value) if isinstance(value, str) else value


LogLevel = Annotated[str, AfterValidator(_log_level)]  # in capitals, as in the logging library
AbsolutePath = Annotated[Path, AfterValidator(_absolute)]
FloorSetting = Annotated[Floor, BeforeValidator(lambda given: Floor.parse(given) if isinstance(given, str) else given)]
Bytes = Annotated[int, BeforeValidator(_quantity)]  # a Kubernetes quantity, such as 10Gi


class Repeated:
    """Marks a field (in its ``Annotated``) with a repeatable flag; its value is the list of texts."""


def setting(description: str, default: object = ..., *, variable: str | None = None) -> Any:
    """Declare a field of a ProcessSettings with its --help text and its default, in the form of its flag.

    Without ``default`` it is required. ``variable`` is its environment variable, if it is not STOKER_ and the field's
    name.
    """
    return Field(default, validation_alias=variable, description=description)


class ProcessSettings(BaseModel):
    """Base of the settings of one process: each field is a flag and an environment variable, and the flag wins.

    The field ``http_port`` is the flag --http-port and the variable STOKER_HTTP_PORT. A bool field is a flag without a
    value. The environment is read at one place of the process: where its main calls ``parse``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, validate_default=True)
    program: ClassVar[str]  # the name in --help
    about: ClassVar[str]  # one sentence

    @classmethod
    def parse(cls, argv: Sequence[str]) -> Self:
        """Parse command line and environment. Exit with code 2 and a sentence on an invalid value."""
        parser = argparse.ArgumentParser(prog=cls.program, description=cls.about, argument_default=argparse.SUPPRESS)
        for name, field in cls.model_fields.items():
            help_text = f"{field.description or ''} [{_variable(name, field)}; default: {_shown(field)}]"
            parser.add_argument(_flag(name), help=help_text.replace("%", "%%"), **_action(field))
        variables = {name: _variable(name, field) for name, field in cls.model_fields.items()}
        given = {name: os.environ[variable] for name, variable in variables.items() if variable in os.environ}
        given |= vars(parser.parse_args(argv))
        try:
            return cls(**given)
        except ValidationError as error:
            parser.error(cls._sentence(error))

    @classmethod
    def _sentence(cls, error: ValidationError) -> str:
        """Describe the first invalid field, and the two places that set it."""
        first = error.errors()[0]
        at = first["loc"][0]  # the field's name, or that of its custom variable
        name, field = next(
            (name, field) for name, field in cls.model_fields.items() if at in (name, field.validation_alias)
        )
        where = f"{_flag(name)} ({_variable(name, field)})"
        if first["type"] == "missing":
            return f"{where} is required"
        if first["type"] == "value_error":
            return f"{where}: {first['ctx']['error']}"
        return f"{where}: {first['input']!r}: {first['msg']}"


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _variable(name: str, field: FieldInfo) -> str:
    return str(field.validation_alias or f"STOKER_{name.upper()}")


def _shown(field: FieldInfo) -> str:
    return "none" if field.is_required() or field.default in (None, "") else str(field.default)


def _action(field: FieldInfo) -> dict[str, Any]:
    if field.annotation is bool:
        return {"action": "store_true"}
    repeated = any(isinstance(mark, Repeated) for mark in field.metadata)
    return {"action": "append"} if repeated else {}
