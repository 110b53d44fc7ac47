//! The client instances that a shard knows, with the times of their last requests. An instance is
//! removed when it has been silent for a while. If there are too many instances, the least recently
//! used one is removed.

use super::limits::INSTANCES_MAX;
use muster_codec::{ErrorCode, Uuid};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// An instance is known for at least this long after its last request.
const EXPIRY_MS_MIN: i64 = 60_000;

/// A client instance with its matching subscriptions.
#[derive(Debug)]
pub(super) struct Instance {
    /// The indexes of its subscriptions.
    pub(super) matched: Box<[u16]>,
    pub(super) interval_ms: i32,
    pub(super) subscription_id: i32,
    /// Whether its last push announced that it terminates.
    pub(super) is_terminating: bool,
    pub(super) last_error: ErrorCode,
    asked_at: Option<i64>,
    pushed_at: Option<i64>,
    /// The version of the subscriptions that were matched.
    version: u64,
    /// The connection on which it was first seen.
    connection: u64,
    /// The keys under which the instance is found in `by_use` and in `by_expiry`.
    used: u64,
    expires_at: i64,
}

impl Instance {
    pub(super) fn new(matched: Box<[u16]>, interval_ms: i32, subscription_id: i32) -> Self {
        Self {
            matched,
            interval_ms,
            subscription_id,
            is_terminating: false,
            last_error: ErrorCode::None,
            asked_at: None,
            pushed_at: None,
            version: 0,
            connection: 0,
            used: 0,
            expires_at: 0,
        }
    }

    /// Whether the client may request its subscriptions. It may do so once an interval has passed
    /// since its last request, and at any time after an error that requires new subscriptions.
    pub(super) fn may_ask(&mut self, now: i64) -> bool {
        let last = self.asked_at.max(self.pushed_at);
        let is_due = self.is_due(last, now);
        if is_due {
            self.asked_at = Some(now);
        }
        is_due
            || [ErrorCode::UnknownSubscriptionId, ErrorCode::UnsupportedCompressionType]
                .contains(&self.last_error)
    }

    /// Whether the client may push. It may do so once an interval has passed since its last push.
    /// But its first push after it got its subscriptions may come at any time, because clients
    /// choose that time at random.
    pub(super) fn may_push(&mut self, now: i64) -> bool {
        let may_push = self.asked_at > self.pushed_at || self.is_due(self.pushed_at, now);
        if may_push {
            self.pushed_at = Some(now);
        }
        may_push
    }

    fn is_due(&self, last: Option<i64>, now: i64) -> bool {
        last.is_none_or(|last| now - last >= i64::from(self.interval_ms))
    }
}

#[derive(Debug, Default)]
pub(super) struct Instances {
    all: HashMap<Uuid, Instance>,
    by_use: BTreeMap<u64, Uuid>,
    by_expiry: BTreeSet<(i64, Uuid)>,
    by_connection: HashMap<u64, Uuid>,
    next_use: u64,
}

impl Instances {
    /// The instance of a client. If it is not known, or was made for another version of the
    /// subscriptions, this is a new instance.
    pub(super) fn of(
        &mut self,
        now: i64,
        id: Uuid,
        connection: u64,
        version: u64,
        new: impl FnOnce() -> Instance,
    ) -> &mut Instance {
        let known = self.all.remove(&id).inspect(|it| {
            self.by_use.remove(&it.used);
            self.by_expiry.remove(&(it.expires_at, id));
        });
        let mut instance = known.filter(|it| it.version == version).unwrap_or_else(|| {
            self.by_connection.insert(connection, id);
            Instance { version, connection, ..new() }
        });
        if self.all.len() >= INSTANCES_MAX {
            self.forget_oldest();
        }
        instance.used = self.next_use;
        instance.expires_at = now + EXPIRY_MS_MIN.max(3 * i64::from(instance.interval_ms));
        self.next_use += 1;
        self.by_use.insert(instance.used, id);
        self.by_expiry.insert((instance.expires_at, id));
        self.all.entry(id).or_insert(instance)
    }

    pub(super) fn has(&self, id: Uuid) -> bool {
        self.all.contains_key(&id)
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Notes the error of a push that was accepted at first and then refused by the telemetry
    /// thread.
    pub(super) fn failed(&mut self, id: Uuid, error: ErrorCode) {
        if let Some(instance) = self.all.get_mut(&id) {
            instance.last_error = error;
        }
    }

    pub(super) fn connection_closed(&mut self, connection: u64) {
        if let Some(id) = self.by_connection.get(&connection).copied() {
            self.forget(id);
            self.by_connection.remove(&connection);
        }
    }

    pub(super) fn expire(&mut self, now: i64) {
        while let Some((_, id)) = self.by_expiry.first().filter(|(at, _)| *at <= now).copied() {
            self.forget(id);
        }
    }

    pub(super) fn deadline(&self) -> Option<i64> {
        self.by_expiry.first().map(|(at, _)| *at)
    }

    fn forget_oldest(&mut self) {
        if let Some((_, id)) = self.by_use.first_key_value().map(|(used, id)| (*used, *id)) {
            self.forget(id);
        }
    }

    fn forget(&mut self, id: Uuid) {
        let Some(instance) = self.all.remove(&id) else { return };
        self.by_use.remove(&instance.used);
        self.by_expiry.remove(&(instance.expires_at, id));
        if self.by_connection.get(&instance.connection) == Some(&id) {
            self.by_connection.remove(&instance.connection);
        }
    }
}
