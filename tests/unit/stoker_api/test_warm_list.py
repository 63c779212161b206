"""A warm list in a file of the Dataset: valid names and lines, and its form in plans of nodes."""

import pytest
from pydantic import ValidationError

from stoker_api.datasets import warm_list
from stoker_api.datasets.dataset import Dataset, Warm
from stoker_api.datasets.warm_list import LIST_OR_PATHS, check_list_size, checked_list_name, paths_of_list
from stoker_api.datasets.warm_paths import TooManyPathsError, digest_as_paths, list_named, paths_digest, told_as_list
from stoker_api.schema import open_api_schema
from tests.support.cases import cases


def test_its_lines_are_paths_as_those_of_a_list_on_the_command_line_are() -> None:
    content = b"\xef\xbb\xbf# mine\r\ntrain/b.jpg\r\n\n \nval/\n**/a*.tar"
    assert list(paths_of_list(content)) == ["train/b.jpg", "val/", "**/a*.tar"]


@cases(
    "content, sentence",
    (b"a\n\xff\n", "line 2 of the list is not UTF-8"),
    (b"# of mine\n\n/a\n", "line 3 of the list: the path '/a' must be below"),
    (b"a/../b", r"line 1 of the list: the path 'a/../b' must not contain"),
    (b"a\n" + b"b" * 1025, "line 2 of the list: 1025 characters are too many for a path: 1024 are the most"),
    (b"*a\n" * 101, "line 101 of the list is one of more than 100 with wildcards"),
    (b"", "the list has no path"),
    (b"# nothing\n\n", "the list has no path"),
    ("a\n".encode("utf-16"), "line 1 of the list is not UTF-8"),
)
def test_a_wrong_line_is_named_by_its_number(content: bytes, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        list(paths_of_list(content))


def test_more_lines_than_may_be_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm_list, "MOST_LISTED_PATHS", 3)
    assert list(paths_of_list(b"a\nb\nc")) == ["a", "b", "c"]
    with pytest.raises(TooManyPathsError, match="3 paths are the most"):
        list(paths_of_list(b"a\nb\nc\nd"))


def test_a_list_may_have_so_many_bytes() -> None:
    check_list_size(32 * 2**20)
    with pytest.raises(ValueError, match=r"the list has 32\.0 MiB, and 32\.0 MiB are the most"):
        check_list_size(32 * 2**20 + 1)


@pytest.mark.parametrize("name", ["lists/mine.txt", "a", "lists/[1]*.txt", "..a/b..", "ä/ö"])
def test_a_list_is_named_by_the_path_of_a_file(name: str) -> None:
    assert checked_list_name(name) == name


@pytest.mark.parametrize("name", ["", "/a", "a/", "a//b", "./a", "a/../b", "a\0b", "a\udcff", "a" * 1025])
def test_what_is_no_path_of_a_file_is_no_list(name: str) -> None:
    with pytest.raises(ValueError, match=r"write lists/mine\.txt|more than 1024"):
        checked_list_name(name)


def test_a_list_and_paths_exclude_each_other() -> None:
    with pytest.raises(ValidationError, match="exclude each other"):
        Warm.model_validate({"list": "a", "paths": ["b"]})
    assert Warm.model_validate({"list": "a", "paths": []}).told_paths == ("/a",)
    rules = open_api_schema(Dataset)["properties"]["spec"]["properties"]["warm"]["x-kubernetes-validations"]
    assert [rule["message"] for rule in rules] == [LIST_OR_PATHS]


def test_nodes_are_told_of_a_list_by_what_no_path_can_be() -> None:
    assert list_named(told_as_list("lists/mine.txt")) == "lists/mine.txt"
    assert [list_named(paths) for paths in ((), ("a",), ("a", "b"))] == ["", "", ""]


def test_figures_of_a_list_are_not_taken_for_those_of_a_path() -> None:
    told = told_as_list("a")
    others = [digest_as_paths(told), paths_digest(("a",)), paths_digest(("list", "a")), paths_digest(told_as_list("b"))]
    assert paths_digest(told) not in others
    assert len(set(others)) == len(others)
