//! Notifies the service manager that started the process: sd_notify(3) without its library.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;
use tracing::warn;

/// The server is ready: shards listen, and clients are served.
pub(crate) const READY: &str = "READY=1";
/// The process has begun to stop.
pub(crate) const STOPPING: &str = "STOPPING=1";
/// The process is alive.
pub(crate) const ALIVE: &str = "WATCHDOG=1";

/// The prefix of a text about the process's problems.
pub(crate) const STATUS: &str = "STATUS=";

/// Asks the manager to wait for the start a minute longer from now on.
pub(crate) const STARTS_LATER: &str = "EXTEND_TIMEOUT_USEC=60000000";

/// Sends a state to the service manager, if there is one.
pub(crate) fn notify(state: &str) {
    if let Some(socket) = env::var_os("NOTIFY_SOCKET")
        && let Err(error) = send(&socket, state)
    {
        warn!("the service manager cannot be notified of {state}: {error}");
    }
}

/// The interval at which to send [`ALIVE`]: half of the manager's time limit. None if the manager
/// does not watch this process.
pub(crate) fn watchdog() -> Option<Duration> {
    let of = |name: &str| env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let is_for_another = |pid| pid != u64::from(std::process::id());
    if of("WATCHDOG_PID").is_some_and(is_for_another) {
        return None;
    }
    of("WATCHDOG_USEC").filter(|micros| *micros > 0).map(|it| Duration::from_micros(it / 2))
}

/// Sends a datagram to the manager's socket. A name with `@` is in the abstract namespace.
fn send(socket: &OsStr, state: &str) -> io::Result<()> {
    let address = match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(address: &SocketAddr, socket: &OsStr) -> String {
        let manager = UnixDatagram::bind_addr(address).unwrap();
        send(socket, READY).unwrap();
        let mut bytes = [0; 64];
        let count = manager.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..count]).into_owned()
    }

    #[test]
    fn a_manager_is_notified_by_path_or_by_abstract_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let by_path = SocketAddr::from_pathname(&path).unwrap();
        assert_eq!(received(&by_path, path.as_os_str()), READY);
        let name = format!("muster-test-{}", std::process::id());
        let abstract_name = SocketAddr::from_abstract_name(&name).unwrap();
        assert_eq!(received(&abstract_name, OsStr::new(&format!("@{name}"))), READY);
        assert!(send(OsStr::new("/no/such/socket"), READY).is_err());
    }
}
