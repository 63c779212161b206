"""Libraries that an agent must not import: they use memory on each node, and no pod needs them."""

import subprocess
import sys

HEAVY = {"kubernetes", "requests", "opentelemetry"}


def test_an_agent_imports_no_heavy_library() -> None:
    code = f"import sys, stoker_sidecar.agent.main; print(sorted({HEAVY} & set(sys.modules)))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
