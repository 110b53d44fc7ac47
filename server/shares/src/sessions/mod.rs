//! The share sessions of a shard: which partitions a member fetches, and that its requests come in
//! order. All of it is soft: a session ends with its connection, and with the shard.

mod fetch;
mod partitions;

pub use fetch::{Begun, FetchContext, SessionFetch};

use crate::TopicPartition;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use muster_codec::ErrorCode;
use muster_fairness::{Address, Exceeded, Holders};
use partitions::Partitions;

/// Opens a session.
pub const INITIAL_EPOCH: i32 = 0;
/// Closes a session.
pub const FINAL_EPOCH: i32 = -1;

/// The connection of a client; opaque here.
pub type Connection = u64;

#[derive(Debug)]
pub struct Sessions {
    sessions: BTreeMap<SessionKey, Session>,
    /// The last session that each connection has opened.
    by_connection: BTreeMap<Connection, Opened>,
    /// `group.share.max.share.sessions`
    limit: usize,
    /// The sessions of each address, and the partitions of all of them.
    by_address: Holders,
    partitions: Holders,
    partitions_max: usize,
    /// The last refusal that was not taken.
    refused: Option<(SessionLimit, Exceeded)>,
}

/// A limit of sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionLimit {
    /// `group.share.max.share.sessions`
    Sessions,
    /// Those of all sessions: [`SESSION_PARTITIONS_MAX`](crate::limits::SESSION_PARTITIONS_MAX).
    Partitions,
}

/// The longest member id, in characters.
const MEMBER_ID_MAX: usize = 36;

/// Whether a member of a share group may have this id.
pub fn is_member_id(id: &str) -> bool {
    (1..=MEMBER_ID_MAX).contains(&id.encode_utf16().count())
}

/// A member of a group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionKey {
    pub group_id: Arc<str>,
    pub member_id: Box<str>,
}

#[derive(Debug)]
struct Session {
    /// The epoch of the next request.
    epoch: i32,
    connection: Connection,
    /// The address of the client that has opened it, to which its partitions count.
    address: Address,
    partitions: Partitions,
}

#[derive(Debug)]
struct Opened {
    key: SessionKey,
    /// Whether the session was replaced or closed since: the end of the connection means nothing.
    is_stale: bool,
}

/// The end of a session: what the member holds in these partitions is to be released.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    pub member_id: Box<str>,
    pub partitions: Vec<TopicPartition>,
}

/// The end of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disconnected {
    pub group_id: Arc<str>,
    /// None if the session was replaced or closed before.
    pub ended: Option<Ended>,
    /// Whether the group has no session left: its share partitions are to be dropped.
    pub is_group_gone: bool,
}

impl Sessions {
    /// `limit` is that of sessions, the other one that of their partitions.
    pub fn new(limit: usize, partitions_max: usize) -> Self {
        Self {
            sessions: BTreeMap::new(),
            by_connection: BTreeMap::new(),
            limit,
            by_address: Holders::default(),
            partitions: Holders::default(),
            partitions_max,
            refused: None,
        }
    }

    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    /// The epoch that a session expects next; None without one.
    pub fn epoch(&self, key: &SessionKey) -> Option<i32> {
        self.sessions.get(key).map(|session| session.epoch)
    }

    /// The partitions of a session, in order.
    pub fn partitions(&self, key: &SessionKey) -> impl Iterator<Item = TopicPartition> {
        let session = self.sessions.get(key);
        session.into_iter().flat_map(|it| it.partitions.iter())
    }

    /// A ShareAcknowledge; its last one leaves the session open until [`Self::close`].
    ///
    /// # Errors
    /// SHARE_SESSION_NOT_FOUND, INVALID_SHARE_SESSION_EPOCH.
    pub fn acknowledge(&mut self, key: &SessionKey, epoch: i32) -> Result<(), ErrorCode> {
        if epoch == INITIAL_EPOCH {
            return Err(ErrorCode::InvalidShareSessionEpoch);
        }
        let session = self.sessions.get_mut(key).ok_or(ErrorCode::ShareSessionNotFound)?;
        if epoch == FINAL_EPOCH { Ok(()) } else { session.take(epoch) }
    }

    /// Ends a session, once the acknowledgements of its last request are taken.
    ///
    /// # Errors
    /// SHARE_SESSION_NOT_FOUND.
    pub fn close(&mut self, key: &SessionKey) -> Result<Ended, ErrorCode> {
        self.remove(key).ok_or(ErrorCode::ShareSessionNotFound)
    }

    /// A connection has ended, and with it the session that it has opened last; None without one.
    pub fn disconnected(&mut self, connection: Connection) -> Option<Disconnected> {
        let Opened { key, is_stale } = self.by_connection.remove(&connection)?;
        let ended = if is_stale { None } else { self.remove(&key) };
        let is_group_gone = !self.has_group(&key.group_id);
        Some(Disconnected { group_id: key.group_id, ended, is_group_gone })
    }

    fn remove(&mut self, key: &SessionKey) -> Option<Ended> {
        let session = self.sessions.remove(key)?;
        self.by_address.release(session.address, 1);
        self.partitions.release(session.address, session.partitions.len());
        if let Some(opened) = self.by_connection.get_mut(&session.connection) {
            opened.is_stale = true;
        }
        let partitions = session.partitions.iter().collect();
        Some(Ended { member_id: key.member_id.clone(), partitions })
    }

    /// The limit that has refused a session, or partitions to one, since the last call.
    pub fn take_refused(&mut self) -> Option<(SessionLimit, Exceeded)> {
        self.refused.take()
    }

    /// The most sessions.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// The most partitions of all sessions.
    pub fn partitions_max(&self) -> usize {
        self.partitions_max
    }

    /// The partitions of all sessions.
    pub fn partition_count(&self) -> usize {
        self.partitions.total()
    }

    /// Changes the limit; sessions over it stay.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Whether a group has a session.
    pub fn has_group(&self, group_id: &str) -> bool {
        let first = SessionKey::new(group_id, "");
        self.sessions.range(first..).next().is_some_and(|(key, _)| &*key.group_id == group_id)
    }
}

impl SessionKey {
    pub fn new(group_id: impl Into<Arc<str>>, member_id: &str) -> Self {
        Self { group_id: group_id.into(), member_id: member_id.into() }
    }
}

impl Session {
    /// Uses up an epoch.
    fn take(&mut self, epoch: i32) -> Result<(), ErrorCode> {
        if epoch != self.epoch {
            return Err(ErrorCode::InvalidShareSessionEpoch);
        }
        self.epoch = next_epoch(epoch);
        Ok(())
    }
}

/// 0, 1, 2, ... 2^31 - 1, 1, ...
fn next_epoch(epoch: i32) -> i32 {
    epoch.checked_add(1).unwrap_or(1)
}
