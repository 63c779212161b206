"""Simulated accelerators: how their work is dealt out, counted and drawn."""

import math
from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from bench.plot import curves, draw
from bench.publishing import draw_plots
from bench.report import Machine, Origin, Report, Row
from bench.trainer import Assignment, Training, batches, shares
from bench.workloads.gpus import case_of

IMAGES = st.lists(st.text(max_size=3), max_size=50)


@given(IMAGES, st.integers(1, 8))
def test_every_image_goes_to_one_accelerator(images: list[str], accelerators: int) -> None:
    dealt = shares(images, accelerators)
    assert sorted(image for share in dealt for image in share) == sorted(images)


@given(IMAGES, st.integers(1, 8))
def test_no_accelerator_has_two_images_more_than_another(images: list[str], accelerators: int) -> None:
    sizes = [len(share) for share in shares(images, accelerators)]
    assert max(sizes) - min(sizes) <= 1


@given(IMAGES, st.integers(1, 8))
def test_batches_hold_all_images_in_order(images: list[str], size: int) -> None:
    assert [image for batch in batches(images, size) for image in batch] == images


def test_a_last_step_that_is_not_full_takes_its_share() -> None:
    assert math.isclose(Assignment(["a"] * 150, batch=100, step=0.2).compute_seconds, 0.3)


def test_an_accelerator_that_never_waits_is_fully_used() -> None:
    assert Training(accelerators=4, images=1, compute=40.0, seconds=10.0).utilisation == 1.0


def test_waiting_lowers_the_use() -> None:
    assert Training(accelerators=2, images=1, compute=10.0, seconds=10.0).utilisation == 0.5


ORIGIN = Origin("python -m bench run gpus article", "", dirty=False, date="2026-11-23", scale="quick")
IDLE = Machine("6.18.44", 2, 24, "3.11.7", "ext4", load_before=0.1)


def rows() -> list[Row]:
    return [
        Row("gpus", case_of(count, epoch), system, "images/s", (100.0 * epoch,))
        for count in (1, 4)
        for system in ("native", "Stoker")
        for epoch in (1, 2)
    ]


def test_a_panel_has_a_curve_for_each_system() -> None:
    assert curves(rows())[4] == {"native": {1: 100.0, 2: 200.0}, "Stoker": {1: 100.0, 2: 200.0}}


def test_each_workload_with_curves_has_a_picture_of_its_own(tmp_path: Path) -> None:
    both = [*rows(), *(replace(row, workload="article") for row in rows())]
    assert draw_plots(Report(ORIGIN, IDLE, tuple(both)), tmp_path) == [tmp_path / "gpus.svg", tmp_path / "article.svg"]
    assert (tmp_path / "article.svg").exists()


def test_other_workloads_are_not_drawn() -> None:
    assert curves([Row("B1", case_of(1, 1), "native", "images/s", (1.0,))]) == {}


def test_the_same_figures_give_the_same_picture(tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        draw(curves(rows()), tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
