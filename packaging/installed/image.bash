#  image.bash
#
#  The image's files, started as an engine starts them.

image() {
    expect "the image's files are laid out" image_files
    expect 'they start as a user without rights' image_starts
    expect 'under the seccomp profile, without capabilities' image_is_confined
    expect 'the server in it serves, and stops' image_serves
}

# The files that packaging/Containerfile puts into an image, with the libraries of its base image.
image_files() {
    local files=$scratch/image/rootfs library
    mkdir -p "$files/usr/bin" "$files/usr/share/doc/muster" "$files/var/lib/muster" "$files"/{proc,dev,sys,tmp}
    cp "$binary" "$files/usr/bin/muster"
    cp LICENSE "$scratch/tree/packaging/THIRD-PARTY-LICENSES" "$files/usr/share/doc/muster/" || return 1
    chown 65532:65532 "$files/var/lib/muster"
    for library in $(ldd "$binary" | grep -oE '/[^ ]+'); do
        mkdir -p "$files${library%/*}" && cp "$library" "$files$library"
    done
}

# Starts the image like an engine: with the user of the base image, the command of the
# Containerfile, and the profile.
image_starts() {
    unshare --net /usr/bin/python3 - "$scratch/image/rootfs" packaging/seccomp.json \
        packaging/Containerfile >"$scratch/image.log" 2>&1 <<'PYTHON' &
import json, os, re, seccomp, sys
root, profile, containerfile = sys.argv[1:]
profile, text = json.load(open(profile)), open(containerfile).read()
words = lambda name: json.loads(re.search(rf"^{name} (\[[^]]*\])", text.replace("\\\n", ""), re.M)[1])
rules = seccomp.SyscallFilter(seccomp.ERRNO(profile["defaultErrnoRet"]))
rules.set_attr(seccomp.Attr.CTL_NNP, True)
for rule in profile["syscalls"]:
    assert rule["action"] == "SCMP_ACT_ALLOW" and not rule.get("args"), rule
    for name in rule["names"]:
        rules.add_rule(seccomp.ALLOW, name)
os.chroot(root)
os.chdir("/")
os.setgroups([])
os.setgid(65532)
os.setuid(65532)
rules.load()
command = words("ENTRYPOINT") + words("CMD")
os.execv(command[0], command)
PYTHON
    image=$!
    is_over() { grep -q ready "$scratch/image.log" || ! kill -0 "$image"; }
    await is_over && cat "$scratch/image.log" && grep -q ready "$scratch/image.log"
}

# Checks the confinement of the process, as the kernel reports it.
image_is_confined() {
    local status=/proc/$image/status
    cat "$status"
    grep -qP '^Uid:\t65532\t' "$status" && grep -qP '^Seccomp:\t2' "$status" &&
        grep -qP '^NoNewPrivs:\t1' "$status" && grep -qP '^CapEff:\t0+$' "$status"
}

image_serves() {
    nsenter --target "$image" --net ip link set lo up
    client "$image" create orders && has_topic "$image" orders && kill "$image" && wait "$image" &&
        image=''
}
