"""The admission webhook: TLS server, review, certificates. Runs on every replica and answers from memory."""
