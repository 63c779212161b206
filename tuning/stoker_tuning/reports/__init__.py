"""Report lines of training pods (docs/guides/reports.md), and figures from them. Pure."""
