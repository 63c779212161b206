"""What a training pod says of itself: its lines (docs/REPORTS.md), and the figures that are kept of them. Pure."""
