"""The layout of pods' report folders, shared by keeper, agent and listener. Standard library only."""

REPORTS = "reports"  # in the state folder; it has a folder for each pod, named by its UID
SOCKET_NAME = "report.sock"  # in each pod's folder
