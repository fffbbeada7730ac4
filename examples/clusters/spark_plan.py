"""Transcribe a plan with Spark: each row of a DataFrame is a shard of the plan.

whisperbatch plan s3://talks/2026 -o s3://jobs/talks.plan --model base
spark-submit examples/clusters/spark_plan.py s3://jobs/talks.plan base 200
"""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict

import pandas as pd
from pyspark.sql import SparkSession

import whisperbatch as wb

plan, model, shards = sys.argv[1], sys.argv[2], int(sys.argv[3])


def work(batches: Iterable[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """Transcribe shards. An error is a row, because a failed task would stop the other shards."""
    with wb.load(model) as asr:
        for shard in (int(number) for batch in batches for number in batch["id"]):
            row = {"shard": shard, "transcribed": 0, "failed": 0, "left": 0, "seconds": 0.0}
            try:
                row |= asdict(wb.jobs.work(plan, asr=asr, shard=(shard, shards)))
                yield pd.DataFrame([row | {"error": ""}])
            except wb.WhisperBatchError as error:
                yield pd.DataFrame([row | {"error": str(error)}])


# With speculation, a shard would run twice at the same time: the copies take each other's tasks.
spark = SparkSession.builder.config("spark.speculation", "false").getOrCreate()
schema = "shard long, transcribed long, failed long, left long, seconds double, error string"
reports = spark.range(0, shards, 1, numPartitions=shards).mapInPandas(work, schema)
for report in reports.collect():  # show() would start a few shards only
    if report.failed or report.left or report.error:
        print(report)
