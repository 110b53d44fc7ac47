//! One connection: its client, and a state for each part of [`Connections`](super::Connections)
//! that works on it.

use super::access::Access;
use super::incoming::Incoming;
use super::outgoing::{Outgoing, Streaming};
use super::requests::Requests;
use crate::config::ListenerIndex;
use crate::net::ConnectionId;
use crate::quotas::Allowance;
use crate::security::acls::Permissions;
use muster_codec::ApiKey;
use muster_codec::frame::frame_length;
use muster_fairness::Address;
use muster_storage::FileKey;
use std::sync::Arc;

/// The state of one connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub id: ConnectionId,
    pub listener: ListenerIndex,
    pub access: Access,
    /// The peer's address as Kafka prints it: `/127.0.0.1`.
    pub host: Arc<str>,
    /// The peer's address. Some limits give each address a share.
    pub address: Address,
    pub port: u16,
    /// The name and version of the client's software, if the client has sent them.
    pub software: Option<Arc<(Box<str>, Box<str>)>>,
    /// The principal of the client's certificate.
    pub certified: Option<Arc<str>>,
    /// The permissions of the client, by the ACLs at its last request.
    pub permissions: Option<Arc<Permissions>>,
    /// The quotas of the client, by the last request to which quotas applied.
    pub allowance: Option<Arc<Allowance>>,
    pub throttled: Throttled,
    pub admission: Admission,
    pub input: Incoming,
    pub requests: Requests,
    pub output: Outgoing,
    /// The bytes of answers in the account: of those that must still be held back, and of those
    /// that may be sent.
    counted_answers: (usize, usize),
    /// The work that the client waited for when it was last checked, as its mark (see [`Awaited`]),
    /// and the time since which the mark has been the same.
    stands: Option<(u64, i64)>,
}

/// Whether the listener has admitted a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    /// The connection is new, or was turned away.
    Outside,
    /// The connection waits, and is not served.
    Waits,
    /// The connection was admitted, and counts.
    Inside,
}

/// The reason why a connection is not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Throttled {
    #[default]
    No,
    /// The connection is not served until this time.
    Until(i64),
    /// The connection is closed at this time, because its address has opened too many connections.
    Closed(i64),
}

/// The first thing that a client waits for and that the server has to do.
#[derive(Debug)]
pub(super) struct Awaited {
    /// A number that changes whenever the awaited work makes progress.
    mark: u64,
    pub api: ApiKey,
    /// The sequence number of the awaited request; None if its answer is being sent.
    pub sequence: Option<u64>,
}

impl Connection {
    pub(super) fn new(id: ConnectionId, listener: ListenerIndex, host: Arc<str>, now: i64) -> Self {
        Self {
            id,
            listener,
            access: Access::Open,
            address: Address::of(&host),
            host,
            port: 0,
            software: None,
            certified: None,
            permissions: None,
            allowance: None,
            throttled: Throttled::No,
            admission: Admission::Outside,
            input: Incoming::new(now),
            requests: Requests::default(),
            output: Outgoing::new(now),
            counted_answers: (0, 0),
            stands: None,
        }
    }

    /// Whether the client has never been authenticated, although its listener asks for it.
    pub(super) fn is_unauthenticated(&self) -> bool {
        match &self.access {
            Access::Authenticating(authenticator) => !authenticator.is_again(),
            Access::Failed => true,
            Access::Open | Access::Authenticated(_) => false,
        }
    }

    /// Whether further requests wait until something else has ended.
    pub(super) fn is_held(&self) -> bool {
        let has_failed = matches!(self.access, Access::Failed);
        let is_throttled = self.throttled != Throttled::No || self.admission == Admission::Waits;
        let waits = self.input.waits_to_scan() || self.input.waits_to_be_served();
        self.requests.is_held() || waits || has_failed || is_throttled
    }

    /// The bytes of answers that the client has not read yet, including bytes that will be read
    /// from files.
    pub(super) fn unread_bytes(&self) -> usize {
        self.requests.unread_bytes() + self.output.unread_bytes()
    }

    /// Counts the memory of answers that must still be held back, and of answers that may be sent.
    /// Returns the previous two numbers, which are in the account, and the present two.
    pub(super) fn count_answers(&mut self) -> ((usize, usize), (usize, usize)) {
        let now = (self.requests.held_bytes(), self.output.held_bytes());
        (std::mem::replace(&mut self.counted_answers, now), now)
    }

    /// The bytes of answers in the account: of those that must still be held back, and of those
    /// that may be sent.
    pub(super) fn counted_answers(&self) -> (usize, usize) {
        self.counted_answers
    }

    /// The files to which unsent answers refer. A file occurs once for each part, because each part
    /// holds its file.
    pub(super) fn files(&self) -> Vec<FileKey> {
        self.output.files().chain(self.requests.files()).collect()
    }

    /// Whether the connection can be closed: the client has closed its sending side, no complete
    /// request is left, and the client has read all answers.
    pub(super) fn is_over(&self, max_bytes: u32) -> bool {
        let input = self.input.bytes();
        let length = || frame_length(input, max_bytes).ok().flatten();
        self.input.ended_at().is_some()
            && self.requests.len() == 0
            && self.unread_bytes() == 0
            && length().is_none_or(|length| length > input.len())
    }

    /// The first thing that the client waits for. None if it waits for nothing, or if it has to
    /// read before the server can continue.
    pub(super) fn awaited(&self) -> Option<Awaited> {
        match self.output.streaming() {
            Streaming::AwaitsWritable => None,
            Streaming::Queued | Streaming::UnderWay(_) => {
                let mark = !self.output.last_taken.unsigned_abs();
                Some(Awaited { mark, api: ApiKey::Fetch, sequence: None })
            }
            Streaming::No => {
                let (sequence, api) = self.requests.first()?;
                Some(Awaited { mark: sequence, api, sequence: Some(sequence) })
            }
        }
    }

    /// The time since which the awaited work has made no progress. It is the time of the first
    /// check that found this work.
    pub(super) fn stands_since(&mut self, awaited: &Awaited, now: i64) -> i64 {
        let known = self.stands.filter(|(mark, _)| *mark == awaited.mark);
        self.stands.insert(known.unwrap_or((awaited.mark, now))).1
    }

    /// Notes that the client does not wait for any work of the server.
    pub(super) fn stands_for_good_reason(&mut self) {
        self.stands = None;
    }
}
