# What apply, undo and measure share: options, and files that hold one value. What the files should
# hold, and why, is known to `muster doctor`.

# A prefix for /proc and /sys, so that the tests can work on a tree of their own.
root=${TUNING_ROOT:-}
# Gone after a restart, like the changes it speaks of.
state_dir=${TUNING_STATE:-/run/muster-tuning}
dry_run=''
# Arguments for the doctor.
asked=()

# The head of the script that is run.
describe_usage() {
    sed -n '2,/^[^#]/s/^# \{0,2\}//p' "$0"
}

usage() {
    describe_usage >&2
    exit 2
}

parse_options() {
    while (($#)); do
        case $1 in
            -h | --help) describe_usage && exit 0 ;;
            --dry-run) dry_run=1 && shift && continue ;;
            --data | --interface | --irq-cpus | --only | --profile) (($# > 1)) || usage ;;
            *) usage ;;
        esac
        asked+=("$1" "$2")
        shift 2
    done
}

# `doctor FORM ARGUMENT...`: of MUSTER, that of the path, or the newest one that was built here.
doctor() {
    local target=${BASH_SOURCE[0]%/*}/../target muster
    muster=${MUSTER:-$(command -v muster || ls -t "$target"/{release,debug}/muster 2>/dev/null | head -n 1)}
    local form=$1
    shift
    [[ -n $muster ]] || { echo "no muster: set MUSTER to the binary" >&2 && return 2; }
    "$muster" doctor --root "${root:-/}" --form "$form" "$@"
}

# The value in a file: of a list of choices the one in brackets, of an empty mask 0.
value() {
    local text
    [[ -f $1 ]] && text=$(tr -s '\t\n' ' ' <"$1") || return 1
    [[ $text =~ \[([^]]*)\] ]] && text=${BASH_REMATCH[1]}
    [[ $text =~ ^[0,]+\ ?$ ]] && text=0
    printf '%s' "${text% }"
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
