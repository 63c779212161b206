"""What the agent asks the asker of order plug-ins: a line, apart from the rest since the keeper does without orders."""

from stoker_orders.predictors.interface import OrderQuestion
from stoker_sidecar.wire import lines


def encode_order_question(name: str, question: OrderQuestion) -> bytes:
    """Write a question to an order plug-in as a line."""
    return lines.encode({"plugin": name, "order": question.mapping()})


def decode_order_question(line: bytes) -> tuple[str, OrderQuestion]:
    """Read the plug-in's name and what it is asked for. Raises ValueError."""
    asked = lines.decode_object(line)
    try:
        return str(asked["plugin"]), OrderQuestion.of(asked["order"])
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("a question names a plug-in, and the order that it is asked for") from error
