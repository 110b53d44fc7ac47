//! The result of a request that changes the cluster.

use muster_codec::limits::STRING_BYTES_MAX;
use muster_codec::records::{ClusterRecord, ConfigKey, ConfigValue};
use muster_codec::{ErrorCode, Str};
use muster_fairness::Shares;

/// Records to write, and the response to send once they are durable.
#[derive(Debug, Clone, PartialEq)]
pub struct Change<R> {
    pub records: Vec<ClusterRecord<'static>>,
    pub response: R,
}

impl<R> Change<R> {
    pub fn map<S>(self, with: impl FnOnce(R) -> S) -> Change<S> {
        Change { records: self.records, response: with(self.response) }
    }
}

/// A client that creates topics by naming them, or configs for groups that need not exist.
#[derive(Debug)]
pub struct Creator<'c> {
    pub shares: &'c mut Shares,
    pub now: i64,
    /// The client's address in Kafka's form.
    pub host: &'c str,
}

impl Creator<'_> {
    /// Checks that the client may create one more item. `is_short` says that few more items may be
    /// created, by all clients together.
    pub(crate) fn admits(&mut self, is_short: bool) -> Result<(), Refused> {
        if self.shares.admits(self.now, self.host, is_short) {
            return Ok(());
        }
        let words = format!(
            "Clients at {} have used up their share of new items (CREATOR_SHARE).",
            self.host
        );
        Err(Refused::new(ErrorCode::PolicyViolation, words))
    }
}

/// The reason why a part of a request is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) error: ErrorCode,
    pub(crate) message: Option<String>,
}

/// Whether a request with this timeout has timed out, as in Kafka: the timeout is 0 or negative.
pub(crate) fn is_timed_out(timeout_ms: i32) -> bool {
    timeout_ms <= 0
}

pub(super) fn timed_out() -> Refused {
    Refused::without_message(ErrorCode::RequestTimedOut)
}

/// The longest error message in bytes. A message may quote text of a client.
const MESSAGE_BYTES_MAX: usize = 2_000;

impl Refused {
    pub(crate) fn new(error: ErrorCode, message: impl Into<String>) -> Self {
        let mut message = message.into();
        message.truncate(message.floor_char_boundary(MESSAGE_BYTES_MAX));
        Self { error, message: Some(message) }
    }

    pub(crate) fn without_message(error: ErrorCode) -> Self {
        Self { error, message: None }
    }

    pub(crate) fn error_message(self) -> Option<Str<'static>> {
        self.message.map(Str::Owned)
    }
}

/// Checks that a record can hold the value of a config.
///
/// # Errors
/// INVALID_CONFIG: the value is too long.
pub(super) fn check_length(name: &str, value: &str) -> Result<(), Refused> {
    if value.len() <= STRING_BYTES_MAX {
        return Ok(());
    }
    let bytes = value.len();
    let words = format!("The value of {name} has {bytes} bytes; it may have {STRING_BYTES_MAX}.");
    Err(Refused::new(ErrorCode::InvalidConfig, words))
}

/// The record that sets or removes a config.
pub fn config_record(
    resource_type: i8,
    resource_name: &str,
    name: &str,
    value: Option<String>,
) -> ClusterRecord<'static> {
    let key = ConfigKey {
        resource_type,
        resource_name: resource_name.to_owned().into(),
        name: name.to_owned().into(),
    };
    ClusterRecord::Config(key, value.map(|value| ConfigValue { value: value.into() }))
}
