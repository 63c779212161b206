"""All errors of the operator, in one tree."""


class StokerOperatorError(Exception):
    """Base of all errors that this package raises on purpose."""


class SettingsError(StokerOperatorError):
    """A setting is missing or wrong; the sentence names it and says what to write."""


class LeadershipLostError(StokerOperatorError):
    """Another replica may act now: this process has to end."""


class UninstallError(StokerOperatorError):
    """Something could not be removed; the sentence says what is left and how to remove it."""


class NotEstablishedError(StokerOperatorError):
    """The API server did not start to serve a CustomResourceDefinition in time."""


class MalformedReviewError(StokerOperatorError):
    """The webhook got something other than an AdmissionReview of a Pod or a TuningProfile."""


class CertificateError(StokerOperatorError):
    """The webhook's certificate is unreadable or unusable; the sentence says which file or Secret."""
