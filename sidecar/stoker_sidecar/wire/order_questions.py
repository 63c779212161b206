"""What the agent asks the asker of order plug-ins: a line, apart from the rest since the keeper does without orders."""

from stoker_orders.predictors.interface import OrderQuestion
from stoker_sidecar.wire import lines


def encode_order_question(name: str, question: OrderQuestion | None) -> bytes:
    """Write a question to an order plug-in as a line; None: whether it is there, and can be loaded."""
    return lines.encode({"plugin": name, "order": None if question is None else question.mapping()})


def decode_order_question(line: bytes) -> tuple[str, OrderQuestion | None]:
    """Read the plug-in's name and what it is asked for; None: to be loaded, no more. Raises ValueError."""
    asked = lines.decode_object(line)
    try:
        order = asked["order"]
        return str(asked["plugin"]), None if order is None else OrderQuestion.of(order)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("a question names a plug-in, and the order that it is asked for") from error
