"""Commands that the fetcher receives, and data that it never receives."""

from stoker_api.datasets.dataset_source import Source
from stoker_api.node_caches.node_dataset import NodeDataset
from stoker_sidecar.agent.core.commands import commands, kept_meanwhile, tunings, wanted
from stoker_sidecar.wire.credentials import AmbientCredentials, StaticCredentials
from stoker_sidecar.wire.fetcher_hints import FileKnobs, Tune
from stoker_sidecar.wire.fetcher_protocol import Configure, Remove
from tests.support.cases import cases

SOURCE = Source(uri="s3://bucket/digits/")
DIGITS = NodeDataset(namespace="vision", name="digits", uid="u1", source=SOURCE)
COCO = NodeDataset(namespace="vision", name="coco", uid="u2", source=SOURCE)
NO_ONE = AmbientCredentials()


def test_a_dataset_waits_until_its_credentials_are_read() -> None:
    assert set(wanted([DIGITS, COCO], {"u1": NO_ONE}, {})) == {"u1"}


def test_what_was_said_is_not_said_again() -> None:
    target = wanted([DIGITS], {"u1": NO_ONE}, {})
    assert commands({"u1"}, target, target, {"u1"}, {}) == []


def test_new_credentials_are_said() -> None:
    sent = wanted([DIGITS], {"u1": NO_ONE}, {})
    keys = StaticCredentials("id", "key")
    target = wanted([DIGITS], {"u1": keys}, {})
    assert commands({"u1"}, target, sent, {"u1"}, {}) == [Configure(DIGITS.wire(), keys)]


def test_a_new_mount_is_said_so_that_its_version_is_kept() -> None:
    sent = wanted([DIGITS], {"u1": NO_ONE}, {})
    target = wanted([DIGITS], {"u1": NO_ONE}, {"u1": ("d1",)})
    assert commands({"u1"}, target, sent, {"u1"}, {"u1": ("d1",)}) == [Configure(DIGITS.wire(), NO_ONE, ("d1",))]


def test_nothing_is_removed_by_a_plan_that_was_made_without_knowing_of_it() -> None:
    assert commands(set(), {}, {}, {"old", "older"}, {}, kept={"old"}) == [Remove("older")]


@cases("held, said", in_no_plan=({}, [Remove("old")]), not_while_a_pod_reads_it=({"old": ("d1",)}, []))
def test_what_lies_on_the_disk_is_removed_when(held: dict[str, tuple[str, ...]], said: list[Remove]) -> None:
    assert commands(set(), {}, {}, {"old"}, held) == said


def test_a_planned_dataset_is_not_removed_while_its_credentials_are_read() -> None:
    assert commands({"u1"}, {}, {}, {"u1"}, {}) == []


def test_a_version_that_the_last_word_drops_is_not_sure_to_be_kept_until_the_answer() -> None:
    said, order = (Configure(DIGITS.wire(), NO_ONE, held) for held in (("d1", "d2"), ("d2", "d3")))
    assert kept_meanwhile(said, order) == {"d2"}


def test_nothing_is_sure_to_be_kept_before_the_first_answer_and_by_a_removal() -> None:
    order = Configure(DIGITS.wire(), NO_ONE, ("d1",))
    assert (kept_meanwhile(None, order), kept_meanwhile(order, Remove("u1"))) == (frozenset(), frozenset())


def test_how_to_treat_files_is_said_once_the_fetcher_knows_their_dataset() -> None:
    order = Tune("u1", "d1", (FileKnobs(streams=2),))
    assert tunings({("u1", "d1"): order}, {}, set()) == []
    assert tunings({("u1", "d1"): order}, {}, {"u1"}) == [order]
    assert tunings({("u1", "d1"): order}, {("u1", "d1"): order}, {"u1"}) == []


def test_that_files_are_as_ever_is_said_only_where_they_were_not() -> None:
    plain, tuned = Tune("u1", "d1"), Tune("u1", "d1", (FileKnobs(streams=2),))
    assert tunings({("u1", "d1"): plain}, {}, {"u1"}) == []
    assert tunings({("u1", "d1"): plain}, {("u1", "d1"): tuned}, {"u1"}) == [plain]
