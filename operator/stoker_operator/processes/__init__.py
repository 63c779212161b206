"""The processes of the operator: the replica with its leader, and the webhook."""
