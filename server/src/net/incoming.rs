//! The input of a connection: received bytes that are not handled yet, and what they wait for.

use super::standing::Standing;

/// The input of a connection.
#[derive(Debug)]
pub(super) struct Incoming {
    /// Received bytes that are not handled: an incomplete frame, or frames of a connection that has
    /// to wait.
    bytes: Vec<u8>,
    /// The time when input last arrived, in milliseconds.
    pub last_active: i64,
    /// The stopwatch's time when the present input arrived. None if this input is not measured.
    pub arrived: Option<u64>,
    pub standing: Standing,
    /// The time when the client closed its sending side.
    ended_at: Option<i64>,
    /// The bytes that the account has counted.
    counted: usize,
    /// Whether receiving waits for the budget of all input.
    is_blocked: bool,
    /// Whether the reactor was asked to stop receiving.
    is_paused: bool,
    /// Whether the connection is in the run queue.
    is_queued: bool,
    /// Whether the next request waits until the unread answers of all clients are below their
    /// budget.
    waits_for_readers: bool,
    /// Whether the next request is long, and waits until the shard takes it up as a long request.
    waits_to_scan: bool,
    /// Whether the next request waits until this node serves its slot.
    waits_to_be_served: bool,
    /// The time until which this request may wait, or a request might that waited too long.
    unserved_until: Option<i64>,
}

impl Incoming {
    pub(super) fn new(now: i64) -> Self {
        Self {
            bytes: Vec::new(),
            last_active: now,
            arrived: None,
            standing: Standing::default(),
            ended_at: None,
            counted: 0,
            is_blocked: false,
            is_paused: false,
            is_queued: false,
            waits_for_readers: false,
            waits_to_scan: false,
            waits_to_be_served: false,
            unserved_until: None,
        }
    }

    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Takes out the bytes, to handle some of them.
    #[inline]
    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }

    /// Takes back bytes that are not handled.
    #[inline]
    pub(super) fn put(&mut self, bytes: Vec<u8>) {
        self.bytes = bytes;
    }

    /// Notes that the client closed its sending side.
    pub(super) fn end(&mut self, now: i64) {
        self.ended_at.get_or_insert(now);
    }

    pub(super) fn ended_at(&self) -> Option<i64> {
        self.ended_at
    }

    /// The bytes that the account has counted.
    pub(super) fn counted(&self) -> usize {
        self.counted
    }

    /// Counts the bytes. Returns the number at the previous call, which is in the account, and the
    /// new one.
    #[inline]
    pub(super) fn count(&mut self) -> (usize, usize) {
        let held = self.bytes.len();
        (std::mem::replace(&mut self.counted, held), held)
    }

    pub(super) fn is_blocked(&self) -> bool {
        self.is_blocked
    }

    /// Notes whether receiving waits for the budget of all input. Returns whether it waited before.
    #[inline]
    pub(super) fn block(&mut self, is_blocked: bool) -> bool {
        std::mem::replace(&mut self.is_blocked, is_blocked)
    }

    #[inline]
    pub(super) fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// Notes whether the reactor has to stop receiving. Returns whether this is new.
    #[inline]
    pub(super) fn pause(&mut self, is_paused: bool) -> bool {
        std::mem::replace(&mut self.is_paused, is_paused) != is_paused
    }

    /// Notes that the connection is in the run queue. Returns false if it already was.
    pub(super) fn queue(&mut self) -> bool {
        !std::mem::replace(&mut self.is_queued, true)
    }

    /// Takes out the bytes of a connection that has left the run queue.
    pub(super) fn take_queued(&mut self) -> Vec<u8> {
        self.is_queued = false;
        self.take()
    }

    /// Notes that the next request waits for the budget of unread answers. Returns false if it
    /// already waited.
    pub(super) fn wait_for_readers(&mut self) -> bool {
        !std::mem::replace(&mut self.waits_for_readers, true)
    }

    /// Notes that unread answers are below their budget.
    pub(super) fn have_readers(&mut self) {
        self.waits_for_readers = false;
    }

    #[inline]
    pub(super) fn waits_to_scan(&self) -> bool {
        self.waits_to_scan
    }

    /// Notes that the next request is long, and waits until the shard takes it up.
    pub(super) fn wait_to_scan(&mut self) {
        self.waits_to_scan = true;
    }

    #[inline]
    pub(super) fn waits_to_be_served(&self) -> bool {
        self.waits_to_be_served
    }

    pub(super) fn unserved_until(&self) -> Option<i64> {
        self.unserved_until
    }

    /// Takes the deadline of a request that may have to wait until this node serves its slot.
    pub(super) fn take_unserved_until(&mut self) -> Option<i64> {
        self.unserved_until.take()
    }

    /// Notes whether the next request waits until this node serves its slot.
    pub(super) fn wait_to_be_served(&mut self, until: i64, waits: bool) {
        (self.waits_to_be_served, self.unserved_until) = (waits, Some(until));
    }

    /// Notes that the next request is to be handled again.
    pub(super) fn try_again(&mut self) {
        self.waits_to_be_served = false;
    }

    /// Takes out the bytes of a connection whose long request is handled now.
    pub(super) fn take_to_scan(&mut self) -> Vec<u8> {
        self.waits_to_scan = false;
        self.take()
    }
}
