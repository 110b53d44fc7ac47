# The knobs: what the host is asked to be. Sourced by check, apply and undo.
#
# `knobs` calls `file_knob` and `advice` once for each; the caller defines both:
#   file_knob NAME WANTED WHY FILE...         files that hold one value; apply may write them
#   advice    NAME PRESENT WANTED STATE WHY   what only the administrator can change
# WANTED is alternatives `a|b` (the first is what apply writes), `>=N` or `<=N`.

# A prefix for /proc/sys and /sys, so that the tests can work on a tree of their own.
root=${TUNING_ROOT:-}
# Gone after a restart, like the changes it speaks of.
state_dir=${TUNING_STATE:-/run/muster-tuning}
data=. interface='' irq_cpus='' only='' dry_run=''

# The head of the script that is run.
describe_usage() {
    sed -n '2,/^[^#]/s/^# \{0,2\}//p' "$0"
}

usage() {
    describe_usage >&2
    exit 2
}

# The names of all knobs.
knob_names() (
    file_knob() { echo "$1"; }
    advice() { echo "$1"; }
    shopt -s nullglob
    knobs 2>/dev/null | sort
)

parse_options() {
    while (($#)); do
        case $1 in
            -h | --help) describe_usage && exit 0 ;;
            --dry-run) dry_run=1 && shift && continue ;;
            --data | --interface | --irq-cpus | --only) (($# > 1)) || usage ;;
            *) usage ;;
        esac
        case $1 in
            --data) data=$2 ;;
            --interface) interface=$2 ;;
            --irq-cpus) irq_cpus=$2 ;;
            --only) only=$2 ;;
        esac
        shift 2
    done
    [[ -d $data ]] || { echo "no such directory: $data" >&2 && exit 2; }
    if [[ -n $only ]] && ! knob_names | grep -qxF -- "$only"; then
        { echo "there is no knob $only; there are:" && knob_names; } >&2
        exit 2
    fi
    interface=${interface:-$(default_interface)}
    shopt -s nullglob
}

default_interface() {
    awk '$2 == "00000000" { print $1; exit }' /proc/net/route 2>/dev/null
}

# The value in a file: of a list of choices the one in brackets, of an empty mask 0.
value() {
    local text
    [[ -f $1 ]] && text=$(tr -s '\t\n' ' ' <"$1") || return 1
    [[ $text =~ \[([^]]*)\] ]] && text=${BASH_REMATCH[1]}
    [[ $text =~ ^[0,]+\ ?$ ]] && text=0
    printf '%s' "${text% }"
}

# Whether a value is the wanted one.
fits() {
    case $2 in
        '>='*) [[ $1 == unlimited ]] || { [[ $1 =~ ^-?[0-9]+$ ]] && (($1 >= ${2#>=})); } ;;
        '<='*) [[ $1 =~ ^-?[0-9]+$ ]] && (($1 <= ${2#<=})) ;;
        *) [[ "|$2|" == *"|$1|"* ]] ;;
    esac
}

# What apply writes for a wanted value.
target() {
    local first=${1%%|*}
    printf '%s' "${first#[<>]=}"
}

# Writes a value and sees that it is there: some files take a write and ignore it.
write() {
    if ! printf '%s\n' "$2" 2>/dev/null >"$1" || [[ $(value "$1") != "$2" ]]; then
        echo "cannot write $2 to $1" >&2
        return 1
    fi
}

need_root() {
    ((EUID == 0)) || [[ -n $root ]] || { echo "needs root; --dry-run does not" >&2 && exit 1; }
}

sysctl_knob() {
    file_knob "$1" "$2" "$3" "$root/proc/sys/${1//.//}"
}

# An advice whose state follows from the values.
advise() {
    local state=change
    [[ -z $2 ]] && state=absent
    fits "$2" "$3" && state=ok
    advice "$1" "${2:--}" "$3" "$state" "$4"
}

knobs() {
    process_knobs
    network_knobs
    cpu_knobs
    memory_knobs
    disk_knobs
}

process_knobs() {
    local memlock=$((416 * ($(nproc) + 1)))
    sysctl_knob kernel.io_uring_disabled 0 'muster does all its I/O through io_uring'
    advise limit.nofile "$(ulimit -Hn)" '>=1048576' 'a connection is a descriptor: LimitNOFILE='
    advise limit.memlock "$(ulimit -Hl)" ">=$memlock" 'KiB, 416 for each ring: LimitMEMLOCK='
}

network_knobs() {
    sysctl_knob net.core.somaxconn '>=4096' 'clients that reconnect at once wait to be accepted'
    sysctl_knob net.ipv4.tcp_max_syn_backlog '>=4096' 'the same clients, half open'
    sysctl_knob net.ipv4.tcp_congestion_control \
        'cubic|reno|dctcp' 'bbr paces: a timer per connection'
    sysctl_knob net.core.netdev_budget "$(netdev_budget)" \
        'packets per softirq; 600 if it ever ran out'
    file_knob nic.rps 0 'a packet stays on the core that its queue interrupts' \
        "$root/sys/class/net/$interface/queues/"rx-*/rps_cpus
    irq_knob
}

# The default of 300 is enough where softirqs were hardly ever cut short by it.
netdev_budget() {
    local squeezed squeezes=0
    while read -r _ _ squeezed _; do
        ((squeezes += 16#$squeezed))
    done <"$root/proc/net/softnet_stat"
    ((squeezes > 100)) && echo '>=600' || echo '>=300'
}

irq_knob() {
    local irq files=() why='interrupts of the NIC: which cores serve them'
    for irq in "$root/sys/class/net/$interface/device/"{,../}msi_irqs/*; do
        files+=("$root/proc/irq/${irq##*/}/smp_affinity_list")
    done
    local wanted=${irq_cpus:-$(present "${files[@]}")}
    file_knob nic.irq_affinity "${wanted:-any}" "$why (--irq-cpus)" "${files[@]}"
}

cpu_knobs() {
    local cpu=$root/sys/devices/system/cpu
    file_knob cpu.governor performance \
        'a core that idles between batches starts the next one slowly' \
        "$cpu"/cpufreq/policy*/scaling_governor
    file_knob cpu.deep_idle 1 \
        'idle states that take over 20 us to leave, disabled' $(deep_idle_files)
    advise cpu.smt "$(value "$cpu/smt/active")" 0 'two shards on one core halve each other: nosmt'
    local isolated nohz
    isolated=$(value "$cpu/isolated") nohz=$(value "$cpu/nohz_full")
    advise cpu.isolcpus "${isolated:-none}" "${isolated:-the shards}" \
        'nothing else on the cores of shards'
    advise cpu.nohz_full "${nohz:-none}" "${isolated:-the shards}" \
        'no tick there; rcu_nocbs follows it'
}

# The states of all cores that are left in more than 20 microseconds.
deep_idle_files() {
    local state
    for state in "$root"/sys/devices/system/cpu/cpu[0-9]*/cpuidle/state*; do
        (($(value "$state/latency") > 20)) && echo "$state/disable"
    done
}

memory_knobs() {
    local huge=$root/sys/kernel/mm/transparent_hugepage nodes
    file_knob memory.thp \
        'madvise|never' 'whole huge pages for small rings and buffers' "$huge/enabled"
    file_knob memory.thp_defrag \
        'madvise|defer+madvise|defer|never' 'a page fault must not compact' \
        "$huge/defrag"
    sysctl_knob vm.swappiness '<=1' 'a shard that waits for its own memory stalls all its groups'
    sysctl_knob vm.zone_reclaim_mode 0 'page cache of the other node beats reclaiming'
    sysctl_knob kernel.numa_balancing 0 'pages of pinned shards need no unmapping to be sampled'
    nodes=$(value "$root/sys/devices/system/node/online")
    advise memory.numa_nodes "$nodes" 0 \
        'more than one: numactl --cpunodebind --membind, one node each'
    sysctl_knob vm.dirty_background_ratio \
        '<=5' 'produced records are written out steadily, not in bursts'
}

disk_knobs() {
    local queue
    queue=$(queue_dir)
    file_knob disk.scheduler none 'one writer for each log: nothing to reorder' "$queue"/scheduler
    file_knob disk.wbt "$(write_back_throttle "$queue")" \
        'write-back of produced records yields to the log' \
        "$queue"/wbt_lat_usec
    advise disk.write_cache "$(write_cache "$queue")" 'write through|write back, fua' \
        'without FUA each durable write is followed by a flush of the whole cache'
    advise disk.filesystem "$(mounted FSTYPE)" 'ext4|xfs' 'O_DIRECT and O_DSYNC'
    local noatime=relatime
    [[ ,$(mounted OPTIONS), == *,noatime,* ]] && noatime=noatime
    advise disk.atime "$noatime" noatime 'a fetch must not write an inode: mount -o remount,noatime'
}

mounted() {
    findmnt -rno "$1" --target "$data" | tr -d ' '
}

# The queue of the disk that the data directory is on; nothing for one that is no disk.
queue_dir() {
    local device
    device=$(readlink -f "$root/sys/dev/block/$(mounted MAJ:MIN)") || return 0
    [[ -e $device/partition ]] && device=${device%/*}
    echo "$device/queue"
}

# Any but 0, which is off; the kernel's own default for solid state is 2 ms.
write_back_throttle() {
    local present
    present=$(value "$1/wbt_lat_usec") || return 0
    ((present > 0)) && echo "$present" || echo 2000
}

write_cache() {
    local cache
    cache=$(value "$1/write_cache") || return 0
    [[ $(value "$1/fua") == 1 ]] && cache+=', fua'
    echo "$cache"
}

# What is in some files: each different value once.
present() {
    local file
    for file in "$@"; do value "$file" && echo; done | sort -u | paste -sd,
}
