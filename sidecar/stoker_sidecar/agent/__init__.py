"""The agent process: this node's link to Kubernetes, CSI driver and HTTP server."""
