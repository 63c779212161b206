"""View models of the page, from API objects. Pure."""
