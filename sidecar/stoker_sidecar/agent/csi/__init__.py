"""The CSI driver's gRPC services."""
