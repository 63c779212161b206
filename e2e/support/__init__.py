"""What the stories share: the installed cluster, its bucket, and short words for what users do."""
