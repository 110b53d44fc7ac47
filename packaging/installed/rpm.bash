#  rpm.bash
#
#  An operator's day with the RPM. Its dependencies, which are those of another distribution, are
#  not checked.

day_of_rpm() {
    expect 'two releases of the RPM are built' rpm_packages
    expect 'the RPM is installed' rpm_does --install 1
    expect 'it has its user, and nothing is started by it' is_installed_and_idle
    expect 'its unit starts, and says when it is ready' starts
    expect 'a client makes a topic' client "$leader" create orders
    expect 'the RPM is upgraded: the server is another one, with its config and data' rpm_is_upgraded
    expect 'the RPM is removed, its config and data are not' rpm_is_removed
}

rpm_packages() {
    local release
    for release in 1 2; do
        rpm_package "$scratch/$release.rpm" --set-metadata "release = '$release'" || return 1
    done
}

rpm_does() {
    cp "$scratch/$2.rpm" "$root/var/tmp/" && inside rpm "$1" --nodeps "/var/tmp/$2.rpm"
}

rpm_is_upgraded() {
    local before
    before=$(main_pid)
    echo 'log.retention.hours=48' >>"$root/etc/muster/server.properties"
    rpm_does --upgrade 2 && grep -q hours=48 "$root/etc/muster/server.properties" &&
        [[ $(inside rpm --query muster) == *-2.* ]] && await inside systemctl is-active muster &&
        [[ $(main_pid) != "$before" ]] && await has_topic "$leader" orders
}

rpm_is_removed() {
    inside rpm --erase muster && [[ ! -e $root/usr/bin/muster ]] &&
        [[ $(inside systemctl is-active muster) != active ]] &&
        [[ -e $root/etc/muster/server.properties.rpmsave && -e $root/var/lib/muster/meta.properties ]]
}
