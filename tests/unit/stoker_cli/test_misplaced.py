"""Annotations without effect in `stoker why`."""

from typing import Any

from stoker_api import names
from stoker_cli.pods.why import annotation_sentences
from tests.support.cases import cases


def one(kind: str = "Pod", **annotations: str) -> dict[str, Any]:
    notes = {f"stoker.dev/{key.replace('_', '-')}": value for key, value in annotations.items()}
    return {"kind": kind, "metadata": {"namespace": "n", "name": "x", "annotations": notes}}


@cases(
    "written, meant",
    ("dataset", "datasets"),
    ("datasest", "datasets"),
    ("samplng", "sampling"),
    ("maxwait", "max-wait"),
)
def test_a_misspelled_annotation_gets_a_suggestion(written: str, meant: str) -> None:
    (sentence,) = annotation_sentences(one(**{written: "x"}), [])
    assert sentence == (f"It has the unknown annotation stoker.dev/{written}. Did you mean stoker.dev/{meant}?")


def test_an_unknown_annotation_gets_the_list_of_all() -> None:
    (sentence,) = annotation_sentences(one(zzz="x"), [])
    assert all(key in sentence for key in names.USER_ANNOTATIONS)


def test_an_annotation_on_a_job_gets_the_right_place() -> None:
    (sentence,) = annotation_sentences(one(), [one("Job", datasets="a:/a")])
    assert sentence == (
        "Job n/x has the annotation stoker.dev/datasets in its own metadata, where it has no effect. Move it to the "
        "metadata.annotations of the pod template."
    )


@cases(
    "pod, owners",
    known_ones=(one(datasets="a:/a", waiting="x"), []),
    on_both=(one(datasets="a:/a"), [one("Job", datasets="a:/a", template_hash="1")]),
    none=(one(), [one("Job")]),
)
def test_correct_annotations_are_not_mentioned(pod: Any, owners: Any) -> None:
    assert list(annotation_sentences(pod, owners)) == []
