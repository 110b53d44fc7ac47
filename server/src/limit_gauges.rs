//! The limits of a shard and their use, for metrics. Each has the name of the key that sets it, or
//! else of its constant; what is refused for it says that name, too.

use muster_counters::{Metric, Number, Value, Visitor, counters};

macro_rules! limits {
    ($($(#[doc = $help:literal])* $limit:ident = $name:literal;)*) => {
        /// A limit of a shard.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Limit {
            $($(#[doc = $help])* $limit,)*
        }

        impl Limit {
            pub(crate) const ALL: &'static [Self] = &[$(Self::$limit),*];

            pub(crate) fn name(self) -> &'static str {
                match self {
                    $(Self::$limit => $name,)*
                }
            }

            /// The things that count, and the effect of the limit.
            pub(crate) fn help(self) -> &'static str {
                match self {
                    $(Self::$limit => concat!($($help),*).trim_ascii(),)*
                }
            }
        }
    };
}

limits! {
    /// Connections that were let in; further ones wait, and with several listeners the one that was
    /// quiet for longest is closed.
    Connections = "max.connections";
    /// Bytes of requests that are not finished or not handled; beyond it large ones are received
    /// one at a time.
    InputBytes = "queued.max.request.bytes";
    /// Bytes of answers that clients have not read; beyond it large answers wait, and clients that
    /// do not read are closed.
    UnreadBytes = "UNREAD_BYTES_MAX";
    /// Bytes of refusals that wait for the other parts of their answers; with more the connection
    /// is closed.
    AmendmentBytes = "AMENDMENTS_BYTES_MAX";
    /// Parts of files on their way to sockets; further ones take turns.
    Slices = "SLICES_MAX";
    /// TLS handshakes under way; with more the oldest is closed.
    Handshakes = "HANDSHAKES_MAX";
    /// Bytes that clients have sent in handshakes; with more the oldest is closed.
    HandshakeBytes = "HANDSHAKES_BYTES_MAX";
    /// Groups; a new one gets COORDINATOR_NOT_AVAILABLE.
    Groups = "GROUPS_MAX";
    /// Bytes of the profiles of members; what would add to them gets COORDINATOR_NOT_AVAILABLE.
    MemberBytes = "MEMBERS_BYTES_MAX";
    /// Bytes of the offsets of open transactions; further ones get COORDINATOR_NOT_AVAILABLE.
    PendingBytes = "PENDING_BYTES_MAX";
    /// Bytes of offsets that wait until the coordinator of their transaction has answered; further
    /// ones get an error with which they are sent again.
    AskedBytes = "ASKED_BYTES_MAX";
    /// Bytes of the log that wait for the next flush; beyond it no request is handled.
    LogBytes = "OPEN_BYTES_MAX";
    /// Transactional ids; InitProducerId of a new one gets COORDINATOR_NOT_AVAILABLE.
    TransactionalIds = "IDS_MAX";
    /// Bytes of their names; InitProducerId of a new one gets COORDINATOR_NOT_AVAILABLE.
    TransactionalIdBytes = "ID_BYTES_MAX";
    /// Bytes of producers' batches that are not written; further ones get an error with which they
    /// are sent again.
    UnwrittenBytes = "UNWRITTEN_BYTES_MAX";
    /// Producers in partitions; a new one gets an error with which it tries again, unless one that
    /// is not active can be forgotten.
    Producers = "PRODUCERS_MAX";
    /// Bytes of reads under way; further ones wait.
    ReadBytes = "READ_BYTES_IN_FLIGHT_MAX";
    /// Fetches that wait for records; the clients of further ones have to wait.
    WaitingFetches = "WAITING_FETCHES_MAX";
    /// Partitions of all fetches; the clients of further ones have to wait.
    WaitingPartitions = "WAITING_PARTITIONS_MAX";
    /// Share sessions; further ones get SHARE_SESSION_LIMIT_REACHED.
    ShareSessions = "group.share.max.share.sessions";
    /// Partitions of all share sessions; further ones get SHARE_SESSION_LIMIT_REACHED.
    SharePartitions = "SESSION_PARTITIONS_MAX";
    /// Share fetches that wait for records; the clients of further ones have to wait.
    ShareFetches = "SHARE_FETCHES_MAX";
    /// Share partitions that are open; further ones get an error with which they are tried again.
    OpenShares = "OPEN_MAX";
    /// Client instances that push metrics; with more the one that was used least recently is
    /// forgotten.
    ClientInstances = "INSTANCES_MAX";
    /// Pushes of clients that are not unpacked yet; further ones get THROTTLING_QUOTA_EXCEEDED.
    Pushes = "PUSHES_UNDER_WAY_MAX";
    /// Bytes of these.
    PushBytes = "BYTES_UNDER_WAY_MAX";
    /// Topics, of shard 0; further ones get POLICY_VIOLATION, as all below.
    Topics = "TOPICS_MAX";
    /// Partitions of all user topics, of shard 0.
    Partitions = "PARTITIONS_MAX";
    /// ACLs, of shard 0.
    Acls = "ACLS_MAX";
    /// SCRAM credentials, of shard 0.
    Credentials = "SCRAM_CREDENTIALS_MAX";
    /// Entities with client quotas, of shard 0.
    Quotas = "QUOTA_ENTITIES_MAX";
    /// Groups with configs of their own, of shard 0.
    GroupConfigs = "GROUP_CONFIGS_MAX";
    /// Subscriptions to metrics of clients, of shard 0.
    ClientMetrics = "CLIENT_METRICS_MAX";
}

#[cfg(test)]
impl Limit {
    /// Whether it is one of the reactor's.
    pub(crate) fn is_of_handshakes(self) -> bool {
        matches!(self, Self::Handshakes | Self::HandshakeBytes)
    }
}

const LIMITS: usize = Limit::ALL.len();

counters! {
    /// The use of limits now.
    #[derive(Copy)]
    pub(crate) struct LimitGauges in "limit" {
        /// The use of a limit.
        used: ByLimit = Gauge of Count,
        /// The limit.
        max: ByLimit = Gauge of Count,
    }
}

/// A number for each of some limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ByLimit([Option<u64>; LIMITS]);

impl Default for ByLimit {
    fn default() -> Self {
        Self([None; LIMITS])
    }
}

impl LimitGauges {
    pub(crate) fn set(&mut self, limit: Limit, used: usize, max: usize) {
        self.used.0[limit as usize] = Some(used as u64);
        self.max.0[limit as usize] = Some(max as u64);
    }

    /// The limits that are set, with their use.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Limit, u64, u64)> {
        Limit::ALL.iter().filter_map(|limit| {
            let place = *limit as usize;
            Some((*limit, self.used.0[place]?, self.max.0[place]?))
        })
    }
}

impl Number for ByLimit {
    const LABELS: &'static [&'static str] = &["limit"];

    fn add(&mut self, other: &Self) {
        for (own, other) in self.0.iter_mut().zip(other.0) {
            *own = own.map_or(other, |own| Some(own.saturating_add(other.unwrap_or(0))));
        }
    }

    fn visit(&self, metric: &Metric, visitor: &mut Visitor<'_>) {
        for limit in Limit::ALL {
            if let Some(number) = self.0[*limit as usize] {
                visitor(metric, &[("limit", limit.name())], Value::Number(number));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn numbers_are_added_limit_by_limit_and_unknown_ones_are_left_out() {
        let (mut one, mut other) = (LimitGauges::default(), LimitGauges::default());
        one.set(Limit::Groups, 3, 10);
        other.set(Limit::Groups, 4, 10);
        other.set(Limit::Acls, 1, 5);
        let mut seen = Vec::new();
        let both = one + other;
        muster_counters::Walk::walk(&both, &mut |metric, labels, value| {
            seen.push(format!("{}{labels:?} {value:?}", metric.name));
        });
        let expected = [
            r#"limit_used[("limit", "GROUPS_MAX")] Number(7)"#,
            r#"limit_used[("limit", "ACLS_MAX")] Number(1)"#,
            r#"limit_max[("limit", "GROUPS_MAX")] Number(20)"#,
            r#"limit_max[("limit", "ACLS_MAX")] Number(5)"#,
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn each_name_is_that_of_a_key_or_of_a_constant_and_of_one_limit() {
        let names: BTreeSet<&str> = Limit::ALL.iter().map(|limit| limit.name()).collect();
        assert_eq!(names.len(), LIMITS);
        let is_constant = |name: &str| name.bytes().all(|it| it.is_ascii_uppercase() || it == b'_');
        for name in names {
            assert!(is_constant(name) || crate::config::Config::key(name).is_some(), "{name}");
        }
    }
}
