"""A pipeline of Grain over an epoch of one of stoker-client's samplers. Prints as JSON the samples of two epochs."""

import json

import grain

from stoker_client import GlobalShuffleSampler, IndexSequence


def main() -> None:
    """Read two epochs, with threads that read ahead."""
    sampler = GlobalShuffleSampler(40, seed=11, rank=0, world_size=1)
    epochs = []
    for epoch in range(2):
        sampler.set_epoch(epoch)
        source = grain.MapDataset.source(IndexSequence(sampler)).map(lambda index: 10 * index)
        read = source.to_iter_dataset(grain.ReadOptions(num_threads=4, prefetch_buffer_size=8)).batch(8)
        epochs.append([int(sample) for batch in read for sample in batch])
    print(json.dumps(epochs))


if __name__ == "__main__":
    main()
