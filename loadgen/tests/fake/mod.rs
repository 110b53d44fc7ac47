//! A small Kafka broker in memory, in threads of the test: correct by default, or with one chosen
//! bug. It serves the requests of `muster-load`, over plain TCP.
//!
//! Each connection has a thread ([`net`]); one more thread owns all state ([`broker`]) and answers,
//! at once or later. Requests of a connection are answered in order, as Kafka does.

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
    /// User and password of SASL PLAIN, which is then required.
    pub(crate) password: Option<(&'static str, &'static str)>,
    /// APIs that ApiVersions does not list.
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

/// Holds answers to one API back while there are this many members or more.
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

/// A bug that is injected into the coordinator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Bug {
    /// A member of a consumer group is assigned a partition that another has; in a classic group
    /// one gets the assignment of another.
    AssignsTwice,
    /// The generation, or the epoch of a member, is lowered once it has reached 2.
    EpochGoesBack,
    /// A partition's commits are acknowledged and forgotten, from the third one on.
    ForgetsCommits,
    /// An acknowledged commit is read back at first, and later the one before it.
    RollsBack,
    /// A member is removed as its heartbeats are ignored, but its commits are still accepted.
    AcceptsFencedCommits,
    /// A live member is removed.
    EvictsEarly,
    /// A member that repeats its SyncGroup gets the assignment of another.
    AnswersRepeatsDifferently,
    /// A deleted group keeps its offsets.
    KeepsDeletedGroups,
    /// Fetch does not name the transactions that were aborted.
    ShowsAbortedTransactions,
    /// The records of one partition of each transaction are gone once it is committed.
    LosesAPartition,
    /// Consumers read records of transactions that have not ended.
    ShowsOpenTransactions,
}

/// The nonsense that it sends instead of answers to one API.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hostile {
    pub(crate) api: ApiKey,
    pub(crate) how: Nonsense,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Nonsense {
    /// A frame of the right length with the right correlation id, and a garbage body.
    Garbage,
    /// A frame that claims to have 2 GiB.
    HugeLength,
    /// Half of the answer, and the connection is closed.
    Truncated,
    NeverAnswers,
    ClosesAtOnce,
    WrongCorrelation,
}
