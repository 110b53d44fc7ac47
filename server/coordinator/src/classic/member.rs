//! A member of a classic group.

use super::parked::Parked;
use crate::client::Client;
use crate::text::{Blob, Text};
use crate::timers::Timer;
use crate::turn::Heard;
use alloc::sync::Arc;
use alloc::vec::Vec;
use muster_codec::messages::JoinGroupRequestProtocol;

/// The ids and timeouts of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) member_id: Text,
    /// Set for static members (KIP-345).
    pub(crate) instance_id: Option<Text>,
    pub(crate) client_id: Text,
    pub(crate) client_host: Text,
    pub(crate) rebalance_timeout_ms: i32,
    pub(crate) session_timeout_ms: i32,
}

/// An assignment strategy that a member offers, with its metadata. The coordinator reads only the
/// metadata of consumers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Protocol {
    pub(crate) name: Text,
    pub(crate) metadata: Blob,
}

#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) identity: Identity,
    /// The protocols in the member's order of preference. After a load, only the elected protocol.
    pub(crate) protocols: Vec<Protocol>,
    pub(crate) assignment: Blob,
    pub(crate) parked_join: Option<Parked>,
    pub(crate) parked_sync: Option<Parked>,
    /// Whether the member's first JoinGroup is unanswered. Before the answer the client does not
    /// know the member id, so it cannot send heartbeats.
    pub(crate) is_new: bool,
    pub(crate) session: Timer,
    /// When its session last began: at a request, or at the answer to a parked request.
    pub(crate) heard_at: i64,
    /// The connection of its last request.
    pub(crate) heard_on: Option<u64>,
    /// The sequence number of the insertion, which orders the members of a hash bucket.
    pub(crate) inserted: u64,
}

impl Identity {
    /// The bytes of the ids and the host.
    pub(crate) fn bytes(&self) -> usize {
        let instance_id = self.instance_id.as_ref().map_or(0, |it| it.len());
        self.member_id.len() + instance_id + self.client_id.len() + self.client_host.len()
    }
}

impl Member {
    pub(crate) fn client(&self) -> Client<'_> {
        Client { id: &self.identity.client_id, host: &self.identity.client_host }
    }

    pub(crate) fn heard(&self) -> Heard {
        Heard { at: self.heard_at, on: self.heard_on }
    }

    pub(crate) fn new(identity: Identity, protocols: Vec<Protocol>) -> Self {
        Self {
            identity,
            protocols,
            assignment: Arc::from([]),
            parked_join: None,
            parked_sync: None,
            is_new: false,
            session: Timer::default(),
            heard_at: 0,
            heard_on: None,
            inserted: 0,
        }
    }

    /// The bytes of the ids, the host and the offered protocols.
    pub(crate) fn bytes(&self) -> usize {
        self.identity.bytes() + bytes_of(&self.protocols)
    }

    pub(crate) fn metadata(&self, protocol: &str) -> Option<&Blob> {
        self.protocols.iter().find(|it| &*it.name == protocol).map(|it| &it.metadata)
    }

    pub(crate) fn offers(&self, protocols: &[JoinGroupRequestProtocol<'_>]) -> bool {
        self.protocols.len() == protocols.len()
            && self
                .protocols
                .iter()
                .zip(protocols)
                .all(|(mine, other)| *mine.name == *other.name && *mine.metadata == *other.metadata)
    }

    /// Whether the end of the member's session is ignored because the member waits for an answer.
    /// False for a new member: it may wait only until its timer fires.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.is_new && (self.parked_join.is_some() || self.parked_sync.is_some())
    }
}

fn bytes_of(protocols: &[Protocol]) -> usize {
    protocols.iter().map(|it| it.name.len() + it.metadata.len()).sum()
}

/// Owned copies of a request's protocols.
pub(crate) fn keep(protocols: &[JoinGroupRequestProtocol<'_>]) -> Vec<Protocol> {
    let kept = protocols.iter().map(|protocol| Protocol {
        name: Text::from(&*protocol.name),
        metadata: Blob::from(&*protocol.metadata),
    });
    kept.collect()
}
