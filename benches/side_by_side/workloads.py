"""The workloads: scenarios of muster-load in several sizes, and the metrics read from their results.

A workload runs as `muster-load SCENARIO OPTIONS` (or `muster-load echo OPTIONS` against an echo). Its
cells have one value for each of its metrics.
"""

import dataclasses
from collections.abc import Callable

from .servers import EARLIER

MIB = 2**20


@dataclasses.dataclass(frozen=True)
class Metric:
    key: str
    title: str
    value: Callable[[dict], float | None]
    form: str = ",.0f"
    #: Whether a higher figure is better; None if this is unknown, and no ratio is shown.
    more_is_better: bool | None = None


@dataclasses.dataclass(frozen=True)
class Workload:
    name: str
    title: str
    #: The unit of the sizes.
    sizes_of: str
    scenario: str
    #: The options of muster-load for each size, by the name of the size.
    sizes: dict[str, str]
    metrics: tuple[Metric, ...]
    servers: tuple[str, ...]
    #: The options of `muster-load echo` for each size, if echoes are measured.
    echo: dict[str, str] = dataclasses.field(default_factory=dict)
    explanation: str = ""

    def with_earlier(self) -> tuple[str, ...]:
        """Its servers; an earlier muster is measured in all workloads."""
        return (*self.servers, EARLIER.name)


def rebalance(number: int) -> Callable[[dict], float | None]:
    """How long the rebalance of this number took, in seconds."""

    def took(report: dict) -> float | None:
        all_of_them = report["rebalances"]
        millis = all_of_them[number]["took"] if number < len(all_of_them) else None
        return None if millis is None else millis / 1000

    return took


def after_crash(report: dict) -> float | None:
    """How long the rebalance after the crash took from the detection of the crash, in seconds."""
    found = (each["took_since_detected"] for each in report["rebalances"])
    millis = next((took for took in found if took is not None), None)
    return None if millis is None else millis / 1000


def longest_of(phase: str) -> Callable[[dict], float | None]:
    """The longest rebalance that began in this phase, in seconds."""

    def took(report: dict) -> float | None:
        of = next(each for each in report["phases"] if each["name"] == phase)
        began = (r for r in report["rebalances"] if of["began"] <= r["began"] < of["ended"])
        millis = [r["took"] for r in began]
        return None if not millis or None in millis else max(millis) / 1000

    return took


def window(report: dict) -> list[dict]:
    """The steps of the series that lie in the phase `measured`."""
    phase = next(phase for phase in report["phases"] if phase["name"] == "measured")
    step = report["series"]["step_seconds"]
    points = report["series"]["points"]
    return [p for p in points if p["at"] - step >= phase["began"] and p["at"] <= phase["ended"]]


def rate(name: str) -> Callable[[dict], float]:
    def per_second(report: dict) -> float:
        points = window(report)
        return sum(point["rates"].get(name, 0) for point in points) / max(len(points), 1)

    return per_second


def cores(report: dict) -> float:
    """The server's CPU seconds per second."""
    points = window(report)
    return sum(point["server_cpu"] or 0 for point in points) / max(len(points), 1)


def per_cpu_second(name: str) -> Callable[[dict], float | None]:
    return lambda report: rate(name)(report) / cores(report) if cores(report) else None


def latency(name: str, quantile: str) -> Callable[[dict], float | None]:
    return lambda report: report["latencies"].get(name, {}).get(quantile)


def throughput(name: str) -> tuple[Metric, ...]:
    """The metrics of a closed loop of one kind of request."""
    return (
        Metric("per_cpu", "per CPU-s", per_cpu_second(name), more_is_better=True),
        Metric("rate", "answers/s", rate(name)),
        Metric("p50", "p50 ms", latency(name, "p50"), ".2f"),
        Metric("p99", "p99 ms", latency(name, "p99"), ".2f", more_is_better=False),
        Metric("cores", "server", cores, ".0%"),
    )


def micros_each(name: str) -> Callable[[dict], float | None]:
    """The server's CPU time per event, in microseconds."""
    return lambda report: cores(report) / rate(name)(report) * 1e6 if rate(name)(report) else None


def each_costs(name: str) -> Metric:
    return Metric("cpu_each", "CPU µs each", micros_each(name), more_is_better=False)


def each_costs_over_all(name: str) -> Metric:
    """The server's CPU time per event, including all other work of the run."""

    def micros(report: dict) -> float | None:
        count = report["latencies"].get(name, {}).get("count")
        return report["server"]["cpu_seconds"] / count * 1e6 if count else None

    return Metric("cpu_each", "CPU µs a heartbeat", micros, more_is_better=False)


def answered_with(error: int) -> Callable[[dict], float]:
    """How many answers of the whole run had this error code."""
    return lambda report: sum(e["count"] for e in report["errors"] if e["code"] == error)


#: Kafka's answer while the markers of the previous transaction are written. Clients back off.
CONCURRENT_TRANSACTIONS = 51
BACK_OFFS = Metric("concurrent", "CONCURRENT_ TRANSACTIONS", answered_with(CONCURRENT_TRANSACTIONS))
VISIBLE = (
    Metric("visible_p50", "visible p50 ms", latency("visible", "p50"), ".2f"),
    Metric("visible_p99", "visible p99 ms", latency("visible", "p99"), ".2f", False),
)
#: The producers of a scenario, each with a partition.
PRODUCERS = {"1": "--producers 1 --partitions 1", "16": "--producers 16 --partitions 16"}


def of_producers(
    name: str,
    title: str,
    scenario: str,
    each: str,
    *,
    servers: tuple[str, ...] = ("muster", "kafka"),
    options: str = "",
    more: tuple[Metric, ...] = (),
    explanation: str = "",
) -> Workload:
    """Producers that repeat one action, named by `each`. `options` apply to all sizes."""
    back_offs = (BACK_OFFS,) if each == "transaction" else ()
    return Workload(
        name=name,
        title=title,
        sizes_of="producers",
        scenario=scenario,
        sizes={size: f"{of_size}{options}" for size, of_size in PRODUCERS.items()},
        metrics=(*throughput(each), each_costs(each), *back_offs, *more),
        servers=servers,
        explanation=explanation,
    )


def drained(name: str) -> Callable[[dict], float | None]:
    """Events per second of the server's CPU time, from a second before the first event to a second after
    the last one in the phase `measured`."""

    def per_cpu(report: dict) -> float | None:
        points = window(report)
        busy = [at for at, point in enumerate(points) if point["rates"].get(name)]
        if not busy:
            return None
        around = round(1 / report["series"]["step_seconds"])
        points = points[max(busy[0] - around, 0) : busy[-1] + around + 1]
        cpu = sum(point["server_cpu"] or 0 for point in points)
        return sum(point["rates"].get(name, 0) for point in points) / cpu if cpu else None

    return per_cpu


#: The stages of a record of a share group.
DELIVERY = (
    Metric("delivery_p50", "delivery p50 ms", latency("delivery", "p50"), ".2f"),
    Metric("delivery_p99", "delivery p99 ms", latency("delivery", "p99"), ".2f", False),
    Metric("ack_p50", "acknowledge p50 ms", latency("share-acknowledge", "p50"), ".2f"),
    Metric("ack_p99", "acknowledge p99 ms", latency("share-acknowledge", "p99"), ".2f", False),
)

CPU = Metric(
    "cpu",
    "server CPU-s",
    lambda report: report["server"]["cpu_seconds"],
    ".2f",
    more_is_better=False,
)
MEMORY = Metric(
    "memory",
    "memory MiB",
    lambda report: report["server"]["memory_bytes_max"] / MIB,
    more_is_better=False,
)

#: The phases of a group that reconciles.
REBALANCES = (
    Metric("formation", "formation s", rebalance(0), ".2f", more_is_better=False),
    Metric("join", "one joins s", rebalance(1), ".2f", more_is_better=False),
    Metric("crash", "10 % crash s", after_crash, ".2f", more_is_better=False),
    Metric("return", "10 % return s", longest_of("return"), ".2f", more_is_better=False),
    Metric("roll", "rolling restart s", longest_of("roll"), ".2f", more_is_better=False),
)

WORKLOADS = [
    Workload(
        name="classic",
        title="Rebalances of a classic group",
        sizes_of="members",
        scenario="classic.toml",
        sizes={
            f"{n:,}": f"--members {n + 1} --partitions {n // 100}"
            f" --set phase.formation.start.members={n}"
            for n in (1_000, 5_000, 10_000)
        },
        metrics=(
            Metric("formation", "formation s", rebalance(0), ".2f", more_is_better=False),
            Metric("join", "one joins s", rebalance(1), ".2f", more_is_better=False),
            Metric("rejoin", "all rejoin s", rebalance(2), ".2f", more_is_better=False),
            CPU,
            MEMORY,
        ),
        servers=("muster", "kafka"),
        explanation="Formation: all members start at the same moment. One joins: the others learn "
        "of it with their next heartbeat, up to a second later, and all rejoin. All rejoin: all "
        "left, and start again at the same moment. A partition for every ten members (Kafka keeps a "
        "descriptor for each, as for each connection), the range assignor, "
        "`group.initial.rebalance.delay.ms=0`.",
    ),
    Workload(
        name="consumer",
        title="Rebalances of a consumer group (KIP-848)",
        sizes_of="members",
        scenario="consumer.toml",
        sizes={
            f"{n:,}": f"--members {n + 1} --partitions {n // 10} --members-per-connection {shared}"
            f" --set phase.formation.start.members={n}"
            for n, shared in ((1_000, 1), (5_000, 1), (10_000, 10))
        },
        metrics=(*REBALANCES, CPU, MEMORY),
        servers=("muster", "kafka", "muster-1s", "kafka-1s"),
        explanation="As many partitions as members, the uniform assignor; members heartbeat every "
        "500 ms, and at once when they have something to say. "
        "`group.consumer.assignment.interval.ms=0`, but 1000, Kafka's default, where it says 1s. "
        "10 % crash: from when the coordinator finds out, after the session timeout. Rolling "
        "restart: five members, one every two seconds; the longest of the five. Of 10,000 members "
        "ten share a connection, for Kafka has a descriptor for each partition too.",
    ),
    Workload(
        name="consumer-heartbeat",
        title="Heartbeats of consumer groups as fast as they are answered",
        sizes_of="connections",
        scenario="heartbeat.toml",
        sizes={
            "64": "--groups 64 --protocol consumer",
            "1,000": "--groups 1000 --protocol consumer",
        },
        metrics=throughput("consumer-heartbeat"),
        servers=("muster", "kafka"),
    ),
    Workload(
        name="streams",
        title="Rebalances of a streams group (KIP-1071)",
        sizes_of="members",
        scenario="streams.toml",
        sizes={
            f"{n:,}": f"--members {n + 4} --partitions {n // 10} --members-per-connection {shared}"
            f" --set phase.formation.start.members={n}"
            for n, shared in ((1_000, 1), (5_000, 1), (10_000, 10))
        },
        metrics=(*REBALANCES, CPU, each_costs_over_all("streams-heartbeat"), MEMORY),
        servers=("muster", "kafka"),
        explanation="As many tasks as members, in ten subtopologies, of which one has a store with a "
        "standby for each task; four threads a process. Members heartbeat every 500 ms, and at once "
        "when they have something to say. `group.streams.initial.rebalance.delay.ms=0`, "
        "`group.streams.assignment.interval.ms=0`. 10 % crash: from when the coordinator finds out, "
        "after the session timeout. Rolling restart: five processes, one every two seconds; the "
        "longest of the five. Of 10,000 members ten share a connection.",
    ),
    Workload(
        name="streams-heartbeat",
        title="Heartbeats of streams groups as fast as they are answered",
        sizes_of="connections",
        scenario="heartbeat.toml",
        sizes={
            "64": "--groups 64 --protocol streams",
            "1,000": "--groups 1000 --protocol streams",
        },
        metrics=(*throughput("streams-heartbeat"), each_costs("streams-heartbeat")),
        servers=("muster", "kafka"),
    ),
    Workload(
        name="streams-groups",
        title="Streams groups of 50 members at rest",
        sizes_of="groups",
        scenario="streams-groups.toml",
        sizes={
            f"{n:,}": f"--groups {n} --members-per-connection 50" for n in (100, 1_000)
        },
        metrics=(
            Metric("cores", "server", cores, ".1%", more_is_better=False),
            each_costs("streams-heartbeat"),
            MEMORY,
            Metric("p99", "heartbeat p99 ms", latency("streams-heartbeat", "p99"), ".2f", False),
        ),
        servers=("muster", "kafka"),
        explanation="Each member sends a heartbeat every 5 seconds, Kafka's default. The members of "
        "a group share a connection. Memory is the highest resident size, formation included.",
    ),
    Workload(
        name="idle",
        title="A classic group that stands still",
        sizes_of="members",
        scenario="idle.toml",
        sizes={"10,000": "--members 10000 --partitions 100"},
        metrics=(
            Metric("cores", "server", cores, ".1%", more_is_better=False),
            MEMORY,
            Metric("p99", "heartbeat p99 ms", latency("heartbeat", "p99"), ".2f", False),
        ),
        servers=("muster", "kafka"),
        explanation="Each member has a connection and sends a heartbeat every 3 seconds. Memory is "
        "the highest resident size, formation included.",
    ),
    Workload(
        name="heartbeat",
        title="Heartbeats as fast as they are answered",
        sizes_of="connections",
        scenario="heartbeat.toml",
        sizes={"64": "--groups 64", "1,000": "--groups 1000"},
        metrics=throughput("heartbeat"),
        servers=("muster", "muster-poll", "kafka", "muster-tls", "kafka-tls", "echo"),
        echo={
            "64": "--connections 64 --in-flight 1",
            "1,000": "--connections 1000 --in-flight 1",
        },
    ),
    Workload(
        name="commit",
        title="Commits of one partition, one at a time on each connection",
        sizes_of="connections",
        scenario="commit.toml",
        sizes={"1": "--groups 1", "64": "--groups 64", "1,000": "--groups 1000"},
        metrics=throughput("commit"),
        servers=(
            "muster",
            "muster-poll",
            "muster-ram",
            "kafka",
            "kafka-flushed",
            "muster-tls",
            "kafka-tls",
            "durable-echo",
        ),
        echo={
            "1": "--connections 1 --in-flight 1",
            "64": "--connections 64 --in-flight 1",
            "1,000": "--connections 1000 --in-flight 1",
        },
    ),
    Workload(
        name="pipelined",
        title="Commits of one partition, 32 at a time on each connection",
        sizes_of="connections",
        scenario="commit.toml",
        sizes={
            "1": "--groups 1 --in-flight 32",
            "64": "--groups 64 --in-flight 32",
            "1,000": "--groups 1000 --in-flight 32",
        },
        metrics=throughput("commit"),
        servers=("muster", "muster-ram", "kafka", "kafka-flushed"),
    ),
    of_producers(
        "transactions",
        "Transactions of one record, one at a time of each producer",
        "transactions.toml",
        "transaction",
        servers=("muster", "muster-ram", "kafka", "kafka-flushed"),
        explanation="A record of 100 bytes, transactions version 2. muster's transactions are on "
        "stable storage when they are answered, Kafka's in the page cache.",
    ),
    of_producers(
        "transactions-offsets",
        "Transactions of one record and one committed offset",
        "transactions-offsets.toml",
        "transaction",
    ),
    of_producers(
        "transactions-read",
        "Transactions of one record, and a reader of what is committed",
        "transactions-read.toml",
        "transaction",
        more=VISIBLE,
        explanation="Visible: from the call of EndTxn until the reader has the record. The reader "
        "has read_committed, and its fetches wait for a byte. That it is returned all of each "
        "transaction, once and in order, and nothing else, is checked.",
    ),
    of_producers(
        "produce",
        "Records without transactions, one at a time of each producer",
        "produce.toml",
        "produce",
        options=" --set producer.writer.idempotent=false",
    ),
    of_producers(
        "produce-idempotent", "The same with sequence numbers", "produce.toml", "produce"
    ),
    Workload(
        name="share",
        title="Records of a share group that are there: acquired, and acknowledged batch by batch",
        sizes_of="members",
        scenario="share.toml",
        sizes={"16": ""},
        metrics=(
            Metric("per_cpu", "records per CPU-s", drained("delivery"), more_is_better=True),
            Metric("acks", "requests per CPU-s", drained("share-acknowledge")),
            Metric("fairness", "fairness", lambda r: r["shares"]["spread"][0]["fairness"], ".3f"),
        ),
        servers=("muster", "kafka"),
        explanation="Batches of 1,000 records of 100 bytes; a fetch returns one of them, a "
        "ShareAcknowledge accepts it. muster has an acknowledgement on stable storage when it is "
        "answered, Kafka in the page cache.",
    ),
    Workload(
        name="share-record",
        title="The same, acknowledged one by one",
        sizes_of="members",
        scenario="share.toml",
        sizes={"16": "--set group.workers.share.acknowledge=record --set phase.fill.lasts=2s"},
        metrics=(
            Metric("per_cpu", "records per CPU-s", drained("share-acknowledge"), more_is_better=True),
            *DELIVERY[2:],
        ),
        servers=("muster", "kafka"),
        explanation="A ShareAcknowledge for each record, one at a time of each member.",
    ),
    Workload(
        name="share-latency",
        title="Records of a share group as they are written",
        sizes_of="members",
        scenario="share-latency.toml",
        sizes={
            "64": "",
            "1,000": "--members 1000 --partitions 1 --set producer.writer.produce.rate=12.5",
        },
        metrics=(
            *DELIVERY,
            Metric("cpu_each", "CPU µs a record", micros_each("delivery"), ".1f", False),
            Metric("cores", "server", cores, ".0%"),
        ),
        servers=("muster", "kafka"),
        explanation="2,000 records a second in batches of ten to 16 partitions; 500 to one "
        "partition, which 1,000 members share, each with a fetch that waits. Delivery: from when a "
        "record was due to be written until a member has it.",
    ),
    Workload(
        name="share-beside",
        title="Groups next to a share group",
        sizes_of="with",
        scenario="share-beside.toml",
        sizes={"nothing": "--set producer.writer.produce.rate=0.001", "records": ""},
        metrics=(
            Metric("commit", "commit p99 ms", latency("commit", "p99"), ".2f", False),
            Metric("heartbeat", "heartbeat p99 ms", latency("heartbeat", "p99"), ".2f", False),
            Metric("consumer", "consumer p99 ms", latency("consumer-heartbeat", "p99"), ".2f", False),
        ),
        servers=("muster", "kafka"),
        explanation="A classic and a consumer group of 50 members each, which commit 400 times a "
        "second, and a share group of 64 members without records, and with 2,000 records a second.",
    ),
]
