"""Rate limits of origins, divided among nodes. Pure."""
