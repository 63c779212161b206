import pytest

from e2e.cluster import CommandFailedError
from e2e.support.removals import Removals


class Kubectl:
    """Records removals. The namespaces given here never disappear."""

    def __init__(self, *stuck: str) -> None:
        self.stuck = stuck
        self.calls: list[tuple[str, ...]] = []

    def __call__(self, *words: str) -> str:
        self.calls.append(words)
        if set(self.stuck) & set(words):
            raise CommandFailedError(list(words), 1, f"timed out in {' '.join(self.stuck)}")
        return ""


def test_jobs_go_before_their_pods_and_pods_before_their_data_and_the_namespace_last() -> None:
    kubectl = Kubectl()
    removals = Removals(kubectl)
    removals.begin("story")
    removals.close()
    assert [words[1] for words in kubectl.calls] == ["trainingjobs", "pods", "datasets", "namespace"]
    assert all("story" in words for words in kubectl.calls)


def test_what_could_not_be_removed_is_told_once_and_keeps_nothing_else() -> None:
    kubectl = Kubectl("stuck")
    removals = Removals(kubectl)
    removals.begin("stuck")
    removals.begin("story")
    with pytest.raises(CommandFailedError, match="timed out in stuck"):
        removals.finish()
    assert kubectl.calls[-1] == ("delete", "namespace", "story", "--wait=false")
    removals.close()


def test_without_anything_to_remove_nothing_is_waited_for() -> None:
    kubectl = Kubectl()
    Removals(kubectl).close()
    assert kubectl.calls == []
