"""Commands that run once: apply the CRDs, or uninstall."""
