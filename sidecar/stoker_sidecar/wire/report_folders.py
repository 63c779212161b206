"""Where pods' report folders are and what is in them: keeper, agent and listener agree. Standard library only."""

REPORTS = "reports"  # in the state folder; each pod's folder in it is named by its UID
SOCKET_NAME = "report.sock"  # in each pod's folder
