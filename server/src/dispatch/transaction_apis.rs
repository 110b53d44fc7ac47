//! Handles transaction requests before they reach a coordinator. Defines which transactional ids a
//! request names, the response that refuses it, and the response if its records were not written.
//! Ids of other shards are refused here.

use super::answer::{CoordinatorAnswer, merge_responses, owned};
use crate::placement::TransactionsPartition;
use muster_codec::messages::*;
use muster_codec::{ErrorCode, Response, Str, TransactionRequest};
use muster_transactions::{Request, Response as Answered};
use std::collections::BTreeMap;

/// The first version of AddPartitionsToTxn that holds several transactions.
const TRANSACTIONS_FROM: i16 = 4;

/// The partition of a transactional id. The error is NOT_COORDINATOR if another broker leads the
/// partition, and COORDINATOR_LOAD_IN_PROGRESS if this node leads it but does not serve it yet.
type Located = Result<TransactionsPartition, ErrorCode>;

type PartitionOf<'f> = &'f dyn Fn(&str) -> Located;

/// A request of a transaction API.
trait TransactionApi {
    /// The transactional ids that a request of this version names.
    fn named(&self, version: i16) -> Named<'_>;

    /// The response that refuses the whole request.
    fn refused(&self, version: i16, error: ErrorCode) -> Response<'static>;
}

/// The transactional ids that a request names.
enum Named<'m> {
    One(&'m str),
    Several,
    /// The request is about all ids of this shard.
    OfShard,
}

/// Where a request goes.
pub(crate) enum Destination<'r> {
    /// To the coordinator of a partition.
    Partition(TransactionsPartition, Request<'r>),
    /// To the coordinators of several partitions, which answer at once. The response refuses the
    /// ids whose coordinators do not answer here, if there are any.
    Partitions(Vec<(TransactionsPartition, Request<'r>)>, Option<Response<'static>>),
    /// To all coordinators of the shard. If the shard has none, the response is the answer.
    Shard(Request<'r>, Response<'static>),
    /// Answered at once: the whole request is refused, or it names no id.
    Answered(Response<'static>),
}

/// All transaction APIs. APIs whose requests may name several ids come first.
macro_rules! transaction_apis {
    (of several: $($several:ident),*; of one: $($one:ident),*) => {
        fn api<'m>(request: &'m TransactionRequest<'_>) -> &'m dyn TransactionApi {
            match request {
                $(TransactionRequest::$several(body) => body,)*
                $(TransactionRequest::$one(body) => body,)*
            }
        }

        fn of_coordinator(request: TransactionRequest<'_>) -> Request<'_> {
            match request {
                $(TransactionRequest::$several(body) => Request::$several(body),)*
                $(TransactionRequest::$one(body) => Request::$one(body),)*
            }
        }

        /// Splits a request by the partitions of its ids.
        fn by_partition<'r>(
            request: TransactionRequest<'r>,
            partition_of: PartitionOf<'_>,
        ) -> Vec<(Located, TransactionRequest<'r>)> {
            match request {
                $(TransactionRequest::$several(body) => {
                    let parts = body.by_partition(partition_of).into_iter();
                    parts.map(|(partition, part)| (partition, part.into())).collect()
                })*
                $(TransactionRequest::$one(_))|* => Vec::new(),
            }
        }

        /// Converts the answer of a coordinator to a response.
        pub(crate) fn response(answered: Answered) -> Response<'static> {
            match answered {
                Answered::InitProducerId(body) => body.into(),
                $(Answered::$several(body) => body.into(),)*
                $(Answered::$one(body) => body.into(),)*
            }
        }

        /// The response to a request whose records were not written.
        pub(crate) fn failed(mut answered: Answered, error: ErrorCode) -> Response<'static> {
            match &mut answered {
                Answered::InitProducerId(body) => *body = InitProducerIdResponse::refused(error),
                $(Answered::$several(body) => body.fail(error),)*
                $(Answered::$one(body) => body.fail(error),)*
            }
            response(answered)
        }

        merge_responses! { $($several),*, $($one),* }
    };
}

transaction_apis! {
    of several: AddPartitionsToTxn, DescribeTransactions;
    of one: AddOffsetsToTxn, EndTxn, ListTransactions
}

/// The response that refuses a whole request.
pub(crate) fn refused(
    request: &TransactionRequest<'_>,
    version: i16,
    error: ErrorCode,
) -> Response<'static> {
    api(request).refused(version, error)
}

/// Whether a request may name an id that fulfils a condition.
pub(crate) fn may_name(
    request: &TransactionRequest<'_>,
    version: i16,
    is: &dyn Fn(&str) -> bool,
) -> bool {
    match api(request).named(version) {
        Named::One(id) => is(id),
        Named::Several | Named::OfShard => true,
    }
}

/// Finds the coordinators for a request. `loading` is the error for requests about all ids, if this
/// node leads partitions that it does not serve yet.
pub(crate) fn route<'r>(
    request: TransactionRequest<'r>,
    version: i16,
    partition_of: PartitionOf<'_>,
    loading: Option<ErrorCode>,
) -> Destination<'r> {
    let refuse = |request: &TransactionRequest<'_>, error| refused(request, version, error);
    match api(&request).named(version) {
        Named::OfShard => {
            if let Some(error) = loading {
                return Destination::Answered(refuse(&request, error));
            }
            let empty = api(&request).refused(version, ErrorCode::None);
            Destination::Shard(of_coordinator(request), empty)
        }
        Named::One(id) => match partition_of(id) {
            Ok(partition) => Destination::Partition(partition, of_coordinator(request)),
            Err(error) => Destination::Answered(refuse(&request, error)),
        },
        Named::Several => {
            let empty = api(&request).refused(version, ErrorCode::None);
            let (mut parts, mut refused) = (Vec::new(), None);
            for (partition, part) in by_partition(request, partition_of) {
                match (partition, &mut refused) {
                    (Ok(partition), _) => parts.push((partition, of_coordinator(part))),
                    (Err(error), None) => refused = Some(refuse(&part, error)),
                    (Err(error), Some(refused)) => merge(refused, refuse(&part, error)),
                }
            }
            if parts.is_empty() {
                return Destination::Answered(refused.unwrap_or(empty));
            }
            Destination::Partitions(parts, refused)
        }
    }
}

/// A DescribeTransactions request is split by partition, and the answers of the parts are joined.
/// Returns for each id in the joined answer its index in the request. The result is empty for
/// requests of other APIs.
pub(crate) fn places(
    request: &TransactionRequest<'_>,
    partition_of: PartitionOf<'_>,
) -> Vec<usize> {
    let TransactionRequest::DescribeTransactions(body) = request else { return Vec::new() };
    let numbered = body.transactional_ids.iter().enumerate().collect();
    let parts = grouped(numbered, |(_, id): &(usize, &Str<'_>)| partition_of(id));
    parts.flat_map(|(_, part)| part).map(|(place, _)| place).collect()
}

/// Puts the descriptions in a joined answer into the order of the request, as in Kafka. `places` is
/// the result of [`places`].
pub(crate) fn put_in_order(response: &mut Response<'_>, places: &[usize]) {
    let Response::DescribeTransactions(body) = response else { return };
    if body.transaction_states.len() == places.len() {
        let states = std::mem::take(&mut body.transaction_states);
        let mut placed: Vec<_> = places.iter().zip(states).collect();
        placed.sort_by_key(|(place, _)| **place);
        body.transaction_states = placed.into_iter().map(|(_, state)| state).collect();
    }
}

/// Groups elements by the partition of their transactional id, in the order of the partitions.
/// Those without a partition come first.
fn grouped<T>(
    elements: Vec<T>,
    partition_of: impl Fn(&T) -> Located,
) -> impl Iterator<Item = (Located, Vec<T>)> {
    let mut parts = BTreeMap::<_, (Located, Vec<T>)>::new();
    for element in elements {
        let located = partition_of(&element);
        let key = (located.ok(), located.err().map(ErrorCode::code));
        parts.entry(key).or_insert((located, Vec::new())).1.push(element);
    }
    parts.into_values()
}

impl TransactionApi for AddPartitionsToTxnRequest<'_> {
    fn named(&self, version: i16) -> Named<'_> {
        if version >= TRANSACTIONS_FROM {
            return Named::Several;
        }
        Named::One(&self.v3_and_below_transactional_id)
    }

    fn refused(&self, version: i16, error: ErrorCode) -> Response<'static> {
        let topics = |topics: &[AddPartitionsToTxnTopic<'_>]| {
            topics.iter().map(|topic| of_topic(topic, error)).collect()
        };
        if version < TRANSACTIONS_FROM {
            let results_by_topic_v3_and_below = topics(&self.v3_and_below_topics);
            return AddPartitionsToTxnResponse {
                results_by_topic_v3_and_below,
                ..Default::default()
            }
            .into();
        }
        let of = |transaction: &AddPartitionsToTxnTransaction<'_>| AddPartitionsToTxnResult {
            transactional_id: owned(&transaction.transactional_id),
            topic_results: topics(&transaction.topics),
        };
        let results_by_transaction = self.transactions.iter().map(of).collect();
        AddPartitionsToTxnResponse { results_by_transaction, ..Default::default() }.into()
    }
}

pub(super) fn of_topic(
    topic: &AddPartitionsToTxnTopic<'_>,
    error: ErrorCode,
) -> AddPartitionsToTxnTopicResult<'static> {
    let result = |partition_index: &i32| AddPartitionsToTxnPartitionResult {
        partition_index: *partition_index,
        partition_error_code: error.code(),
    };
    let results_by_partition = topic.partitions.iter().map(result).collect();
    AddPartitionsToTxnTopicResult { name: owned(&topic.name), results_by_partition }
}

/// A request that names several ids, which can be split by partition.
trait ByPartition: Sized {
    fn by_partition(self, partition_of: PartitionOf<'_>) -> Vec<(Located, Self)>;
}

impl ByPartition for AddPartitionsToTxnRequest<'_> {
    fn by_partition(self, partition_of: PartitionOf<'_>) -> Vec<(Located, Self)> {
        let parts = grouped(self.transactions, |it| partition_of(&it.transactional_id));
        let part = |transactions| Self { transactions, ..Default::default() };
        parts.map(|(partition, transactions)| (partition, part(transactions))).collect()
    }
}

impl ByPartition for DescribeTransactionsRequest<'_> {
    fn by_partition(self, partition_of: PartitionOf<'_>) -> Vec<(Located, Self)> {
        let parts = grouped(self.transactional_ids, |id| partition_of(id));
        parts
            .map(|(partition, transactional_ids)| (partition, Self { transactional_ids }))
            .collect()
    }
}

impl TransactionApi for AddOffsetsToTxnRequest<'_> {
    fn named(&self, _version: i16) -> Named<'_> {
        Named::One(&self.transactional_id)
    }

    fn refused(&self, _version: i16, error: ErrorCode) -> Response<'static> {
        AddOffsetsToTxnResponse { error_code: error.code(), ..Default::default() }.into()
    }
}

impl TransactionApi for EndTxnRequest<'_> {
    fn named(&self, _version: i16) -> Named<'_> {
        Named::One(&self.transactional_id)
    }

    fn refused(&self, _version: i16, error: ErrorCode) -> Response<'static> {
        EndTxnResponse { error_code: error.code(), ..Default::default() }.into()
    }
}

impl TransactionApi for DescribeTransactionsRequest<'_> {
    fn named(&self, _version: i16) -> Named<'_> {
        Named::Several
    }

    fn refused(&self, _version: i16, error: ErrorCode) -> Response<'static> {
        let of = |id: &Str<'_>| DescribedTransaction {
            error_code: error.code(),
            transactional_id: owned(id),
            ..Default::default()
        };
        let transaction_states = self.transactional_ids.iter().map(of).collect();
        DescribeTransactionsResponse { transaction_states, ..Default::default() }.into()
    }
}

impl TransactionApi for ListTransactionsRequest<'_> {
    fn named(&self, _version: i16) -> Named<'_> {
        Named::OfShard
    }

    fn refused(&self, _version: i16, error: ErrorCode) -> Response<'static> {
        ListTransactionsResponse { error_code: error.code(), ..Default::default() }.into()
    }
}

impl CoordinatorAnswer for AddPartitionsToTxnResponse<'_> {
    fn merge(&mut self, other: Self) {
        self.results_by_transaction.extend(other.results_by_transaction);
    }

    fn fail(&mut self, error: ErrorCode) {
        let of_transactions = self.results_by_transaction.iter_mut();
        let topics = of_transactions.flat_map(|it| &mut it.topic_results);
        for topic in topics.chain(&mut self.results_by_topic_v3_and_below) {
            for partition in &mut topic.results_by_partition {
                partition.partition_error_code = error.code();
            }
        }
    }
}

impl CoordinatorAnswer for AddOffsetsToTxnResponse {
    fn merge(&mut self, _other: Self) {}

    fn fail(&mut self, error: ErrorCode) {
        self.error_code = error.code();
    }
}

impl CoordinatorAnswer for EndTxnResponse {
    fn merge(&mut self, _other: Self) {}

    fn fail(&mut self, error: ErrorCode) {
        *self = Self { error_code: error.code(), ..Default::default() };
    }
}

impl CoordinatorAnswer for DescribeTransactionsResponse<'_> {
    fn merge(&mut self, other: Self) {
        self.transaction_states.extend(other.transaction_states);
    }

    fn fail(&mut self, error: ErrorCode) {
        self.transaction_states.iter_mut().for_each(|it| it.error_code = error.code());
    }
}

impl CoordinatorAnswer for ListTransactionsResponse<'_> {
    /// Adds the answer of another part, to which the same filters were applied. If any part has an
    /// error, the list becomes empty.
    fn merge(&mut self, other: Self) {
        if self.error_code == 0 {
            self.error_code = other.error_code;
        }
        self.transaction_states.extend(other.transaction_states);
        if self.error_code != 0 {
            self.transaction_states.clear();
        }
    }

    fn fail(&mut self, error: ErrorCode) {
        *self = Self { error_code: error.code(), ..Default::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_are_in_the_order_of_the_request() {
        let partition_of = |id: &str| match id.strip_prefix('p') {
            Some(number) => Ok(TransactionsPartition(number[..1].parse().unwrap())),
            None if id.starts_with("loading") => Err(ErrorCode::CoordinatorLoadInProgress),
            None => Err(ErrorCode::NotCoordinator),
        };
        let named = ["p2-a", "foreign", "loading", "p1-b", "p2-c", "p1-b", "p0-d", "other", "p2-a"];
        let transactional_ids: Vec<Str<'_>> = named.iter().map(|id| (*id).into()).collect();
        let request: TransactionRequest<'_> =
            DescribeTransactionsRequest { transactional_ids }.into();
        let places = places(&request, &partition_of);
        let routed = route(request, 0, &partition_of, None);
        let Destination::Partitions(parts, Some(mut joined)) = routed else {
            panic!("it is split")
        };
        for (partition, part) in parts {
            let Request::DescribeTransactions(part) = part else { panic!("{partition:?}") };
            merge(&mut joined, part.refused(0, ErrorCode::None));
        }
        put_in_order(&mut joined, &places);
        let Response::DescribeTransactions(body) = joined else { panic!("{joined:?}") };
        let ids: Vec<_> = body.transaction_states.iter().map(|it| &*it.transactional_id).collect();
        assert_eq!(ids, named);
        let errors: Vec<_> = body.transaction_states.iter().map(|it| it.error_code).collect();
        assert_eq!(errors, [0, 16, 14, 0, 0, 0, 0, 16, 0]);
    }
}
