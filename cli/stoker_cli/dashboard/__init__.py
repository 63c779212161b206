"""The command `stoker dashboard`: a local web page with the rights of the user."""
