"""Which nodes take a piece from another one while its source still sends it there. Pure."""


def is_relayed(giver: int, taker: int, nodes: int, fetching: int) -> bool:
    """Tell whether the node at ``taker`` of ``nodes`` has the piece that comes to ``giver`` from there while it comes.

    ``fetching``: nodes to which the source sends something. A node is sent one of so many parts of what its source's
    line carries, so its own line, where that is as wide, carries the same to as many others; more would each get less,
    and all of them would be late. Those that are not among them have it from whoever has it whole. With all nodes
    fetching it is everybody.
    """
    return 0 < (taker - giver) % nodes <= max(1, fetching)
