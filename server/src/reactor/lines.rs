//! Log lines about connections, of which clients can cause any number.

use crate::logging::Throttle;
use std::io;
use std::net::{IpAddr, SocketAddr};
use tracing::{info, warn};

#[derive(Debug)]
pub(super) struct ConnectionLines {
    /// Limits lines by the address of the client that causes them; None if it is unknown.
    by_client: Throttle<Option<IpAddr>>,
    /// Limits log lines by address and text, so that a client that retries without end does not
    /// fill the log.
    repeated: Throttle<(Option<IpAddr>, String)>,
}

impl Default for ConnectionLines {
    fn default() -> Self {
        Self { by_client: Throttle::default(), repeated: Throttle::of_repeated() }
    }
}

impl ConnectionLines {
    pub(super) fn not_accepted(&mut self, now: i64, error: &io::Error) {
        if self.by_client.admits(now, None) {
            warn!("a connection was not accepted: {error}");
        }
    }

    pub(super) fn full(&mut self, now: i64) {
        if self.by_client.admits(now, None) {
            warn!("there are descriptors for no more connections: further clients wait");
        }
    }

    pub(super) fn closed(&mut self, now: i64, peer: Option<SocketAddr>, reason: String) {
        let peer = peer.map(|peer| SocketAddr::new(peer.ip().to_canonical(), peer.port()));
        let ip = peer.map(|peer| peer.ip());
        if self.repeated.admits(now, (ip, reason.clone())) && self.by_client.admits(now, ip) {
            let peer = peer.map_or_else(|| "a disconnected client".to_owned(), |it| it.to_string());
            info!("closed the connection of {peer}: {reason}");
        }
    }

    /// Reports left-out lines when it is time to; returns the next time.
    pub(super) fn report_left_out(&mut self, now: i64) -> Option<i64> {
        if let Some(lines) = self.by_client.left_out(now) {
            info!("{lines} more lines about connections were left out: clients cause too many");
        }
        if let Some(lines) = self.repeated.left_out(now) {
            info!(
                "{lines} more connections were closed, for reasons already logged for their clients"
            );
        }
        [self.by_client.report_at(), self.repeated.report_at()].into_iter().flatten().min()
    }
}
