//! The limits of a shard and how much of them is used, for metrics and for the log
//! (`shard/limit_lines.rs`). Each part of a shard adds the numbers of its own limits.
//!
//! If a key sets a limit, the limit has the name of the key, otherwise the name of its constant.
//! Log lines about refusals also show this name.

use muster_counters::{Metric, Number, Value, Visitor, counters};

/// How much of a limit a single client address may use, for docs/limits.md and its tests.
#[cfg(test)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fairness {
    /// An address may take more as long as 1/8 of the limit stays free. If less stays free, the
    /// address may hold at most as much as that.
    Held,
    /// Addresses share the first half of the limit without a condition. After that, each address
    /// may create a fixed number at once, and then one more in each interval.
    Created,
    /// An address may use the whole limit. If others need some, the address that holds most, or has
    /// held it for longest, loses some.
    GivesWay,
    /// An address may use the whole limit, but only for a moment. The others wait for their turn.
    Turns,
    /// The whole limit, as only administrators add to it.
    Administrators,
}

#[cfg(test)]
impl Fairness {
    /// The text in the table of docs/limits.md.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Held => "7/8; then at most as much as stays free",
            Self::Created => "half, then a fixed number in each interval",
            Self::GivesWay => "all; the one that holds most, or for longest, gives way",
            Self::Turns => "all, for a moment; others wait for their turn",
            Self::Administrators => "all; only administrators add to it",
        }
    }
}

/// The key on which the memory limits depend.
const MEMORY: &str = "shard.memory.max.bytes";

macro_rules! limits {
    ($(
        $(#[doc = $help:literal])*
        $limit:ident = $name:literal, $fairness:ident $($key:ident)?;
    )*) => {
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

            /// Describes what the limit counts, and what happens when it is reached.
            pub(crate) fn help(self) -> &'static str {
                match self {
                    $(Self::$limit => concat!($($help),*).trim_ascii(),)*
                }
            }

            /// How much of the limit one address may use.
            #[cfg(test)]
            pub(crate) fn fairness(self) -> Fairness {
                match self {
                    $(Self::$limit => Fairness::$fairness,)*
                }
            }

            /// The key that sets the limit, or the key that sets another value from which it is
            /// computed.
            pub(crate) fn key(self) -> Option<&'static str> {
                let memory: &[&'static str] = match self {
                    $(Self::$limit => &[$($key)?],)*
                };
                let own = Some(self.name()).filter(|name| name.contains('.'));
                memory.first().copied().or(own)
            }
        }
    };
}

limits! {
    /// Connections that were let in; others wait. The limit does not apply to
    /// `inter.broker.listener.name`: if its connections exceed the limit, those of other listeners
    /// that were quiet for longest are closed. `max.connections.per.ip` bounds the connections of
    /// one address.
    Connections = "max.connections", GivesWay;
    /// Bytes of requests that are incomplete or not handled yet; beyond the limit, large requests
    /// are received one at a time.
    InputBytes = "queued.max.request.bytes", Turns;
    /// Bytes of answers that clients have not read; beyond the limit, large answers wait, and
    /// clients that do not read are closed.
    UnreadBytes = "UNREAD_BYTES_MAX", GivesWay MEMORY;
    /// Bytes of errors for refused parts of requests, kept until the other parts are answered;
    /// beyond the limit the connection is closed.
    AmendmentBytes = "AMENDMENTS_BYTES_MAX", Held;
    /// Parts of files on their way to sockets; others take turns.
    Slices = "SLICES_MAX", Turns;
    /// TLS handshakes in progress; beyond the limit the oldest is closed.
    Handshakes = "HANDSHAKES_MAX", GivesWay;
    /// Bytes that clients have sent in handshakes; beyond the limit the oldest handshake is closed.
    HandshakeBytes = "HANDSHAKES_BYTES_MAX", GivesWay;
    /// Groups; a new group gets COORDINATOR_NOT_AVAILABLE.
    Groups = "GROUPS_MAX", Created;
    /// Bytes of members' ids and metadata; a request that would add to them gets
    /// COORDINATOR_NOT_AVAILABLE.
    MemberBytes = "MEMBERS_BYTES_MAX", Held MEMORY;
    /// Bytes of the offsets of open transactions; more offsets get COORDINATOR_NOT_AVAILABLE.
    PendingBytes = "PENDING_BYTES_MAX", Held MEMORY;
    /// Bytes of offsets that wait for an answer from the coordinator of their transaction; more
    /// offsets get a retriable error.
    AskedBytes = "ASKED_BYTES_MAX", Held;
    /// Bytes of the log that wait for the next flush; beyond the limit no request is handled.
    LogBytes = "OPEN_BYTES_MAX", Turns;
    /// Transactional ids; InitProducerId with a new id gets COORDINATOR_NOT_AVAILABLE.
    TransactionalIds = "IDS_MAX", Created;
    /// Bytes of the names of transactional ids; InitProducerId with a new id gets
    /// COORDINATOR_NOT_AVAILABLE.
    TransactionalIdBytes = "ID_BYTES_MAX", Created;
    /// Bytes of producers' batches that are not written yet; more batches get a retriable error.
    UnwrittenBytes = "UNWRITTEN_BYTES_MAX", Held MEMORY;
    /// Producers in partitions; a new producer gets a retriable error, unless an inactive producer
    /// can be forgotten.
    Producers = "PRODUCERS_MAX", Held MEMORY;
    /// Bytes of reads in progress; more reads wait.
    ReadBytes = "READ_BYTES_IN_FLIGHT_MAX", Turns;
    /// Fetches that wait for records; clients with more fetches are throttled.
    WaitingFetches = "WAITING_FETCHES_MAX", Held;
    /// Partitions of all fetches; clients with more partitions are throttled.
    WaitingPartitions = "WAITING_PARTITIONS_MAX", Held MEMORY;
    /// Share sessions; a new session gets SHARE_SESSION_LIMIT_REACHED.
    ShareSessions = "group.share.max.share.sessions", Held;
    /// Partitions of all share sessions; a session with more gets SHARE_SESSION_LIMIT_REACHED.
    SharePartitions = "SESSION_PARTITIONS_MAX", Held MEMORY;
    /// Share fetches that wait for records; clients with more fetches are throttled.
    ShareFetches = "SHARE_FETCHES_MAX", Held;
    /// Share partitions that are open; more partitions get a retriable error.
    OpenShares = "OPEN_MAX", Held;
    /// Client instances that push metrics; beyond the limit the instance that was used least
    /// recently is forgotten.
    ClientInstances = "INSTANCES_MAX", GivesWay;
    /// Pushes of client metrics that are not unpacked yet; more pushes get
    /// THROTTLING_QUOTA_EXCEEDED.
    Pushes = "PUSHES_UNDER_WAY_MAX", Turns;
    /// Bytes of pushes of client metrics that are not unpacked yet; more pushes get
    /// THROTTLING_QUOTA_EXCEEDED.
    PushBytes = "BYTES_UNDER_WAY_MAX", Turns;
    /// Topics (shard 0); a new topic gets POLICY_VIOLATION.
    Topics = "TOPICS_MAX", Created;
    /// Partitions of all user topics (shard 0); more partitions get POLICY_VIOLATION.
    Partitions = "PARTITIONS_MAX", Created;
    /// ACLs (shard 0); a new ACL gets POLICY_VIOLATION.
    Acls = "ACLS_MAX", Administrators;
    /// SCRAM credentials (shard 0); a new credential gets POLICY_VIOLATION.
    Credentials = "SCRAM_CREDENTIALS_MAX", Administrators;
    /// Entities with client quotas (shard 0); a new entity gets POLICY_VIOLATION.
    Quotas = "QUOTA_ENTITIES_MAX", Administrators;
    /// Groups with configs of their own (shard 0); one more group gets POLICY_VIOLATION.
    GroupConfigs = "GROUP_CONFIGS_MAX", Created;
    /// Subscriptions to client metrics (shard 0); a new subscription gets POLICY_VIOLATION.
    ClientMetrics = "CLIENT_METRICS_MAX", Administrators;
}

#[cfg(test)]
impl Limit {
    /// Whether the reactor has this limit.
    pub(crate) fn is_of_handshakes(self) -> bool {
        matches!(self, Self::Handshakes | Self::HandshakeBytes)
    }
}

const LIMITS: usize = Limit::ALL.len();

counters! {
    /// The present use of the limits.
    #[derive(Copy)]
    pub(crate) struct LimitGauges in "limit" {
        /// The use of a limit.
        used: ByLimit = Gauge of Count,
        /// The limit.
        max: ByLimit = Gauge of Count,
    }
}

/// A number for some of the limits.
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

    /// The limits that are set, with their use and maximum.
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
    fn the_page_has_each_limit_with_what_an_address_may_use_and_its_key() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/limits.md");
        let page = std::fs::read_to_string(path).unwrap();
        let rows = Limit::ALL.iter().map(|limit| {
            let key = limit.key().map(|key| format!("`{key}`")).unwrap_or_default();
            let (name, help, words) = (limit.name(), limit.help(), limit.fairness().words());
            format!("| `{name}` | {help} | {words} | {key} |\n")
        });
        let rows: String = rows.collect();
        let (before, table) = page.split_once("|---|---|---|---|\n").unwrap();
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(path, format!("{before}|---|---|---|---|\n{rows}")).unwrap();
        } else {
            assert_eq!(table, rows, "UPDATE_EXPECT=1 writes this table");
        }
    }

    #[test]
    fn each_name_is_that_of_a_key_or_of_a_constant_and_of_one_limit() {
        let names: BTreeSet<&str> = Limit::ALL.iter().map(|limit| limit.name()).collect();
        assert_eq!(names.len(), LIMITS);
        let is_constant = |name: &str| name.bytes().all(|it| it.is_ascii_uppercase() || it == b'_');
        for name in names {
            assert!(is_constant(name) || crate::config::Config::key(name).is_some(), "{name}");
        }
        for key in Limit::ALL.iter().filter_map(|limit| limit.key()) {
            assert!(crate::config::Config::key(key).is_some(), "{key}");
        }
    }
}
