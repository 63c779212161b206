"""Splits are recognized by a rule, by names of folders and files, or by the read pattern."""

from stoker_tuning.training.layout import FileFact, make_layout, split_sources
from stoker_tuning.training.split_names import SplitSource
from stoker_tuning.training.workload import WorkloadTracker
from stoker_tuning.vocabulary import Split
from tests.support.cases import cases
from tests.unit.stoker_tuning.training.simulation import SIZE, layout, opens, shuffled


@cases(
    "path, split",
    ("train/n01440764/1.jpg", Split.TRAIN),
    ("imagenet/ILSVRC/val/1.jpg", Split.VALIDATION),
    ("train2017/000001.jpg", Split.TRAIN),
    ("val2017/000001.jpg", Split.VALIDATION),
    ("data/validation-00001-of-00008.parquet", Split.VALIDATION),
    ("data/train-00001-of-00008.parquet", Split.TRAIN),
    ("TEST/a.jpg", Split.TEST),
    ("dev/a.jsonl", Split.VALIDATION),
    ("n01440764/1.jpg", Split.UNKNOWN),
    ("training-tools/a.jpg", Split.UNKNOWN),
    ("valley/trainer.jpg", Split.UNKNOWN),
    ("", Split.UNKNOWN),
)
def test_names_tell_the_split(path: str, split: Split) -> None:
    assert [run.split for run in make_layout([FileFact(0, path, 1)]).runs] == [split]


def test_a_rules_word_goes_before_the_name() -> None:
    files = [FileFact(0, "train/a.jpg", 1), FileFact(1, "train/b.jpg", 1), FileFact(2, "val/c.jpg", 1)]
    made = make_layout(files, lambda path: Split.TEST if path.endswith("b.jpg") else None)
    assert list(split_sources(made)) == [
        (Split.TEST, SplitSource.RULE, 1),
        (Split.TRAIN, SplitSource.NAME, 1),
        (Split.VALIDATION, SplitSource.NAME, 1),
    ]


def test_a_layout_of_a_thousand_folders_keeps_few_runs() -> None:
    names = [
        f"{split}/class{number}/{file}.jpg" for split in ("train", "val") for number in range(500) for file in "ab"
    ]
    made = make_layout(FileFact(number, name, 1) for number, name in enumerate(names))
    assert [(run.first, run.split, run.files) for run in made.runs] == [
        (0, Split.TRAIN, 1000),
        (1000, Split.VALIDATION, 1000),
    ]


def test_a_layout_is_bounded_whatever_the_names_are() -> None:
    names = (f"{number}/{number}.jpg" for number in range(10_000))
    made = make_layout(FileFact(number, name, 1) for number, name in enumerate(names))
    assert len(made.runs) == 4096
    assert sum(run.files for run in made.runs) == 10_000


def test_chunks_are_the_units_of_large_files() -> None:
    made = make_layout([FileFact(5, "a.tar", 20 << 20), FileFact(6, "b.tar", 1 << 20), FileFact(8, "c.tar", 30 << 20)])
    assert made.units(Split.UNKNOWN) == 3 + 1 + 4
    assert [made.unit(*at) for at in ((5, 9 << 20), (5, 1 << 40), (6, 0), (8, 0), (8, 29 << 20))] == [1, 2, 3, 4, 7]


def test_files_are_the_units_where_opens_alone_are_seen() -> None:
    made = make_layout([FileFact(5, "a.tar", 20 << 20), FileFact(6, "b.tar", 20 << 20)], by_chunk=False)
    assert (made.units(Split.UNKNOWN), made.unit(6, 0)) == (2, 6)


def test_model_files_are_no_data() -> None:
    made = make_layout([FileFact(0, "config.json", 9), FileFact(1, "model.safetensors", 10**9), FileFact(2, "a.md", 9)])
    assert sorted(made.model_files) == [0, 1]
    assert made.only_models


def learnt(*epochs: list[int]) -> dict[Split, SplitSource]:
    """Read folders ``a`` and ``b`` of 200 and 100 files in these epochs. Return the known splits."""
    tracker = WorkloadTracker(layout(a=200, b=100))
    for number, order in enumerate(epochs):
        for access in opens(order, start=100.0 * number):
            tracker.saw(access)
    return {split: source for split, source, _ in tracker.at(1000.0).splits}


def test_what_is_read_in_order_beside_shuffled_data_validates() -> None:
    epochs = [[*shuffled(range(200), epoch), *range(200, 300)] for epoch in range(3)]
    assert learnt(*epochs) == {Split.TRAIN: SplitSource.BEHAVIOUR, Split.VALIDATION: SplitSource.BEHAVIOUR}


def test_what_is_read_rarely_validates() -> None:
    epochs = [
        [*shuffled(range(200), epoch), *(shuffled(range(200, 300), 5) if epoch == 3 else [])] for epoch in range(5)
    ]
    found = learnt(*epochs)
    assert found[Split.TRAIN] is SplitSource.BEHAVIOUR


def test_folders_that_are_read_alike_are_not_told_apart() -> None:
    assert learnt(*(shuffled(range(300), epoch) for epoch in range(4))) == {Split.UNKNOWN: SplitSource.UNKNOWN}


def test_one_epoch_is_too_little_to_tell() -> None:
    assert learnt([*shuffled(range(200), 1), *range(200, 300)]) == {Split.UNKNOWN: SplitSource.UNKNOWN}


def test_sizes_alone_are_no_model() -> None:
    assert not make_layout([FileFact(0, "big.dat", 10**12), FileFact(1, "small.dat", SIZE)]).model_files
