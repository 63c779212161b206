"""Maps recommendations to knobs. Pure."""
