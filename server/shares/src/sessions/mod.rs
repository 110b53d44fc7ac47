//! The share sessions of a shard: the partitions that each member fetches, and the order of its
//! requests. They are volatile: a session ends with its connection or with the shard.

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

/// The epoch of a request that opens a session.
pub const INITIAL_EPOCH: i32 = 0;
/// The epoch of a request that closes a session.
pub const FINAL_EPOCH: i32 = -1;

/// The connection of a client; opaque here.
pub type Connection = u64;

#[derive(Debug)]
pub struct Sessions {
    sessions: BTreeMap<SessionKey, Session>,
    /// For each connection, the session that it opened last.
    by_connection: BTreeMap<Connection, Opened>,
    /// `group.share.max.share.sessions`
    limit: usize,
    /// The number of sessions of each address, and the number of their partitions.
    by_address: Holders,
    partitions: Holders,
    partitions_max: usize,
    /// The last refusal, until the caller takes it.
    refused: Option<(SessionLimit, Exceeded)>,
}

/// A limit of sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionLimit {
    /// `group.share.max.share.sessions`
    Sessions,
    /// The partitions of all sessions:
    /// [`SESSION_PARTITIONS_MAX`](crate::limits::SESSION_PARTITIONS_MAX).
    Partitions,
}

/// The longest member id, in UTF-16 units.
const MEMBER_ID_MAX: usize = 36;

/// Whether a member of a share group may have this id.
pub fn is_member_id(id: &str) -> bool {
    (1..=MEMBER_ID_MAX).contains(&id.encode_utf16().count())
}

/// The key of a session: a group and a member.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionKey {
    pub group_id: Arc<str>,
    pub member_id: Box<str>,
}

#[derive(Debug)]
struct Session {
    /// The expected epoch of the next request.
    epoch: i32,
    connection: Connection,
    /// The address of the client that opened the session. The number of partitions that one address
    /// may have is limited, and those of this session count.
    address: Address,
    partitions: Partitions,
}

#[derive(Debug)]
struct Opened {
    key: SessionKey,
    /// Whether this session is gone: it was replaced, or closed. Then no session ends with the
    /// connection.
    is_stale: bool,
}

/// A session that ended. The caller must release the member's records in these partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    pub member_id: Box<str>,
    pub partitions: Vec<TopicPartition>,
}

/// The consequences of the end of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disconnected {
    pub group_id: Arc<str>,
    /// None if the session had been replaced or closed before.
    pub ended: Option<Ended>,
    /// Whether the group has no session left. The caller must then drop its share partitions.
    pub is_group_gone: bool,
}

impl Sessions {
    /// No sessions yet. Holds at most `limit` sessions, with at most `partitions_max` partitions in
    /// all.
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

    /// The epoch that a session expects next; None if there is no session.
    pub fn epoch(&self, key: &SessionKey) -> Option<i32> {
        self.sessions.get(key).map(|session| session.epoch)
    }

    /// The partitions of a session, in order.
    pub fn partitions(&self, key: &SessionKey) -> impl Iterator<Item = TopicPartition> {
        let session = self.sessions.get(key);
        session.into_iter().flat_map(|it| it.partitions.iter())
    }

    /// Accepts a ShareAcknowledge. The session stays open until [`Self::close`], even after the
    /// ShareAcknowledge that asks to close it.
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

    /// Ends a session. To be called once the acknowledgements of its last request are flushed. The
    /// member's other records are then released, by a record of state whose start offset is already
    /// past the acknowledged records. Kafka does the same.
    ///
    /// # Errors
    /// SHARE_SESSION_NOT_FOUND.
    pub fn close(&mut self, key: &SessionKey) -> Result<Ended, ErrorCode> {
        self.remove(key).ok_or(ErrorCode::ShareSessionNotFound)
    }

    /// Ends the session that a closed connection opened last. None if it opened none.
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

    /// The last refusal of a session or of partitions, if there was one since the last call: the
    /// limit, and whether the whole limit was reached, or the part of it that one address may use.
    pub fn take_refused(&mut self) -> Option<(SessionLimit, Exceeded)> {
        self.refused.take()
    }

    /// The maximum number of sessions.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// The maximum number of partitions of all sessions.
    pub fn partitions_max(&self) -> usize {
        self.partitions_max
    }

    /// The number of partitions of all sessions.
    pub fn partition_count(&self) -> usize {
        self.partitions.total()
    }

    /// Changes the limit. Sessions beyond it stay.
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
    /// Checks the epoch of a request, and moves on to the next epoch.
    fn take(&mut self, epoch: i32) -> Result<(), ErrorCode> {
        if epoch != self.epoch {
            return Err(ErrorCode::InvalidShareSessionEpoch);
        }
        self.epoch = next_epoch(epoch);
        Ok(())
    }
}

/// The epochs are 0, 1, 2, ... 2^31 - 1, 1, ...
fn next_epoch(epoch: i32) -> i32 {
    epoch.checked_add(1).unwrap_or(1)
}
