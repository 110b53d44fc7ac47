//! Looks up the coordinator of a group or of a transactional id (Kafka's
//! `CoordinatorRequestManager`), with one request at a time, a back-off after a failure, and a
//! pause between two successful lookups.

use std::fmt;
use std::sync::Arc;

use muster_codec::messages::{FindCoordinatorRequest, FindCoordinatorResponse};
use muster_codec::{ApiKey, ErrorCode};

use super::backoff::Retry;
use super::error::{Fatal, Remedy, Step, fatal_of, refusal, remedy};
use super::io::{NodeIndex, Request};
use super::text::text;
use crate::time::Time;

/// The first version with a list of keys (KIP-699).
const BATCHED: i16 = 4;

/// The name to look up, with its kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Key {
    Group(Arc<str>),
    Transactions(Arc<str>),
}

#[derive(Default, Debug)]
pub(super) struct Lookup {
    found: Found,
    /// Whether the coordinator has proved, since it was found, that it has loaded the group.
    confirmed: bool,
    pub(super) retry: Retry,
}

#[derive(Clone, Copy, Default, Debug)]
enum Found {
    #[default]
    Nowhere,
    Asked(u32),
    At(NodeIndex),
}

impl Lookup {
    pub(super) fn node(&self) -> Option<NodeIndex> {
        match self.found {
            Found::At(node) => Some(node),
            Found::Nowhere | Found::Asked(_) => None,
        }
    }

    pub(super) fn asked(&mut self, token: u32) {
        self.found = Found::Asked(token);
    }

    pub(super) fn at(&mut self, node: NodeIndex) {
        self.found = Found::At(node);
        self.confirmed = false;
    }

    /// Notes an answer that only a coordinator that has loaded the group can give.
    pub(super) fn confirm(&mut self) {
        self.confirmed = true;
    }

    /// Whether an answer has proved that the coordinator has loaded the group. Heartbeats prove
    /// nothing in classic groups: while Kafka's coordinator loads a group, it answers each of them
    /// without error, but renews no session (`GroupCoordinatorService.heartbeat`: "blindly
    /// respond").
    pub(super) fn is_confirmed(&self) -> bool {
        self.confirmed
    }

    /// Forgets the known node, where the coordinator no longer is. A lookup in flight continues.
    pub(super) fn forget(&mut self) {
        if let Found::At(_) = self.found {
            self.found = Found::Nowhere;
        }
    }

    /// Notes that the lookup failed.
    pub(super) fn failed(&mut self) {
        self.found = Found::Nowhere;
    }

    pub(super) fn awaits(&self, token: u32) -> bool {
        matches!(self.found, Found::Asked(asked) if asked == token)
    }

    /// Whether a lookup has to be sent now.
    pub(super) fn due(&self, now: Time) -> bool {
        matches!(self.found, Found::Nowhere) && self.retry.ready(now)
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        matches!(self.found, Found::Nowhere).then(|| self.retry.until())
    }
}

impl Key {
    fn name(&self) -> &str {
        match self {
            Self::Group(name) | Self::Transactions(name) => name,
        }
    }

    /// The key type of `FindCoordinator`.
    fn kind(&self) -> i8 {
        match self {
            Self::Group(_) => 0,
            Self::Transactions(_) => 1,
        }
    }

    /// The first version that has this kind of key.
    pub(super) fn least_version(&self) -> i16 {
        self.kind().into()
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Group(name) => write!(f, "group {name}"),
            Self::Transactions(name) => write!(f, "producer {name}"),
        }
    }
}

pub(super) fn request(key: &Key, version: i16) -> Request {
    let mut request = FindCoordinatorRequest { key_type: key.kind(), ..Default::default() };
    match version {
        BATCHED.. => request.coordinator_keys = vec![text(key.name())],
        _ => request.key = text(key.name()),
    }
    request.into()
}

/// Reads the coordinator's address. Returns an error code if the lookup has to be repeated.
pub(super) fn read<'a>(
    key: &Key,
    response: &'a FindCoordinatorResponse<'_>,
) -> Step<Result<(&'a str, u16), ErrorCode>> {
    let (error, said, host, port) = match response.coordinators.first() {
        Some(one) => (one.error_code, &one.error_message, &one.host, one.port),
        None => (response.error_code, &response.error_message, &response.host, response.port),
    };
    match refusal(error) {
        None => match u16::try_from(port) {
            Ok(port) if port > 0 && !host.is_empty() => Ok(Ok((&**host, port))),
            _ => Err(Fatal(format!("the coordinator of {key} has no valid address"))),
        },
        Some(error) if remedy(error) != Remedy::GiveUp => Ok(Err(error)),
        Some(error) => {
            let said = said.as_deref();
            Err(fatal_of(ApiKey::FindCoordinator, &key.to_string(), error, said))
        }
    }
}
