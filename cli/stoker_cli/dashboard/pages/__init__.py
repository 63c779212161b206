"""Templates, styles and the script of the page."""
