//! ListTransactions and DescribeTransactions (`TransactionStateManager.listTransactionStates`).
//!
//! - ListTransactions v1 filters by duration, v2 by a pattern of the id.
//! - A list, or the description of an id, that exceeds the answer's budget gets
//!   UNKNOWN_SERVER_ERROR. Kafka has neither this limit nor an error for it.

use crate::context::{Context, Matcher};
use crate::coordinator::{Caller, Coordinator};
use crate::entry::{Entry, Phase};
use crate::ids::Seen;
use crate::output::Output;
use crate::state::{Durable, State};
use crate::text::{Text, owned};
use alloc::vec::Vec;
use core::fmt::{self, Debug, Formatter};
use muster_codec::messages::{
    DescribeTransactionsRequest, DescribeTransactionsResponse, DescribedTransaction,
    DescribedTransactionTopic, ListTransactionsRequest, ListTransactionsResponse,
    ListedTransaction,
};
use muster_codec::{AnswerBudget, ErrorCode, Str, Wall};

/// The error of a list or an id that exceeds the answer's budget.
const TOO_LARGE: ErrorCode = ErrorCode::UnknownServerError;

/// States that Kafka knows, but that no transactional id of this coordinator ever has.
const NEVER: [&str; 2] = ["Dead", "PrepareEpochFence"];

impl Coordinator {
    pub(crate) fn list_transactions(
        &self,
        context: &Context<'_>,
        caller: Caller<'_>,
        request: &ListTransactionsRequest<'_>,
        out: &mut Output,
    ) {
        let mut listing = Listing::new(request, |pattern| context.topics.pattern(pattern));
        self.list(&mut listing, context.wall, usize::MAX);
        out.answer(caller.request, listing.take(), self.written_at);
    }

    /// Continues a listing by at most `count` ids of this coordinator. Returns the number of ids
    /// visited. If it is less than `count`, no more are left here, and the listing may continue
    /// with another coordinator.
    pub fn list(&self, listing: &mut Listing, wall: Wall, count: usize) -> usize {
        let after = listing.after.take();
        let (mut visited, mut last) = (0, None);
        for Seen { id, durable, entry } in self.ids.after(after.as_deref()).take(count) {
            (visited, last) = (visited + 1, Some(id));
            let next = entry.and_then(Entry::next);
            listing.add(id, next.as_ref().unwrap_or(&durable), wall);
        }
        listing.after = last.filter(|_| visited == count).map(Text::from);
        visited
    }

    pub(crate) fn describe(
        &mut self,
        caller: Caller<'_>,
        request: &DescribeTransactionsRequest<'_>,
        out: &mut Output,
    ) {
        let (mut visible_at, mut budget) = (0, AnswerBudget::of_answer());
        let mut ids: Vec<Str<'_>> = request.transactional_ids.clone();
        budget.reserve(&mut ids, |id| not_described(id, TOO_LARGE));
        let described = ids.iter().map(|id| {
            self.ids.load(id);
            visible_at = self.visible_at(id).max(visible_at);
            let described = match self.ids.get(id) {
                _ if id.is_empty() => not_described(id, ErrorCode::InvalidRequest),
                Some(entry) => described(id, entry),
                None => not_described(id, ErrorCode::TransactionalIdNotFound),
            };
            budget.fit(described).unwrap_or_else(|| not_described(id, TOO_LARGE))
        });
        let transaction_states = described.collect();
        let response = DescribeTransactionsResponse { transaction_states, ..Default::default() };
        out.answer(caller.request, response, visible_at);
    }
}

fn not_described(id: &str, error: ErrorCode) -> DescribedTransaction<'static> {
    let error_code = error.code();
    DescribedTransaction { error_code, transactional_id: owned(id), ..Default::default() }
}

/// The description of an id. While markers are under way, it has only the partitions without a
/// marker.
fn described(id: &str, entry: &Entry) -> DescribedTransaction<'static> {
    let next = entry.next();
    let durable = next.as_ref().unwrap_or(&entry.durable);
    let partitions = match entry.phase() {
        Phase::Marking { remaining, .. } => Some(remaining),
        Phase::Idle | Phase::Syncing(_) | Phase::Settling { .. } => durable.partitions(),
    };
    let topics = partitions.into_iter().flat_map(|it| it.topics());
    let topics = topics.map(|(topic, partitions)| DescribedTransactionTopic {
        topic: owned(topic),
        partitions: partitions.to_vec(),
    });
    DescribedTransaction {
        error_code: ErrorCode::None.code(),
        transactional_id: owned(id),
        transaction_state: Str::Borrowed(durable.state.name()),
        transaction_timeout_ms: durable.timeout_ms,
        transaction_start_time_ms: durable.started,
        producer_id: durable.producer_id,
        producer_epoch: durable.epoch,
        topics: topics.collect(),
    }
}

/// A ListTransactions under way.
pub struct Listing {
    states: Option<Vec<State>>,
    unknown_states: Vec<Str<'static>>,
    /// Sorted, because a client may name millions.
    producer_ids: Vec<i64>,
    duration_ms: i64,
    pattern: Option<Matcher>,
    budget: AnswerBudget,
    /// The last id that was visited.
    after: Option<Text>,
    found: Vec<ListedTransaction<'static>>,
    error: ErrorCode,
}

impl Debug for Listing {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { states, producer_ids, after, found, error, .. } = self;
        write!(f, "{error:?} after {after:?} of {states:?} {producer_ids:?}: {found:?}")
    }
}

impl Listing {
    /// A listing for a request. `compile` makes the matcher of a pattern; None if the pattern is
    /// invalid.
    pub fn new(
        request: &ListTransactionsRequest<'_>,
        compile: impl FnOnce(&str) -> Option<Matcher>,
    ) -> Self {
        let mut unknown_states = Vec::new();
        let mut states = Vec::new();
        for name in &request.state_filters {
            match State::ALL.into_iter().find(|state| state.name() == *name) {
                Some(state) => states.push(state),
                None if NEVER.contains(&&**name) => {}
                None => unknown_states.push(owned(name)),
            }
        }
        states.sort_unstable();
        states.dedup();
        // Each name is answered once. A client may name millions.
        unknown_states.sort_unstable();
        unknown_states.dedup();
        let mut producer_ids = request.producer_id_filters.clone();
        producer_ids.sort_unstable();
        let pattern = request.transactional_id_pattern.as_deref().filter(|it| !it.is_empty());
        let matcher = pattern.map(compile);
        let error = match &matcher {
            Some(None) => ErrorCode::InvalidRegularExpression,
            Some(Some(_)) | None => ErrorCode::None,
        };
        Self {
            states: (!request.state_filters.is_empty()).then_some(states),
            unknown_states,
            producer_ids,
            duration_ms: request.duration_filter,
            pattern: matcher.flatten(),
            budget: AnswerBudget::of_answer(),
            after: None,
            found: Vec::new(),
            error,
        }
    }

    /// The ids that were found since the last call, or the error of the whole list.
    pub fn take(&mut self) -> ListTransactionsResponse<'static> {
        let transaction_states = core::mem::take(&mut self.found);
        let unknown_state_filters = core::mem::take(&mut self.unknown_states);
        let error_code = self.error.code();
        if self.error != ErrorCode::None {
            return ListTransactionsResponse { error_code, ..Default::default() };
        }
        ListTransactionsResponse {
            throttle_time_ms: 0,
            error_code,
            unknown_state_filters,
            transaction_states,
        }
    }

    /// Whether the answer is an error for the whole list.
    pub fn has_failed(&self) -> bool {
        self.error != ErrorCode::None
    }

    /// The bytes of the filters that may be long: producer ids, and names of unknown states.
    pub fn held(&self) -> usize {
        let unknown = self.unknown_states.iter().map(|name| size_of::<Str<'_>>() + name.len());
        size_of_val(&*self.producer_ids) + unknown.sum::<usize>()
    }

    fn add(&mut self, id: &str, durable: &Durable, wall: Wall) {
        if self.has_failed() || !self.wants(id, durable, wall) {
            return;
        }
        let listed = ListedTransaction {
            transactional_id: owned(id),
            producer_id: durable.producer_id,
            transaction_state: Str::Borrowed(durable.state.name()),
        };
        match self.budget.fit(listed) {
            Some(listed) => self.found.push(listed),
            None => self.error = TOO_LARGE,
        }
    }

    /// As in Kafka, the filter by duration accepts an id without a transaction.
    fn wants(&self, id: &str, durable: &Durable, wall: Wall) -> bool {
        let has_state = self.states.as_ref().is_none_or(|them| them.contains(&durable.state));
        let has_producer = self.producer_ids.is_empty()
            || self.producer_ids.binary_search(&durable.producer_id).is_ok();
        let lasts = self.duration_ms < 0 || wall.since(durable.started) > self.duration_ms;
        has_state && has_producer && lasts && self.pattern.as_ref().is_none_or(|it| it(id))
    }
}
