"""Statistics counted by Spark, partition by partition; run as it stands: python spark.py FOLDER_OF_PARQUET."""

import pickle
import sys

import pyarrow
from pyspark.sql import SparkSession

import eigentree as et


def main(folder: str) -> et.SpectralJunctionTree:
    spark = SparkSession.builder.appName("eigentree").getOrCreate()
    rows = spark.read.parquet(folder)

    # A first look at a part of the rows: all labels have to be among them, or be given as categories=.
    model = et.SpectralJunctionTree(et.zoo.HMM(order=1, hidden_states=2))
    empty = et.Statistics.of(rows.limit(10_000).toPandas(), model.structure)
    empty = empty - empty

    def counted(batches):
        statistics = empty
        for batch in batches:
            statistics = statistics.update(pyarrow.Table.from_batches([batch]))
        yield pyarrow.RecordBatch.from_pydict(
            {"statistics": [pickle.dumps(statistics)]}
        )

    parts = rows.mapInArrow(counted, "statistics binary")
    whole = parts.rdd.map(lambda row: pickle.loads(row.statistics)).treeReduce(
        lambda one, two: one + two
    )
    spark.stop()
    return model.fit_statistics(whole)


if __name__ == "__main__":
    print(main(sys.argv[1]).statistics_)
