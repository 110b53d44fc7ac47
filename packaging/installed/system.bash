#  system.bash
#
#  A Debian that systemd boots, in `root`, with rpm beside dpkg. `leader` is its first process.
#  The Debian is made once, in `cache`; the changes of a day go to a separate layer. Also the
#  promises of a package and its server, however the package was installed.

# Waits until a command succeeds.
await() {
    local end=$((SECONDS + 180))
    until "$@" >/dev/null 2>&1; do
        ((SECONDS < end)) || { echo "not in time: $*" && "$@"; return 1; }
        sleep 0.2
    done
}

inside() { nsenter --target "$leader" --all -- "$@"; }

# A client of the server in these namespaces: see packaging/client.
client() { nsenter --target "$1" --net -- packaging/client 9092 "${@:2}"; }

has_topic() { client "$1" list | grep "$2" >/dev/null; }

page() {
    nsenter --target "$leader" --net -- python3 -c \
        'import sys, urllib.request as u; print(u.urlopen("http://127.0.0.1:9190" + sys.argv[1]).read().decode())' "$1"
}

is_installed_and_idle() {
    inside id muster && [[ $(inside systemctl is-active muster) == inactive ]]
}

starts() {
    inside systemctl enable --now muster && inside systemctl is-active muster &&
        inside journalctl --unit muster | grep ready
}

main_pid() { inside systemctl show --property MainPID --value muster; }

# systemd starts the server again after this signal.
starts_again_after() {
    local before
    before=$(main_pid)
    inside systemctl kill --kill-who=main --signal "$1" muster
    is_another() { [[ $(main_pid) != "$before" && $(inside systemctl is-active muster) == active ]]; }
    await is_another && await has_topic "$leader" orders
}

needed() {
    command -v debootstrap && command -v systemd-nspawn && /usr/bin/python3 -c 'import seccomp' && return
    apt-get -qq update &&
        apt-get -qq install -y --no-install-recommends debootstrap systemd-container python3-seccomp
}

# Creates the Debian, once.
debian_is_made() {
    [[ ! -e $cache/debian.with-rpm ]] || return 0
    rm -rf "$cache"/debian*
    debootstrap --variant=minbase --include=systemd,systemd-sysv,dbus,rpm bookworm "$cache/debian" &&
        touch "$cache/debian.with-rpm"
}

boots() {
    mkdir -p "$scratch/layer" "$root"
    mount -t tmpfs tmpfs "$scratch/layer" && mkdir "$scratch"/layer/{upper,work} &&
        mount -t overlay overlay "$root" -o \
            "lowerdir=$cache/debian,upperdir=$scratch/layer/upper,workdir=$scratch/layer/work" || return 1
    systemd-nspawn --directory "$root" --boot --register=no --keep-unit --private-network --quiet \
        </dev/null >"$scratch/console" 2>&1 &
    system=$!
    await pgrep -P "$system" && leader=$(pgrep -P "$system") &&
        await inside systemctl is-active multi-user.target
}

# Ends the machine, and removes its changes.
is_thrown_away() {
    [[ -z $system ]] || { kill "$system" && wait "$system"; }
    system=''
    ! mountpoint -q "$root" || umount "$root"
    ! mountpoint -q "$scratch/layer" || umount "$scratch/layer"
}
