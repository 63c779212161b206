"""Whether a job that says where it begins to read was started once more, or has gone on to another epoch. Pure."""

from stoker_orders.following import OrderFollower, OrderState
from stoker_orders.sampling_plan import EpochStart

# From this share of an epoch on, the next one is begun rather than come back to.
_LATE = 0.75


def begins_anew(follower: OrderFollower, before: EpochStart, said: EpochStart) -> bool:
    """Tell whether readers are to be followed from where they say that they begin, which was ``before`` until now.

    A job says so at each epoch too, which may be heard late. Where reads tell nothing, its word is all that does. What
    was found wrong stays so.
    """
    if follower.state is OrderState.WRONG:
        return False
    if follower.epoch is None or follower.is_searching or not follower.reads:
        return True
    if before.epoch < said.epoch <= follower.epoch:
        return False
    if said.epoch == follower.epoch:
        return before.epoch == said.epoch and abs(said.position - follower.step) > follower.loading.slack
    return said.epoch != follower.epoch + 1 or follower.step < _LATE * follower.loading.steps
