//! Messages to the reactor, which never reach the shard.

use crate::backup::BackupOrder;
use crate::report::Report;
use crossbeam_channel::Sender;
use muster_peers::{Connection, DialError};
use muster_tls::Tls;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// A connection that was to be opened, for the shard that has asked for it.
#[derive(Debug)]
pub struct Dialled {
    pub connection: Connection,
    pub result: Result<OwnedFd, DialError>,
}

/// A message to the reactor of a shard.
#[derive(Debug)]
pub enum ToReactor {
    /// The TLS of each listener; None for a plaintext listener.
    Tls(Arc<[Option<Tls>]>),
    /// Send copies of the shard's counters and gauges.
    Report(Sender<Report>),
    /// From a dialer: a connection to another node, or the reason why there is none.
    Dialled(Dialled),
    /// From the admin side: link the shard's files for a backup.
    BackUp(BackupOrder),
}
