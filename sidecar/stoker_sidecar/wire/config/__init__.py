"""Settings, folders and certificates that several processes of the sidecar share."""
