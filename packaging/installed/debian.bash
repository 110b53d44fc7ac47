#  debian.bash
#
#  The day of an operator with the Debian package.

day_of_debian() {
    expect 'two releases of the Debian package are built' debian_packages
    expect 'the package is installed' installs first
    expect 'it has its user, and nothing is started by it' is_installed_and_idle
    expect 'the unit starts, and says when it is ready' starts
    expect 'it listens on loopback alone' listens_on_loopback
    expect 'a client makes a topic' client "$leader" create orders
    expect 'it is watched' is_watched
    expect 'systemd starts it again after kill -9' starts_again_after KILL
    expect 'and after it has stood still' starts_again_after STOP
    expect 'it is backed up' is_backed_up
    expect 'it is upgraded, with its config and data' is_upgraded
    expect 'it is rolled back' is_rolled_back
    expect 'its data are moved to a machine with more cores' is_moved
    expect 'the package is removed, its config and data are not' is_removed
    expect 'it is purged, its data are not' is_purged
}

debian_packages() {
    debian "$scratch/first.deb" 0.1.0~check1 && debian "$scratch/second.deb" 0.1.0~check2
}

installs() {
    cp "$scratch/$1.deb" "$root/var/tmp/" && inside dpkg --install "/var/tmp/$1.deb"
}

# Checks each listening socket, as the kernel reports it.
listens_on_loopback() {
    nsenter --target "$leader" --net -- python3 - <<'PYTHON'
lines = [line.split() for line in open("/proc/net/tcp").readlines()[1:]]
addresses = {line[1] for line in lines if line[3] == "0A"}
assert addresses and all(address.startswith("0100007F:") for address in addresses), addresses
PYTHON
}

is_watched() {
    page /readyz && page /metrics | grep '^muster_' >/dev/null
}

is_backed_up() {
    inside systemctl stop muster && inside cp -a --reflink=auto /var/lib/muster /var/backups/muster &&
        inside systemctl start muster && inside muster log verify /var/backups/muster
}

# The operator's config stays, and the new server has the old data.
is_upgraded() {
    echo 'log.retention.hours=48' >>"$root/etc/muster/server.properties"
    installs second && grep -q hours=48 "$root/etc/muster/server.properties" &&
        await inside systemctl is-active muster && await has_topic "$leader" orders
}

# Rolls back to the copy from before the upgrade, which lacks everything after the upgrade.
is_rolled_back() {
    client "$leader" create later && inside systemctl stop muster && installs first &&
        inside sh -c 'rm -r /var/lib/muster/* && cp -a /var/backups/muster/. /var/lib/muster' &&
        inside systemctl start muster && await has_topic "$leader" orders &&
        ! has_topic "$leader" later
}

# Opens a copy of a stopped server's data with another number of shards.
is_moved() {
    local served
    inside systemctl stop muster && cp -a "$root/var/lib/muster" "$scratch/moved" || return 1
    unshare --net sh -c 'ip link set lo up && exec "$@"' sh "$binary" serve --data "$scratch/moved" \
        --shards 3 >"$scratch/moved.log" 2>&1 &
    served=$!
    await grep -q ready "$scratch/moved.log" && has_topic "$served" orders
    local found=$?
    kill "$served" && wait "$served" && inside systemctl start muster && return "$found"
}

is_removed() {
    inside dpkg --remove muster && [[ ! -e $root/usr/bin/muster ]] &&
        [[ $(inside systemctl is-active muster) != active ]] &&
        [[ -e $root/etc/muster/server.properties && -e $root/var/lib/muster/meta.properties ]]
}

is_purged() {
    inside dpkg --purge muster && [[ ! -e $root/etc/muster/server.properties ]] &&
        [[ -e $root/var/lib/muster/meta.properties ]]
}
