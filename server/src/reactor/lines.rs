//! Log lines about connections. The number of lines is limited, because clients could cause any
//! number.

use crate::clock::earliest;
use crate::logging::Throttle;
use std::io;
use std::net::{IpAddr, SocketAddr};
use tracing::{info, warn};

#[derive(Debug)]
pub(super) struct ConnectionLines {
    /// Limits lines by client address; None if the address is unknown.
    by_client: Throttle<Option<IpAddr>>,
    /// Limits lines with the same address and text. Otherwise a client that retries forever could
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

    /// Logs that the shard cannot accept further connections, because no file descriptors are left.
    /// The limit applies to all shards together.
    pub(super) fn full(
        &mut self,
        now: i64,
        shard: u32,
        connections: usize,
        limit: Option<usize>,
        busiest: Option<(&str, usize)>,
    ) {
        if self.by_client.admits(now, None) {
            let (host, from_host) = busiest.unzip();
            warn!(
                target: "limit",
                shard,
                connections,
                limit_of_all_shards = limit,
                most_from = host,
                from_there = from_host,
                "no descriptors are left for connections (ulimit -n): new clients wait",
            );
        }
    }

    pub(super) fn no_longer_full(&mut self, now: i64, shard: u32) {
        if self.by_client.admits(now, None) {
            info!(target: "limit", shard, "there are descriptors for connections again");
        }
    }

    pub(super) fn closed(&mut self, now: i64, peer: Option<SocketAddr>, reason: String) {
        let peer = peer.map(|peer| SocketAddr::new(peer.ip().to_canonical(), peer.port()));
        let ip = peer.map(|peer| peer.ip());
        if self.admits(now, ip, &reason) {
            let peer = peer.map_or_else(|| "a disconnected client".to_owned(), |it| it.to_string());
            info!("closed the connection of {peer}: {reason}");
        }
    }

    /// Logs that a client's certificate is missing or was refused. This counts as a failed login.
    pub(super) fn certificate_refused(&mut self, now: i64, peer: Option<SocketAddr>, reason: &str) {
        let ip = peer.map(|peer| peer.ip().to_canonical());
        if self.admits(now, ip, reason) {
            let host = ip.map(|ip| format!("/{ip}"));
            warn!(target: "audit", host, reason, "refused a certificate");
        }
    }

    /// Whether a line may be logged. The reason is stored only if the address may still log lines:
    /// a client can invent a new reason (such as a user name) for each connection.
    fn admits(&mut self, now: i64, ip: Option<IpAddr>, reason: &str) -> bool {
        !self.by_client.refuses(now, &ip)
            && self.repeated.admits(now, (ip, reason.to_owned()))
            && self.by_client.admits(now, ip)
    }

    /// Reports how many lines were left out, if it is time. Returns the time of the next report.
    pub(super) fn report_left_out(&mut self, now: i64) -> Option<i64> {
        if let Some(lines) = self.by_client.left_out(now) {
            info!("{lines} more lines about connections were left out: clients cause too many");
        }
        if let Some(lines) = self.repeated.left_out(now) {
            info!(
                "{lines} more connections were closed, for reasons already logged for their clients"
            );
        }
        earliest([self.by_client.report_at(), self.repeated.report_at()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const ATTACKER: Option<IpAddr> = Some(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)));
    const OTHER: Option<IpAddr> = Some(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)));

    #[test]
    fn a_client_with_a_reason_for_each_connection_silences_no_other() {
        let mut lines = ConnectionLines::default();
        let logged = (0..1_000_000)
            .filter(|n| lines.admits(i64::from(*n) / 2_000, ATTACKER, &format!("user{n}")))
            .count();
        assert_eq!(logged, 10, "of half a second");
        assert!(lines.admits(600, OTHER, "a reason"));
        assert!(!lines.admits(601, OTHER, "a reason"), "it repeats");
        assert!(lines.admits(602, OTHER, "another reason"));
    }
}
