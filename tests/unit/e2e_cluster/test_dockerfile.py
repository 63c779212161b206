"""Parsing a Dockerfile: base images, copied paths, and the place for settings."""

import pytest

from e2e.cluster.dockerfile import Base, bases, copied_paths, with_arguments
from tests.support.cases import cases

TWO_STAGES = """\
# syntax=docker/dockerfile:1
FROM debian:bookworm-slim AS build
RUN apt-get update && \\
    apt-get install -y python3
COPY --chown=1:1 pyproject.toml operator/ /src/
FROM debian:bookworm-slim
COPY --from=build /opt /opt
COPY sidecar /src/sidecar
"""


@cases(
    "text, base",
    once_where_two_stages_use_it=(TWO_STAGES, Base("debian:bookworm-slim", "bookworm", slim=True)),
    not_an_earlier_stage_or_nothing=(
        "FROM debian:trixie AS a\nFROM a AS b\nFROM scratch\n",
        Base("debian:trixie", "trixie", slim=False),
    ),
)
def test_bases_are_those_that_a_build_stands_on(text: str, base: Base) -> None:
    assert bases(text) == [base]


def test_an_image_that_only_a_registry_has_is_refused_by_its_name() -> None:
    with pytest.raises(ValueError, match=r"FROM python:3\.11"):
        bases("FROM python:3.11\n")


@cases(
    "text, paths",
    not_from_another_stage=(TWO_STAGES, ["pyproject.toml", "operator/", "sidecar"]),
    over_two_lines=("COPY a \\\n  b /dst/\n", ["a", "b"]),
    not_in_a_comment=("# COPY a b\n", []),
)
def test_what_comes_from_the_context_is_copied(text: str, paths: list[str]) -> None:
    assert copied_paths(text) == paths


def test_settings_are_declared_in_every_stage() -> None:
    text = with_arguments(TWO_STAGES, ["PIP_CONFIG_FILE", "A"])
    assert text.count("\nARG A\nARG PIP_CONFIG_FILE\n") == 2


def test_without_settings_the_dockerfile_stays_as_it_is() -> None:
    assert with_arguments(TWO_STAGES, []) == TWO_STAGES


def test_an_image_that_was_built_here_may_be_stood_on() -> None:
    text = "ARG STOKER\nFROM ${STOKER}\nCOPY a /a\n"
    assert bases(text, {"STOKER": "stoker:e2e"}, ["stoker:e2e"]) == []
    with pytest.raises(ValueError, match="FROM stoker:e2e"):
        bases(text, {"STOKER": "stoker:e2e"})
