# The common parts of apply, undo and measure: options, and files that hold one value. `muster
# doctor` knows the wanted values and the reasons.

# A prefix for /proc and /sys, so that the tests can work on a tree of their own.
root=${TUNING_ROOT:-}
# A restart removes this directory, as it undoes the changes that are recorded in it.
state_dir=${TUNING_STATE:-/run/muster-tuning}
dry_run=''
# Arguments for the doctor.
asked=()

# Prints the head of the running script.
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

# `doctor FORM ARGUMENT...`: runs the binary in MUSTER, the one in the path, or the newest one that
# was built here.
doctor() {
    local target=${BASH_SOURCE[0]%/*}/../target muster
    muster=${MUSTER:-$(command -v muster || ls -t "$target"/{release,debug}/muster 2>/dev/null | head -n 1)}
    local form=$1
    shift
    [[ -n $muster ]] || { echo "no muster: set MUSTER to the binary" >&2 && return 2; }
    "$muster" doctor --root "${root:-/}" --form "$form" "$@"
}

# The value in a file. In a list of choices it is the one in brackets, and an empty mask is 0.
value() {
    local text
    [[ -f $1 ]] && text=$(tr -s '\t\n' ' ' <"$1") || return 1
    [[ $text =~ \[([^]]*)\] ]] && text=${BASH_REMATCH[1]}
    [[ $text =~ ^[0,]+\ ?$ ]] && text=0
    printf '%s' "${text% }"
}

# Writes a value and checks that it is there: some files accept a write and ignore it.
write() {
    if ! printf '%s\n' "$2" 2>/dev/null >"$1" || [[ $(value "$1") != "$2" ]]; then
        echo "cannot write $2 to $1" >&2
        return 1
    fi
}

need_root() {
    ((EUID == 0)) || [[ -n $root ]] || { echo "needs root; --dry-run does not" >&2 && exit 1; }
}
