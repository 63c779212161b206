"""What the process of one order plug-in answers: a line of JSON, then the samples, 4 bytes each."""

import json
import os
import resource
import sys
from array import array
from collections.abc import Mapping
from itertools import islice
from typing import Any

from stoker_orders.predictors.interface import OrderPlugin, OrderQuestion

# Under these names a question asks for an order, and for no more than that the plug-in is loaded.
ORDER, LOAD = "order", "load"
# Seconds of CPU: in Python a million samples take about one. Bytes of memory that it may write: 64 for each sample, as
# a list of numbers and its copies take, besides what libraries do.
_MOST_CPU, _MEMORY, _MEMORY_OF_A_SAMPLE = 30, 128 * 1024**2, 64
# A thread for each of the node's cores would take more than that.
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def bounds(question: Mapping[str, Any]) -> tuple[tuple[int, int], ...]:
    """Return the limits of a process that is asked for an order: of CPU, and of memory that it writes."""
    os.environ |= dict.fromkeys(_ONE_THREAD, "1")
    memory = _MEMORY + _MEMORY_OF_A_SAMPLE * int(question["samples"])
    return (resource.RLIMIT_CPU, _MOST_CPU), (resource.RLIMIT_DATA, memory)


def loaded(plugin: OrderPlugin) -> bytes:
    """Tell that a plug-in is loaded. Raises AttributeError and TypeError for what is no order plug-in."""
    if not callable(plugin.order):
        raise TypeError("its order is no method")
    return json.dumps({"name": plugin.name}).encode() + b"\n"


def answer(plugin: OrderPlugin, question: Mapping[str, Any]) -> bytes:
    """Ask a plug-in for an epoch's order. Raises whatever it raises, and OverflowError for what is no sample's number.

    More samples than it may have are cut off one beyond these: who asked refuses it.
    """
    asked = OrderQuestion.of(question)
    samples = array("I", islice(plugin.order(asked.mapping()), asked.most + 1))
    if sys.byteorder == "big":
        samples.byteswap()
    return json.dumps({"name": plugin.name, "samples": len(samples)}).encode() + b"\n" + samples.tobytes()
