"""The results as a page of Markdown: medians of the rounds, with the lowest and the highest."""

import statistics

from .servers import CLIENT_CORE, SERVER_CORE, SERVERS

TITLES = {server.name: server.title for server in SERVERS}
MODES = {"heartbeat": "Heartbeats", "commit": "Commits of one partition"}
RATIOS = ["echo", "durable-echo", "kafka"]


def page(result: dict) -> str:
    parts = [f"# Side by side, {result['date']}", head(result)]
    for mode in result["options"]["modes"]:
        parts += [f"## {MODES[mode]}", mode_table(result, mode)]
    ratios = ratio_table(result)
    if ratios:
        parts += ["## muster against the others", ratios]
    parts += ["## How it ran", how(result)]
    return "\n\n".join(parts) + "\n"


def head(result: dict) -> str:
    machine, options = result["machine"], result["options"]
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    return f"""\
- Machine: {machine["cpu"]}{" (virtual)" if machine["virtual"] else ""}, {machine["cores"]} cores, \
{machine["memory_gib"]} GiB, Linux {machine["kernel"]}; data on {machine["file_system"]}, where a \
write of 4 KiB with fdatasync takes {machine["flush_us_p50"]} us (median); load average before the \
run {machine["load_average"]}.
- Versions: {versions}.
- Server on core {SERVER_CORE} alone, client on core {CLIENT_CORE}; a closed loop with one request \
in flight on each connection; every answer checked, 0 errors, and after commits the stored offsets.
- {options["rounds"]} round(s), all servers in each, every server started anew; \
{options["seconds"]} s measured after {options["warmup"]} s with the same load (Kafka: before that \
{options["kafka_warmup"]} s of each mode for its compiler). Each cell is the median of the rounds, \
with (lowest to highest).
- **Kafka does not flush**: it answers when a commit is in the page cache. muster and the durable \
echo answer when it is on the disk.
- "per CPU-s": answers per second of the server process's CPU time (user and system, all threads). \
"core 0": how busy its core was with everything, that of the kernel for the disk included."""


def mode_table(result: dict, mode: str) -> str:
    rows = [
        "| connections | server | per CPU-s | answers/s | p50 us | p99 us | p99.9 us | max us "
        "| server | core 0 | client | RSS MiB |",
        "|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for connections in result["options"]["connections"]:
        for server in result["options"]["servers"]:
            cells = select(result, server, mode, connections)
            if cells:
                rows.append(row(connections, TITLES[server], cells))
    return "\n".join(rows)


def row(connections: int, title: str, cells: list[dict]) -> str:
    busy = {
        "server": [cell["server"]["cpu_seconds"] / cell["seconds"] for cell in cells],
        "core": [cell["server"]["core_busy_seconds"] / cell["seconds"] for cell in cells],
        "client": [cell["client"]["cpu_seconds"] / cell["seconds"] for cell in cells],
    }
    columns = [
        str(connections),
        title,
        spread([cell["server"]["answers_per_cpu_second"] for cell in cells]),
        spread([cell["answers_per_second"] for cell in cells]),
        *(spread([cell["latency_us"][q] for cell in cells]) for q in ("p50", "p99", "p999")),
        f"{statistics.median(cell['latency_us']['max'] for cell in cells):,.0f}",
        *(f"{statistics.median(share):.0%}" for share in busy.values()),
        f"{statistics.median(cell['server']['resident_bytes'] for cell in cells) / 2**20:,.0f}",
    ]
    return f"| {' | '.join(columns)} |"


def ratio_table(result: dict) -> str:
    others = [name for name in RATIOS if name in result["options"]["servers"]]
    if "muster" not in result["options"]["servers"] or not others:
        return ""
    names = [f"muster / {TITLES[name]}" for name in others]
    rows = [
        "Ratios within each round, then their median (lowest to highest): of answers per "
        "CPU-second more is better, of p99 less.\n",
        f"| | connections | {' | '.join(f'{n}, per CPU-s | {n}, p99' for n in names)} |",
        "|---|---:|" + "---:|" * 2 * len(names),
    ]
    for mode in result["options"]["modes"]:
        for connections in result["options"]["connections"]:
            columns = [ratios(result, other, mode, connections) for other in others]
            rows.append(f"| {mode} | {connections} | {' | '.join(columns)} |")
    return "\n".join(rows)


def ratios(result: dict, other: str, mode: str, connections: int) -> str:
    ours = select(result, "muster", mode, connections)
    theirs = select(result, other, mode, connections)
    if not theirs:
        return "– | –"
    pairs = list(zip(ours, theirs, strict=True))
    per_cpu = [
        a["server"]["answers_per_cpu_second"] / b["server"]["answers_per_cpu_second"]
        for a, b in pairs
    ]
    p99 = [a["latency_us"]["p99"] / b["latency_us"]["p99"] for a, b in pairs]
    return f"{spread(per_cpu, '.2f')} | {spread(p99, '.2f')}"


def how(result: dict) -> str:
    lines = [f"    {result['command']}", "", "which runs, with paths and ports of its own:", ""]
    for name in result["options"]["servers"]:
        server = next(server for server in SERVERS if server.name == name)
        lines.append(f"    taskset -c {SERVER_CORE} {server.command}")
    lines += [
        "",
        f"    taskset -c {CLIENT_CORE} " + result["client_command"],
    ]
    return "\n".join(lines)


def select(result: dict, server: str, mode: str, connections: int) -> list[dict]:
    """The cells of all rounds, in their order."""
    wanted = (server, mode, connections)
    return [
        cell
        for cell in sorted(result["cells"], key=lambda cell: cell["round"])
        if (cell["of"], cell["mode"], cell["connections"]) == wanted
    ]


def spread(values: list[float], form: str = ",.0f") -> str:
    low, high = min(values), max(values)
    among = f" ({low:{form}} to {high:{form}})" if len(values) > 1 else ""
    return f"{statistics.median(values):{form}}{among}"
