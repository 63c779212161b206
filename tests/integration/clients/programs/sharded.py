"""Hugging Face datasets in the order of stoker-client's samplers. Prints the rows as JSON: mapped, and by shards."""

import json

from datasets import Dataset

from stoker_client import GlobalShuffleSampler
from stoker_client.huggingface import in_order, shards_in_order


def main() -> None:
    """Read 40 rows in the order of a sampler, and the rows of 8 shards in that of another."""
    table = Dataset.from_dict({"row": list(range(40))})
    rows = [row["row"] for row in in_order(table, GlobalShuffleSampler(table, seed=2))]
    streamed = table.to_iterable_dataset(num_shards=8)
    shards = [row["row"] for row in shards_in_order(streamed, GlobalShuffleSampler(8, seed=3))]
    print(json.dumps({"mapped": rows, "sharded": shards}))


if __name__ == "__main__":
    main()
