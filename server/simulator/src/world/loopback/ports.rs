//! The ports of the servers of this process. A server keeps its ports while it is down.

use std::collections::BTreeSet;
use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Ports below those that the kernel assigns to clients. Each running simulator uses its own part.
const ALL: Range<u16> = 10_000..20_000;
const OF_A_PROCESS: u16 = 100;

static TAKEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// Consecutive ports of 127.0.0.1, which are reserved until this value is dropped.
pub(super) struct Ports(Range<u16>);

impl Ports {
    /// # Errors
    /// Too few ports are free.
    pub(super) fn take(count: u16) -> io::Result<Self> {
        let parts = u32::from(ALL.end - ALL.start) / u32::from(OF_A_PROCESS);
        let own = ALL.start + (std::process::id() % parts) as u16 * OF_A_PROCESS;
        let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        let is_free = |port: u16| {
            !taken.contains(&port) && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
        };
        let mut all = (own..=own + OF_A_PROCESS - count).map(|first| first..first + count);
        let free = all.find(|ports| ports.clone().all(is_free));
        let ports = free.ok_or_else(|| io::Error::other("no ports are free"))?;
        taken.extend(ports.clone());
        Ok(Self(ports))
    }

    pub(super) fn first(&self) -> u16 {
        self.0.start
    }
}

impl Drop for Ports {
    fn drop(&mut self) {
        let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
        self.0.clone().for_each(|port| _ = taken.remove(&port));
    }
}
