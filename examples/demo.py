"""A small story: three people in one building, a day on Spark, and five towns with routers.

Run it with `make demo`. It parses subscriptions, delivers each event to exactly those who asked for
it, compares predicates, and explains why somebody heard nothing. Then Spark matches a day of events
in forty buildings with three thousand subscriptions: in one go, and as a stream while subscriptions
change. Finally routers on real sockets connect five towns (`live.py`).
"""

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from live import main as five_towns  # type: ignore[import-not-found]  # beside this file
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tidings import PredicateError, parse, union
from tidings.spark import Store, batches, match, match_stream, session

SUBSCRIPTIONS = {
    "ada": "kind = 'alert' and severity > 2",
    "ben": "device like 'pump-%' and (temperature > 80 or not exists temperature)",
    "cleo": "kind in ('alert', 'notice') and site.floor between 3 and 5 and not tags = 'test'",
}

EVENTS: list[dict[str, Any]] = [
    {"kind": "alert", "severity": 5, "device": "pump-7", "temperature": 91.5, "site": {"floor": 1}},
    {"kind": "notice", "severity": 1, "device": "lift-2", "site": {"floor": 4}},
    {"kind": "alert", "severity": 3, "device": "door-9", "site": {"floor": 3}, "tags": ["test"]},
    {"kind": "reading", "device": "pump-3", "temperature": 64, "site": {"floor": 2}},
    {"kind": "reading", "device": "pump-4", "site": {"floor": 2}},
]

OPTIONS = {"spark.sql.shuffle.partitions": "2", "spark.sql.session.timeZone": "UTC"}
EVENTS_A_DAY = 20_000
PEOPLE = 3_000
PORTER = "ben-2999"
DEVICES = ("pump", "lift", "door", "boiler", "camera")
KINDS = ("alert", "notice", *["reading"] * 6)


def main() -> None:
    """Tell the story."""
    one_building()
    with TemporaryDirectory() as folder:
        spark = session("local[2]", **OPTIONS)
        forty_buildings(spark, Path(folder))
        spark.stop()
    five_towns()


def one_building() -> None:
    """Three people and five events, in this process."""
    predicates = {who: parse(text) for who, text in SUBSCRIPTIONS.items()}

    heading("Three subscriptions: predicates on the content of events")
    for who, predicate in predicates.items():
        show(f"{who:5} {predicate}")

    heading("Five events, each delivered to exactly those who asked")
    for number, event in enumerate(EVENTS, start=1):
        heard = [who for who, predicate in predicates.items() if predicate.matches(event)]
        show(f"event {number}  {event['kind']:8} {event['device']:7} -> {', '.join(heard) or '-'}")

    heading("Why did Cleo not hear of event 3?")
    show(str(predicates["cleo"].explain(EVENTS[2])))

    heading("What one predicate says about another")
    wide, narrow = parse("severity > 2"), parse("severity between 4 and 6 and kind = 'alert'")
    show(f"({wide})  covers  ({narrow}):  {answer(wide.covers(narrow))}")
    show(f"({narrow})  covers  ({wide}):  {answer(narrow.covers(wide))}")
    absent, present = parse("not exists tags"), parse("tags contains 'fire'")
    show(f"({absent})  intersects  ({present}):  {answer(absent.intersects(present))}")

    heading("What a router keeps for a thousand people behind one link")
    crowd = [parse(f"kind = 'alert' and severity > {2 + n % 7}") for n in range(600)]
    crowd += [parse(f"device = 'pump-{n % 40}'") for n in range(400)]
    interest = union(crowd)
    before = sum(predicate.constraints for predicate in crowd)
    show(f"{len(crowd)} subscriptions, {before} constraints, reduced to {interest.constraints}:")
    text = str(interest)
    show(text if len(text) < 90 else f"{text[:86]} …")

    heading("A mistake is shown where it is")
    try:
        parse("kind = 'alert' and severity >> 2")
    except PredicateError as error:
        show(str(error))


def forty_buildings(spark: SparkSession, folder: Path) -> None:
    """Three thousand people and a day of events, on Spark."""
    people = subscriptions()
    rules = spark.createDataFrame(list(people.items()), "subscription string, predicate string")
    day = events_of_a_day(spark).cache()

    heading("A day in forty buildings, on Spark")
    matches = match(day, rules).cache()
    heard = matches.groupBy("subscription").count().orderBy(F.desc("count"), "subscription")
    counts = heard.collect()
    show(f"{day.count():,} events, {len(people):,} subscriptions")
    deliveries = sum(row["count"] for row in counts)
    show(f"{deliveries:,} deliveries to {len(counts):,} people")
    show("the busiest are")
    for row in counts[:4]:
        show(f"  {row['count']:5,} events  {row['subscription']:10} {people[row['subscription']]}")

    who = counts[len(counts) // 2]["subscription"]
    heading(f"What {who} asked for, and received")
    show(people[who])
    theirs = matches.where(F.col("subscription") == who).orderBy("time").collect()
    for event in theirs[:5]:
        show(f"  {described(event)}")
    show(f"  and {len(theirs) - 5} more")

    heading("The same day as a stream, and at noon people change their minds")
    store = Store(folder / "store")
    store.add(people)
    out, checkpoint = folder / "matches", folder / "checkpoint"
    half_a_day(spark, day.where("time < '12:00'"), store, out, checkpoint)
    show(f"{who} leaves, {PORTER} asks for lifts instead of doors, zoe-1 is new")
    store.remove(who)
    store.replace({PORTER: "kind = 'alert' and device prefix 'lift-' and building < 4"})
    store.add({"zoe-1": "severity = 9 and temperature > 95"})
    half_a_day(spark, day.where("time >= '12:00'"), store, out, checkpoint)
    for batch in batches(checkpoint):
        show(
            f"batch {batch.batch}: {batch.events:,} events met version {batch.version} of the "
            f"subscriptions, {batch.matches:,} deliveries"
        )
    some = (who, PORTER, "zoe-1")
    found = spark.read.parquet(str(out)).where(F.col("subscription").isin(*some))
    heard_in = {
        (row["subscription"], row["batch"]): row["count"]
        for row in found.groupBy("subscription", "batch").count().collect()
    }
    for person in some:
        before, after = (heard_in.get((person, batch), 0) for batch in (0, 1))
        show(f"{person:10} {before:3} events before noon, {after:3} after")


def half_a_day(
    spark: SparkSession, events: DataFrame, store: Store, out: Path, checkpoint: Path
) -> None:
    """Write events to the folder that the stream reads, and match them."""
    incoming = str(out.parent / "incoming")
    events.coalesce(1).write.mode("append").parquet(incoming)
    stream = spark.readStream.schema(events.schema).parquet(incoming)
    query = match_stream(
        stream, store, out=out, checkpoint=checkpoint, trigger={"availableNow": True}
    )
    query.awaitTermination()


def subscriptions() -> dict[str, str]:
    """What three thousand people ask for."""
    source = Random(7)
    people: dict[str, str] = {}
    for number in range(PEOPLE - 1):
        name = source.choice(["ada", "ben", "cleo", "dan", "eve"])
        device = f"{source.choice(DEVICES)}-{source.randrange(200)}"
        building = source.randrange(40)
        people[f"{name}-{number}"] = source.choice(
            [
                f"device = '{device}' and kind != 'reading'",
                f"building = {building} and severity >= {source.randrange(6, 9)}",
                f"building = {building} and floor between 2 and {source.randrange(3, 9)} "
                "and kind = 'alert'",
                f"device like '{device[:-1]}%' and temperature > {source.randrange(70, 95)}",
                f"kind in ('alert', 'notice') and device suffix '-{source.randrange(200)}'",
            ]
        )
    people[PORTER] = "kind = 'alert' and device prefix 'door-' and building < 4"
    return people


def events_of_a_day(spark: SparkSession) -> DataFrame:
    """Events that the executors make, each from its number alone."""

    def drawn(what: str, below: int) -> Column:
        return F.pmod(F.xxhash64("id", F.lit(what)), F.lit(below))

    def one_of(what: str, words: tuple[str, ...]) -> Column:
        return F.element_at(F.array(*map(F.lit, words)), (drawn(what, len(words)) + 1).cast("int"))

    seconds = F.floor(F.col("id") * 86_400 / EVENTS_A_DAY)
    device = F.concat(one_of("device", DEVICES), F.lit("-"), drawn("number", 200))
    temperature = F.when(drawn("sensor", 3) > 0, 20 + drawn("temperature", 800) / 10)
    return spark.range(0, EVENTS_A_DAY, 1, 2).select(
        F.date_format(F.timestamp_seconds(seconds), "HH:mm:ss").alias("time"),
        one_of("kind", KINDS).alias("kind"),
        device.alias("device"),
        drawn("building", 40).alias("building"),
        drawn("floor", 10).alias("floor"),
        drawn("severity", 10).alias("severity"),
        temperature.alias("temperature"),
    )


def described(event: Any) -> str:
    """An event in a line."""
    warm = "" if event["temperature"] is None else f", {event['temperature']:.1f} degrees"
    return (
        f"{event['time']}  {event['kind']} of {event['device']} in building {event['building']}, "
        f"floor {event['floor']}, severity {event['severity']}{warm}"
    )


def heading(text: str) -> None:
    """A line above a part of the story."""
    print(f"\n== {text}")


def show(text: str) -> None:
    """Lines of the story, indented."""
    for line in text.splitlines():
        print(f"   {line}".rstrip())


def answer(truth: bool) -> str:
    """Yes or no."""
    return "yes" if truth else "no"


if __name__ == "__main__":
    main()
