"""The CSI driver's node side: what the kubelet asks, parsed, decided and mounted."""
