"""Names that the chart gives to what it installs, all in the operator's own namespace."""

DEPLOYMENT = "stoker-operator"
LEASE = "stoker-operator"
WEBHOOK_SERVICE = "stoker-webhook"
WEBHOOK_SECRET = "stoker-webhook-tls"
WEBHOOK_CONFIGURATION = "stoker"  # the Mutating- and the ValidatingWebhookConfiguration; cluster-scoped
