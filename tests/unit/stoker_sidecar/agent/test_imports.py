"""What an agent does without: libraries that would take memory on each node, and that no pod needs."""

import subprocess
import sys


def test_an_agent_does_without_the_official_kubernetes_library() -> None:
    code = "import sys, stoker_sidecar.agent.main; print(sorted({'kubernetes', 'requests'} & set(sys.modules)))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
