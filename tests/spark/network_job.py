"""A stream from the live network, through Spark, and back: for tests that kill parts of it.

`python network_job.py MASTER URL FOLDER` runs until it is killed. It writes the events that match
to `FOLDER/out` and publishes them again with `again` instead of `n`. Every task leaves a mark with
the process id of its executor in `FOLDER/marks`.
"""

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from tests.spark.slow_job import OPTIONS


def main() -> None:
    from tidings.spark import register_source, session, ship, subscribe

    master, url, folder = sys.argv[1:]
    spark = session(master, **OPTIONS, **{"spark.sql.shuffle.partitions": "2"})
    ship(spark)
    register_source(spark)
    marks = f"{folder}/marks"

    def marked(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        daemon = os.getppid()
        executor = Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1]
        for batch in batches:
            Path(marks, f"{executor}-{time.monotonic_ns()}").touch()
            time.sleep(0.05)
            yield batch

    found = subscribe(url, "n >= 0", schema="n long", journal=f"{folder}/journal")
    numbers = found.events.repartition(4).mapInArrow(marked, "n long")
    out = numbers.writeStream.format("parquet").option("path", f"{folder}/out")
    first = out.option("checkpointLocation", f"{folder}/checkpoint").start()
    copies = spark.readStream.schema("n long").parquet(f"{folder}/out").selectExpr("n AS again")
    back = copies.writeStream.format("tidings").options(
        url=url, id="key", journal=f"{folder}/notes", checkpointLocation=f"{folder}/back"
    )
    back.start()
    first.awaitTermination()


if __name__ == "__main__":
    main()
