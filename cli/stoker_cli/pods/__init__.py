"""Commands on pods and jobs: why, top, release and report."""
