"""Every function on Spark Connect, for the test that runs it apart from the other tests.

`python connect_job.py FOLDER` starts a Connect server of its own and prints what it finds as JSON.
A process has either a classic session or a Connect session, so this is a process.
"""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

HELD = {"ada": "severity > 2", "ben": "device prefix 'web-'"}
ATTEMPTS = 10
TOO_BUSY = 75  # the code of a process on a machine on which Spark cannot start its worker in time
EVENTS = [(1, 3, "web-1"), (2, 1, "db-1"), (3, 7, None)]


def main(folder: Path) -> dict[str, Any]:
    """What every function finds."""
    from pyspark.sql import SparkSession

    from tidings.spark import (
        Store,
        batches,
        compile,
        match,
        match_stream,
        register,
        rejected_events,
    )
    from tidings.spark.java import java_home

    os.environ["JAVA_HOME"] = str(java_home())
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.remote("local[2]")
    spark: Any = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    assert type(spark).__module__.startswith("pyspark.sql.connect")
    events = spark.createDataFrame(EVENTS, "n int, severity int, device string")
    rows = [(*pair, "team") for pair in HELD.items()]
    rules = spark.createDataFrame(rows, "subscription string, predicate string, owner string")
    found: dict[str, Any] = {}

    def note(name: str, frame: Any, *columns: str) -> None:
        found[name] = sorted(map(list, frame.select(*columns).collect()))

    compiled = compile(rules)
    note("pairs", match(events, compiled), "n", "subscription")
    note("carried", match(events, rules, carry=["owner"]), "n", "subscription", "owner")
    note("counts", match(events, HELD, output="counts"), "subscription", "events")
    lists = match(events, HELD, output="lists").collect()
    found["lists"] = sorted([row["n"], sorted(row["subscriptions"])] for row in lists)
    register(spark, alerts=HELD)
    events.createOrReplaceTempView("events")
    sql = "SELECT n, explode(alerts(struct(*))) AS subscription FROM events"
    note("sql", spark.sql(sql), "n", "subscription")
    sql = "SELECT n FROM events WHERE tidings_matches('severity > 2', struct(*))"
    note("predicate", spark.sql(sql), "n")
    texts = spark.createDataFrame([(1, '{"severity": 9}'), (2, "{")], "n int, e string")
    note("rejected", rejected_events(texts, "e"), "n")

    store = Store(folder / "store")
    store.add(HELD)
    (folder / "incoming").mkdir()

    def stream() -> list[Any]:
        query = patiently(
            lambda: match_stream(
                spark.readStream.text(str(folder / "incoming")),
                store,
                out=folder / "out",
                checkpoint=folder / "checkpoint",
                json="value",
                trigger={"availableNow": True},
            )
        )
        query.awaitTermination()
        out = spark.read.parquet(str(folder / "out"))
        columns = ("value", "subscription", "version", "batch")
        return sorted(map(list, out.select(*columns).collect()))

    for number, texts_now in enumerate((['{"severity": 9}', "{"], ['{"device": "web-2"}'])):
        (folder / "incoming" / f"{number}.json").write_text("\n".join(texts_now))
        found[f"stream {number}"] = stream()
        store.add({f"cleo {number}": "exists device"})
    found["batches"] = [[b.version, b.events, b.matches] for b in batches(folder / "checkpoint")]
    found["own batches"] = own_batches(spark, store, folder)
    spark.stop()
    return found


def patiently(start: Callable[[], Any]) -> Any:
    """Start a query. Spark gives its worker ten seconds, which a busy machine may not have."""
    for _ in range(ATTEMPTS):
        try:
            return start()
        except Exception as error:
            if "connect back" not in str(error):
                raise
    sys.exit(TOO_BUSY)


def own_batches(spark: Any, store: Any, folder: Path) -> list[Any]:
    """What a function for `foreachBatch` gets, which runs on the server."""
    from tidings.spark import for_each_batch

    target = str(folder / "own")

    def write(matches: Any, rejected: Any, batch: int) -> None:
        matches.write.mode("overwrite").json(f"{target}/{batch}")

    run = for_each_batch(store, folder / "journal", write, json="value")
    lines = spark.readStream.text(str(folder / "incoming"))
    writer = lines.writeStream.foreachBatch(run).trigger(availableNow=True)
    writer = writer.option("checkpointLocation", str(folder / "other"))
    patiently(writer.start).awaitTermination()
    found = spark.read.json(f"{target}/*").select("value", "subscription", "version")
    return sorted(map(list, found.collect()))


if __name__ == "__main__":
    print("found", json.dumps(main(Path(sys.argv[1]))))
