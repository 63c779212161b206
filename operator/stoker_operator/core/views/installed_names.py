"""Names of the chart's objects, all in the operator's own namespace."""

DEPLOYMENT = "stoker-operator"
LEASE = "stoker-operator"
WEBHOOK_SERVICE = "stoker-webhook"
WEBHOOK_SECRET = "stoker-webhook-tls"
WEBHOOK_CONFIGURATION = "stoker"  # the Mutating- and the ValidatingWebhookConfiguration; cluster-scoped
FIGURES_SERVICE_PORT = 8443  # of the webhook's Service, for figures.stoker.dev
FIGURES_ROLE = "stoker-figures"  # a ClusterRole, which owns the APIService
