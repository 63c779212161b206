"""What recommendations mean for knobs. Pure."""
