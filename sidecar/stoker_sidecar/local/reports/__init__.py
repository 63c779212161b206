"""What a mount's agent reports, and how a terminal shows it."""
