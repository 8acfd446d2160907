"""Statistics counted by Ray Data, block by block; run as it stands: python ray_data.py FOLDER_OF_PARQUET."""

import pickle
import sys
from functools import reduce
from operator import add

import pyarrow
import ray

import eigentree as et


def main(folder: str) -> et.SpectralJunctionTree:
    rows = ray.data.read_parquet(folder)

    # A first look at a part of the rows: all labels have to be among them, or be given as categories=.
    model = et.SpectralJunctionTree(et.zoo.HMM(order=1, hidden_states=2))
    empty = et.Statistics.of(rows.limit(10_000).to_pandas(), model.structure)
    empty = empty - empty

    def counted(table: pyarrow.Table) -> pyarrow.Table:
        return pyarrow.table({"statistics": [pickle.dumps(empty.update(table))]})

    parts = rows.map_batches(counted, batch_format="pyarrow", batch_size=None)
    whole = reduce(
        add, (pickle.loads(part["statistics"]) for part in parts.iter_rows())
    )
    return model.fit_statistics(whole)


if __name__ == "__main__":
    print(main(sys.argv[1]).statistics_)
