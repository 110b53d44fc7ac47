"""The results as a page of Markdown: medians of the rounds, with the lowest and the highest."""

import statistics

from .servers import CLIENT_CORE, SERVER_CORE, SERVERS
from .workloads import WORKLOADS, Workload

TITLES = {server.name: server.title for server in SERVERS}
#: The pairs of servers whose ratios are shown, if both ran.
PAIRS = [
    ("muster", "earlier"),
    ("muster", "kafka"),
    ("muster-ram", "kafka"),
    ("muster", "kafka-flushed"),
    ("muster", "echo"),
    ("muster", "durable-echo"),
    ("muster-1s", "kafka-1s"),
    ("muster-poll", "muster"),
    ("muster-poll", "kafka"),
]


def page(result: dict) -> str:
    parts = [f"# Side by side, {result['date']}", head(result)]
    for workload in chosen(result):
        parts += [f"## {workload.title}"]
        parts += [workload.explanation] if workload.explanation else []
        parts += [measured(result, workload)]
        ratios = ratio_table(result, workload)
        parts += [ratios] if ratios else []
    parts += ["## How it ran", how(result)]
    return "\n\n".join(parts) + "\n"


def chosen(result: dict) -> list[Workload]:
    ran = {cell["workload"] for cell in result["cells"]}
    return [workload for workload in WORKLOADS if workload.name in ran]


def head(result: dict) -> str:
    machine, options = result["machine"], result["options"]
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    return f"""\
- Machine: {machine["cpu"]}{" (virtual)" if machine["virtual"] else ""}, {machine["cores"]} cores, \
{machine["memory_gib"]} GiB, Linux {machine["kernel"]}; data on {machine["file_system"]}, where a \
write of 4 KiB with fdatasync takes {machine["flush_us_p50"]} us (median); load average before the \
run {machine["load_average"]}.
- Versions: {versions}.
- Server on core {SERVER_CORE} alone, muster-load on core {CLIENT_CORE}, all checks on: a cell \
in which a coordinator violated a guarantee is reported as failed.
- {options["rounds"]} round(s), all servers in each, every server restarted (Kafka: then \
{options["kafka_warmup"]} s of each workload for its compiler). Each cell is the median of the \
rounds, with (lowest to highest).
- **Kafka does not flush**: it answers when a commit is in the page cache. muster and the durable \
echo answer when it is on the disk; "Kafka, flushed" has `log.flush.interval.messages=1`; "muster in \
RAM" has its data on a tmpfs, where a flush costs nothing.
- "per CPU-s": answers per second of the server process's CPU time (user and system, all threads)."""


def measured(result: dict, workload: Workload) -> str:
    titles = [metric.title for metric in workload.metrics]
    rows = [
        f"| {workload.sizes_of} | server | {' | '.join(titles)} |",
        "|---:|---|" + "---:|" * len(titles),
    ]
    for size in workload.sizes:
        for server in workload.with_earlier():
            cells = select(result, workload, server, size)
            if cells:
                values = [spread(cells, metric) for metric in workload.metrics]
                failed = sum("failed" in cell["values"] for cell in cells)
                title = TITLES[server] + (f" ({failed} of {len(cells)} failed)" if failed else "")
                rows.append(f"| {size} | {title} | {' | '.join(values)} |")
    return "\n".join(rows)


def ratio_table(result: dict, workload: Workload) -> str:
    metrics = [metric for metric in workload.metrics if metric.more_is_better is not None]
    ran = {cell["of"] for cell in result["cells"] if cell["workload"] == workload.name}
    pairs = [pair for pair in PAIRS if ran.issuperset(pair)]
    if not pairs:
        return ""
    better = [f"{m.title} ({'more' if m.more_is_better else 'less'} is better)" for m in metrics]
    rows = [
        f"| {workload.sizes_of} | ratio | {' | '.join(better)} |",
        "|---:|---|" + "---:|" * len(metrics),
    ]
    for size in workload.sizes:
        for ours, theirs in pairs:
            if not select(result, workload, ours, size):
                continue
            columns = [ratio(result, workload, size, ours, theirs, m.key) for m in metrics]
            name = f"{TITLES[ours]} / {TITLES[theirs]}"
            rows.append(f"| {size} | {name} | {' | '.join(columns)} |")
    return "\n".join(rows)


def ratio(result: dict, workload: Workload, size: str, ours: str, theirs: str, key: str) -> str:
    """The ratio within each round, then the median (lowest to highest) of the rounds."""
    pairs = zip(select(result, workload, ours, size), select(result, workload, theirs, size))
    values = [(a["values"].get(key), b["values"].get(key)) for a, b in pairs]
    return among([a / b for a, b in values if a is not None and b], ".2f")


def how(result: dict) -> str:
    lines = [f"    {result['command']}", "", "which runs, with paths and ports of its own:", ""]
    ran = {cell["of"] for cell in result["cells"]}
    for server in SERVERS:
        if server.name in ran:
            lines.append(f"    taskset -c {SERVER_CORE} {server.command}")
    lines += ["", *(f"    {command}" for command in result["client_commands"])]
    return "\n".join(lines)


def select(result: dict, workload: Workload, server: str, size: str) -> list[dict]:
    """The cells of all rounds, in their order."""
    wanted = (workload.name, server, size)
    return [
        cell
        for cell in sorted(result["cells"], key=lambda cell: cell["round"])
        if (cell["workload"], cell["of"], cell["size"]) == wanted
    ]


def spread(cells: list[dict], metric) -> str:
    values = [cell["values"].get(metric.key) for cell in cells]
    return among([value for value in values if value is not None], metric.form)


def among(values: list[float], form: str) -> str:
    if not values:
        return "–"
    low, high = min(values), max(values)
    both = f" ({low:{form}} to {high:{form}})" if len(values) > 1 else ""
    return f"{statistics.median(values):{form}}{both}"
