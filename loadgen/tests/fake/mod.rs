//! A small Kafka broker in memory, in threads of the test. It is correct by default, or has one
//! chosen bug. It serves the requests of `muster-load` over plain TCP.
//!
//! Each connection has a thread ([`net`]). Another thread owns all state ([`broker`]). It answers
//! some requests at once, others later. Each connection gets its answers in the order of its
//! requests, as in Kafka.

mod broker;
mod classic;
mod consumer;
mod net;
mod offsets;
mod reply;
mod topics;
mod transactions;

use std::time::Duration;

use kafka_protocol::messages::ApiKey;

pub(crate) use net::Fake;

/// The properties of a broker.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    pub(crate) bug: Option<Bug>,
    pub(crate) hostile: Option<Hostile>,
    /// The user and password for SASL PLAIN, which is then required.
    pub(crate) password: Option<(&'static str, &'static str)>,
    /// APIs that the broker does not have: ApiVersions does not list them.
    pub(crate) without: &'static [ApiKey],
    /// An API whose answers all have this error code.
    pub(crate) refuses: Option<(ApiKey, i16)>,
    /// `group.initial.rebalance.delay.ms`.
    pub(crate) initial_delay: Duration,
    /// `group.consumer.heartbeat.interval.ms` and `group.consumer.session.timeout.ms`.
    pub(crate) heartbeat_interval: Duration,
    pub(crate) session_timeout: Duration,
    pub(crate) slow: Option<Slow>,
}

/// Delays the answers to one API while all groups together have at least `from_members` members.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slow {
    pub(crate) api: ApiKey,
    pub(crate) by: Duration,
    pub(crate) from_members: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            bug: None,
            hostile: None,
            password: None,
            without: &[],
            refuses: None,
            initial_delay: Duration::from_millis(100),
            heartbeat_interval: Duration::from_millis(50),
            session_timeout: Duration::from_secs(45),
            slow: None,
        }
    }
}

impl Config {
    pub(crate) fn with_bug(bug: Bug) -> Self {
        Self { bug: Some(bug), ..Self::default() }
    }

    pub(crate) fn hostile(api: ApiKey, how: Nonsense) -> Self {
        Self { hostile: Some(Hostile { api, how }), ..Self::default() }
    }
}

/// A bug injected into the coordinator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Bug {
    /// In a consumer group, a member is assigned a partition that another member has. In a classic
    /// group, a member gets the assignment of another.
    AssignsTwice,
    /// The generation or member epoch goes down once it has reached 2.
    EpochGoesBack,
    /// From the third commit of a partition on, commits are acknowledged and forgotten.
    ForgetsCommits,
    /// An acknowledged commit can be read at first. Later the commit before it is read instead.
    RollsBack,
    /// A member's heartbeats are ignored until it is removed, but its commits are still accepted.
    AcceptsFencedCommits,
    /// A live member is removed.
    EvictsEarly,
    /// A member that repeats its SyncGroup gets the assignment of another member.
    AnswersRepeatsDifferently,
    /// A deleted group keeps its offsets.
    KeepsDeletedGroups,
    /// Fetch does not list the aborted transactions.
    ShowsAbortedTransactions,
    /// When a transaction is committed, its records in one partition vanish.
    LosesAPartition,
    /// Consumers can read records of transactions that have not ended.
    ShowsOpenTransactions,
}

/// The nonsense that the broker sends instead of answers to one API.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hostile {
    pub(crate) api: ApiKey,
    pub(crate) how: Nonsense,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Nonsense {
    /// A frame with the right length and correlation id, and a garbage body.
    Garbage,
    /// A frame that announces a length of 2 GiB.
    HugeLength,
    /// Half of the answer, after which the connection is closed.
    Truncated,
    NeverAnswers,
    ClosesAtOnce,
    WrongCorrelation,
}
