"""Make every file of a release, from one version and one commit (`make release`)."""
