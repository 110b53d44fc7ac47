//! ShareFetch in its share session.

use super::{
    Connection, FINAL_EPOCH, INITIAL_EPOCH, Opened, Partitions, Session, SessionKey, SessionLimit,
    Sessions, next_epoch,
};
use crate::TopicPartition;
use alloc::vec::Vec;
use muster_codec::ErrorCode;
use muster_fairness::{Address, Exceeded};

/// The fields of a ShareFetch that concern its session.
#[derive(Debug, Clone, Copy)]
pub struct SessionFetch<'r> {
    pub epoch: i32,
    /// All named partitions, including those with only acknowledgements.
    pub topics: &'r [TopicPartition],
    pub forgotten: &'r [TopicPartition],
    pub has_acknowledgements: bool,
    pub connection: Connection,
    /// The address of the client.
    pub address: Address,
}

/// The kind of a ShareFetch in its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FetchContext {
    Initial,
    Subsequent,
    /// Fetches nothing. The caller calls [`Sessions::close`] once its acknowledgements are flushed.
    Final,
}

/// A ShareFetch that its session accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begun {
    pub context: FetchContext,
    /// The partitions, in the order of the session.
    pub partitions: Vec<TopicPartition>,
}

impl Sessions {
    /// Begins a ShareFetch. An initial request replaces the member's session. The member keeps the
    /// records that it has acquired.
    ///
    /// # Errors
    /// - SHARE_SESSION_NOT_FOUND.
    /// - INVALID_SHARE_SESSION_EPOCH.
    /// - SHARE_SESSION_LIMIT_REACHED. The caller sends this answer only after the request's
    ///   MaxWaitMs.
    /// - INVALID_REQUEST for acknowledgements in an initial request.
    pub fn fetch(
        &mut self,
        key: &SessionKey,
        request: &SessionFetch<'_>,
    ) -> Result<Begun, ErrorCode> {
        match request.epoch {
            INITIAL_EPOCH => self.open(key, request),
            FINAL_EPOCH if self.sessions.contains_key(key) => {
                Ok(Begun { context: FetchContext::Final, partitions: Vec::new() })
            }
            FINAL_EPOCH => Err(ErrorCode::ShareSessionNotFound),
            _ => self.resume(key, request),
        }
    }

    fn open(&mut self, key: &SessionKey, request: &SessionFetch<'_>) -> Result<Begun, ErrorCode> {
        if request.has_acknowledgements {
            return Err(ErrorCode::InvalidRequest);
        }
        self.remove(key);
        let SessionFetch { connection, address, topics, .. } = *request;
        let of_sessions = self.by_address.admit(address, 1, self.limit);
        of_sessions.map_err(|it| self.refuse(SessionLimit::Sessions, it))?;
        self.admit_partitions(address, topics.len())?;
        let epoch = next_epoch(INITIAL_EPOCH);
        let mut partitions = Partitions::default();
        topics.iter().for_each(|at| partitions.add(*at, false));
        let begun =
            Begun { context: FetchContext::Initial, partitions: partitions.iter().collect() };
        self.by_address.take(address, 1);
        self.partitions.take(address, partitions.len());
        self.sessions.insert(key.clone(), Session { epoch, connection, address, partitions });
        self.by_connection.insert(connection, Opened { key: key.clone(), is_stale: false });
        Ok(begun)
    }

    fn resume(&mut self, key: &SessionKey, request: &SessionFetch<'_>) -> Result<Begun, ErrorCode> {
        let session = self.sessions.get_mut(key).ok_or(ErrorCode::ShareSessionNotFound)?;
        session.take(request.epoch)?;
        let new = request.topics.iter().filter(|at| !session.partitions.contains(**at));
        let (address, new) = (session.address, new.count());
        self.admit_partitions(address, new)?;
        let session = self.sessions.get_mut(key).ok_or(ErrorCode::ShareSessionNotFound)?;
        self.partitions.release(address, session.partitions.len());
        request.topics.iter().for_each(|at| session.partitions.add(*at, true));
        request.forgotten.iter().for_each(|at| session.partitions.remove(*at));
        self.partitions.take(address, session.partitions.len());
        let partitions = session.partitions.iter().collect();
        Ok(Begun { context: FetchContext::Subsequent, partitions })
    }

    /// Checks whether the sessions of an address may have more partitions.
    fn admit_partitions(&mut self, address: Address, more: usize) -> Result<(), ErrorCode> {
        let admitted = self.partitions.admit(address, more, self.partitions_max);
        admitted.map_err(|it| self.refuse(SessionLimit::Partitions, it))
    }

    fn refuse(&mut self, limit: SessionLimit, exceeded: Exceeded) -> ErrorCode {
        self.refused = Some((limit, exceeded));
        ErrorCode::ShareSessionLimitReached
    }

    /// Whether the answer to a subsequent ShareFetch includes a partition. It does if the partition
    /// has records or news (an error, or the result of acknowledgements). It also does if the
    /// session got the partition after its first request, and no answer has included it since. A
    /// partition with records is fetched last the next time.
    pub fn is_answered(
        &mut self,
        key: &SessionKey,
        at: TopicPartition,
        has_records: bool,
        has_news: bool,
    ) -> bool {
        let session = self.sessions.get_mut(key);
        let is_new = session.is_some_and(|it| it.partitions.answered(at, has_records));
        is_new || has_records || has_news
    }
}
