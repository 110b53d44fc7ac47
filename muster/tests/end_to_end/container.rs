//! A server with the restrictions of a container: no io_uring, little locked memory, a read-only
//! root file system, a user without a name, an empty /proc, and the CPU time of one core. Without
//! root or control groups, the tests are skipped.

use crate::support::driver::{EPERM, refuse_io_uring};
use crate::support::offsets::{commit, committed};
use crate::support::{Server, command, create_topic, free_ports, produce};
use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A shell script that switches to a user without a name and to a read-only root file system. Only
/// the data directory can be written.
const CONFINED: &str = "mount --make-rprivate / && mount -t tmpfs none \"$0\" \
    && mount -o remount,bind,ro / && mount -t tmpfs -o ro none /proc || exit 99
    exec setpriv --reuid=12345 --regid=0 --clear-groups --bounding-set=-all --inh-caps=-all \"$@\"";

/// The server's command, prefixed with the words of another command.
fn wrapped<'a>(words: impl IntoIterator<Item = &'a str>, server: &Command) -> Command {
    let mut words = words.into_iter();
    let mut command = Command::new(words.next().unwrap());
    command.args(words).arg(server.get_program()).args(server.get_args());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn a_server_needs_nothing_but_its_data_directory() {
    let data = tempfile::tempdir().unwrap();
    let place = data.path().to_str().unwrap();
    let words = ["prlimit", "--memlock=65536", "unshare", "--mount", "sh", "-c", CONFINED, place];
    let tried = wrapped(words, &Command::new("true")).output().unwrap();
    if !tried.status.success() {
        let why = String::from_utf8_lossy(&tried.stderr).into_owned();
        return test_skips::skip(format!("a mount namespace of its own needs root: {why}"));
    }
    let story = |forbid: bool, shards: u16| {
        if forbid {
            refuse_io_uring(EPERM);
        }
        let port = free_ports(shards);
        let server = command(data.path(), port, shards, &["io.driver=auto".to_owned()]);
        let server = Server::of(wrapped(words, &server), data.path(), port, shards);
        create_topic(&server, "orders", 1);
        commit(&server, "g", "orders", 0, 41);
        assert_eq!(committed(&server, "g")[&("orders".to_owned(), 0)].0, 41);
        server.lines_with("muster does without io_uring")
    };
    std::thread::scope(|scope| {
        assert_eq!(scope.spawn(|| story(false, 1)).join().unwrap(), 0, "a small ring");
        assert_eq!(scope.spawn(|| story(true, 2)).join().unwrap(), 1, "polled");
    });
}

/// As in OpenShift, where each start of a pod may have another user, always in group 0.
#[test]
fn a_second_user_of_the_group_continues_with_the_data() {
    let place = tempfile::tempdir().unwrap();
    std::fs::set_permissions(place.path(), Permissions::from_mode(0o755)).unwrap();
    let data = place.path().join("data");
    std::fs::create_dir(&data).unwrap();
    std::fs::set_permissions(&data, Permissions::from_mode(0o770)).unwrap();
    let start = |user: &str| {
        let words = ["setpriv", user, "--regid=0", "--clear-groups", "--"];
        let port = free_ports(1);
        let server = command(&data, port, 1, &[]);
        Server::of(wrapped(words, &server), &data, port, 1)
    };
    let tried = Command::new("setpriv").args(["--reuid=12345", "--regid=0", "true"]).status();
    if !tried.is_ok_and(|status| status.success()) {
        return test_skips::skip("to become another user needs root, and setpriv");
    }
    let mut server = start("--reuid=12345");
    create_topic(&server, "orders", 1);
    for offset in [41, 42] {
        commit(&server, "g", "orders", 0, offset);
        assert_eq!(committed(&server, "g")[&("orders".to_owned(), 0)].0, offset);
        assert_eq!(produce(&mut server.client(0), "orders", b"record"), Some(offset - 41));
        assert!(server.stop().success());
        server = start("--reuid=23456");
        assert_eq!(committed(&server, "g")[&("orders".to_owned(), 0)].0, offset);
    }
    let mut left = vec![data.clone()];
    while let Some(path) = left.pop() {
        let meta = std::fs::symlink_metadata(&path).unwrap();
        let (mode, of_kind) = (meta.mode() & 0o777, if meta.is_dir() { 0o770 } else { 0o660 });
        assert_eq!(mode, of_kind, "{} has {mode:o}", path.display());
        if meta.is_dir() {
            left.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
}

/// A control group with the CPU time of one core. It is removed when this is dropped.
struct OneCore(PathBuf);

/// The two versions of control groups (version 2 first): the directory in which groups are created,
/// the file that limits a group's CPU time, and the text to write to it.
const HIERARCHIES: [(&str, &str, &str); 2] = [
    ("/sys/fs/cgroup", "cpu.max", "100000 100000"),
    ("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us", "100000"),
];

impl OneCore {
    /// Creates the control group. `None` if that is not possible.
    fn new() -> Option<Self> {
        HIERARCHIES.iter().find_map(|(top, file, text)| {
            let path = Path::new(top).join(format!("muster-one-core-{}", std::process::id()));
            std::fs::create_dir(&path).ok()?;
            let group = Self(path);
            // Without the CPU controller of control groups the file does not exist, and a write
            // would create an ordinary file.
            std::fs::metadata(group.0.join(file)).ok()?;
            std::fs::write(group.0.join(file), text).ok()?;
            Some(group)
        })
    }
}

impl Drop for OneCore {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn there_are_as_many_shards_as_cores_whose_time_there_is() {
    if std::thread::available_parallelism().unwrap().get() < 2 {
        return test_skips::skip("this machine has one core".to_owned());
    }
    let Some(group) = OneCore::new() else {
        return test_skips::skip("no control group that limits time can be made".to_owned());
    };
    let data = tempfile::tempdir().unwrap();
    let port = free_ports(1);
    let with_shards = command(data.path(), port, 1, &[]);
    let mut words: Vec<_> = with_shards.get_args().collect();
    let place = words.iter().position(|it| *it == "--shards").unwrap();
    words.drain(place..place + 2);
    let mut server = Command::new(with_shards.get_program());
    server.args(words);
    let procs = group.0.join("cgroup.procs");
    let enter = format!("echo $$ > {} && exec \"$@\"", procs.display());
    let server = Server::of(wrapped(["sh", "-c", &enter, "sh"], &server), data.path(), port, 1);
    server.says("shards: 1");
    create_topic(&server, "orders", 1);
}
