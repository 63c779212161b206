"""The class of a Dataset."""

from stoker_api.datasets.datasetclass import DatasetClass
from stoker_api.names import Reason
from stoker_operator.core.classes.dataset_classes import InvalidClass, Refused, class_of, parse_class
from tests.support.cases import cases
from tests.unit.stoker_operator.builders import make_class, make_dataset


def chosen(*there: DatasetClass | InvalidClass, named: str | None = None) -> str | Refused | None:
    found = class_of(make_dataset(className=named), {one.metadata.name: one for one in there})
    return found.metadata.name if isinstance(found, DatasetClass) else found


def refused(*there: DatasetClass | InvalidClass, named: str | None = None) -> Refused:
    found = chosen(*there, named=named)
    assert isinstance(found, Refused)
    return found


@cases(
    "there, named, taken",
    the_class_that_is_named_is_taken=([make_class("a"), make_class("b", default=True)], "a", "a"),
    without_a_name_the_newest_default_is_taken=(
        [
            make_class("a", default=True, created="2026-01-01T00:00:00Z"),
            make_class("b", default=True, created="2026-02-01T00:00:00Z"),
            make_class("c", created="2026-03-01T00:00:00Z"),
        ],
        None,
        "b",
    ),
    of_two_defaults_as_old_the_first_by_name_is_taken=(
        [make_class("b", default=True), make_class("a", default=True)],
        None,
        "a",
    ),
    a_default_is_one_for_its_own_namespaces=(
        [make_class("a", default=True, namespaces=["speech"]), make_class("b", default=True, namespaces=["vis*"])],
        None,
        "b",
    ),
    without_any_default_there_is_no_class=([make_class("a")], None, None),
)
def test_a_dataset_has_one_class(there: list[DatasetClass], named: str | None, taken: str | None) -> None:
    assert chosen(*there, named=named) == taken


def test_defaults_for_other_namespaces_alone_leave_no_way_around_them() -> None:
    found = refused(make_class("a", default=True, namespaces=["speech"]))
    assert (found.reason, found.closed) == (Reason.NOT_ALLOWED_BY_CLASS, False)


def test_a_class_that_does_not_exist_is_waited_for() -> None:
    found = refused(make_class("a"), make_class("b", namespaces=["speech"]), named="tenants")
    assert (found.reason, found.closed) == (Reason.CLASS_NOT_FOUND, False)
    assert found.sentence.endswith("for namespace vision there are: a")


def test_a_class_for_other_namespaces_is_refused() -> None:
    found = refused(make_class("a", namespaces=["speech", "vision-*"]), named="a")
    assert (found.reason, found.closed) == (Reason.NOT_ALLOWED_BY_CLASS, False)
    assert "DatasetClass a does not allow namespace vision" in found.sentence


def test_a_class_that_cannot_be_read_is_no_class_without_limits() -> None:
    bad = parse_class({"metadata": {"name": "a"}, "spec": {"priority": {"max": 5000}}})
    assert isinstance(bad, InvalidClass)
    found = refused(bad, named="a")
    assert (found.reason, found.closed) == (Reason.CLASS_INVALID, False)
    assert "priority.max" in found.sentence
    assert chosen(bad, make_class("b"), named="b") == "b"
