//! The first steps of ShareFetch and ShareAcknowledge: checks, sessions and acknowledgements, in
//! the order of Kafka's `KafkaApis`.

use super::table::{Asked, FetchWants, Part, Request};
use super::{Inputs, Shares};
use crate::limit_gauges::Limit;
use crate::limit_refusals::Refused;
use muster_codec::messages::{
    AcknowledgementBatch, ShareAcknowledgeRequest, ShareFetchPartition, ShareFetchRequest,
};
use muster_codec::{ErrorCode, Str, Uuid};
use muster_shares::partition::{Acknowledgement, AcquireMode, NotAcknowledged, are_well_formed};
use muster_shares::sessions::{
    FINAL_EPOCH, FetchContext, SessionFetch, SessionKey, SessionLimit, is_member_id,
};
use muster_shares::{SharePartition, SharePartitionKey, TopicPartition};
use std::collections::BTreeMap;

/// The first version in which a request may renew locks.
const RENEW_SINCE: i16 = 2;

/// The acquire mode in which whole batches are acquired.
const BATCH_OPTIMIZED: i8 = 0;

/// The acquire mode in which no more records are acquired than requested.
const RECORD_LIMIT: i8 = 1;

/// The maximum time that a ShareFetch may wait, in ms, as for Fetch.
const WAIT_MS_MAX: i32 = 300_000;

/// The maximum number of partitions that a request may name, as for Fetch. A larger request is
/// refused.
const PARTITIONS_MAX: usize = 100_000;

/// The acknowledgements of a request by partition. If a partition is named twice, the last entry
/// counts.
type Acknowledgements<'r> = BTreeMap<TopicPartition, &'r [AcknowledgementBatch]>;

/// The client of a request.
pub(crate) struct Client<'c> {
    pub(crate) asked: Asked,
    /// Whether the client may read a topic.
    pub(crate) may_read: &'c dyn Fn(&str) -> bool,
}

impl Shares {
    /// ShareFetch v1 and v2.
    pub(crate) fn share_fetch(
        &mut self,
        inputs: &mut Inputs<'_>,
        client: &Client<'_>,
        body: &ShareFetchRequest<'_>,
    ) {
        let mut request = match self.new_fetch(inputs, client.asked, body) {
            Ok(request) => request,
            Err(error) => return self.refuse_fetch(inputs, client.asked, body, error),
        };
        let acknowledgements = of_fetch(body);
        self.acknowledge_parts(inputs, client, &mut request, &acknowledgements, body.is_renew_ack);
        let is_final = request.fetch.is_some_and(|it| it.context == FetchContext::Final);
        if is_final {
            self.close_session(inputs, &request);
        }
        self.check_topics(inputs, client, &mut request);
        let renews = body.is_renew_ack && client.asked.version >= RENEW_SINCE;
        if renews {
            // Nothing is fetched: the answer has only the partitions that have acknowledgements.
            request.parts.retain(|part| part.acknowledged.is_some());
            self.complete(inputs, request);
        } else if is_final || !request.parts.iter().any(Part::waits) {
            self.complete(inputs, request);
        } else if ![BATCH_OPTIMIZED, RECORD_LIMIT].contains(&body.share_acquire_mode) {
            // Kafka reports an unknown mode only when it begins to fetch.
            request.error = ErrorCode::UnknownServerError;
            self.complete(inputs, request);
        } else if body.max_records == 0 || body.max_bytes <= 0 {
            request.parts.retain(|part| !part.waits() || part.acknowledged.is_some());
            self.complete(inputs, request);
        } else {
            self.try_fetch(inputs, None, request);
        }
    }

    /// ShareAcknowledge v1 and v2.
    pub(crate) fn share_acknowledge(
        &mut self,
        inputs: &mut Inputs<'_>,
        client: &Client<'_>,
        body: &ShareAcknowledgeRequest<'_>,
    ) {
        let epoch = body.share_session_epoch;
        let member = member(body.group_id.as_ref(), body.member_id.as_ref());
        let count: usize = body.topics.iter().map(|topic| topic.partitions.len()).sum();
        let begun = member.and_then(|member| {
            if count > PARTITIONS_MAX {
                return Err(ErrorCode::InvalidRequest);
            }
            self.end_closing(inputs, &member);
            self.sessions.acknowledge(&member, epoch)?;
            Ok(member)
        });
        let (member, error) = match begun {
            Ok(member) => (member, ErrorCode::None),
            Err(error) => (SessionKey::new("", ""), error),
        };
        let mut request = Request::new(client.asked, member, inputs.times.now);
        request.error = error;
        if error == ErrorCode::None {
            let all = of_acknowledge(body);
            self.acknowledge_parts(inputs, client, &mut request, &all, body.is_renew_ack);
            if epoch == FINAL_EPOCH {
                self.close_session(inputs, &request);
            }
        }
        self.complete(inputs, request);
    }

    /// Makes the request for a ShareFetch, after the checks of its session.
    ///
    /// # Errors
    /// The error of the whole request.
    fn new_fetch(
        &mut self,
        inputs: &Inputs<'_>,
        asked: Asked,
        body: &ShareFetchRequest<'_>,
    ) -> Result<Request, ErrorCode> {
        let member = member(body.group_id.as_ref(), body.member_id.as_ref())?;
        let wants_records =
            [body.max_bytes, body.min_bytes, body.max_records, body.max_wait_ms] != [0; 4];
        if asked.version >= RENEW_SINCE && body.is_renew_ack && wants_records {
            return Err(ErrorCode::InvalidRequest);
        }
        let named = body.topics.iter().flat_map(|topic| {
            topic.partitions.iter().map(|it| partition(topic.topic_id, it.partition_index))
        });
        let forgotten = body.forgotten_topics_data.iter().flat_map(|topic| {
            topic.partitions.iter().map(|index| partition(topic.topic_id, *index))
        });
        let (named, forgotten): (Vec<_>, Vec<_>) = (named.collect(), forgotten.collect());
        if named.len() > PARTITIONS_MAX {
            return Err(ErrorCode::InvalidRequest);
        }
        self.end_closing(inputs, &member);
        let begun = self.sessions.fetch(
            &member,
            &SessionFetch {
                epoch: body.share_session_epoch,
                topics: &named,
                forgotten: &forgotten,
                has_acknowledgements: !of_fetch(body).is_empty(),
                connection: asked.request.connection,
                address: asked.address,
            },
        );
        if let Some((limit, exceeded)) = self.sessions.take_refused() {
            let limit = match limit {
                SessionLimit::Sessions => Limit::ShareSessions,
                SessionLimit::Partitions => Limit::SharePartitions,
            };
            self.refused.push(Refused { limit, exceeded, address: asked.address });
        }
        let begun = begun?;
        let mut request = Request::new(asked, member, inputs.times.now);
        let wait = i64::from(body.max_wait_ms.clamp(0, WAIT_MS_MAX));
        request.deadline = inputs.times.now.saturating_add(wait);
        request.fetch = Some(wants(begun.context, inputs, body));
        request.parts = begun.partitions.into_iter().map(|at| Part::new(at, true)).collect();
        // The partitions rotate, so that each request begins with another one.
        if !request.parts.is_empty() {
            let first = body.share_session_epoch.unsigned_abs() as usize % request.parts.len();
            request.parts.rotate_left(first);
        }
        Ok(request)
    }

    /// Refuses a ShareFetch. If the limit of sessions is reached, delays the answer, because
    /// otherwise the client would try again at once.
    fn refuse_fetch(
        &mut self,
        inputs: &mut Inputs<'_>,
        asked: Asked,
        body: &ShareFetchRequest<'_>,
        error: ErrorCode,
    ) {
        let mut request = Request::new(asked, SessionKey::new("", ""), inputs.times.now);
        request.error = error;
        request.fetch = Some(wants(FetchContext::Final, inputs, body));
        if error != ErrorCode::ShareSessionLimitReached {
            return self.complete(inputs, request);
        }
        let wait = i64::from(body.max_wait_ms.clamp(0, WAIT_MS_MAX));
        request.deadline = inputs.times.now.saturating_add(wait);
        self.park(inputs, None, request);
    }

    fn acknowledge_parts(
        &mut self,
        inputs: &mut Inputs<'_>,
        client: &Client<'_>,
        request: &mut Request,
        all: &Acknowledgements<'_>,
        is_renew: bool,
    ) {
        let renews = is_renew && client.asked.version >= RENEW_SINCE;
        let (mut results, mut unused) = (BTreeMap::new(), Vec::new());
        let mut is_any_valid = false;
        for (at, batches) in all {
            let key =
                SharePartitionKey::new(request.member.group_id.clone(), at.topic_id, at.partition);
            let result = match refusal(inputs, client, *at, batches, renews) {
                None if batches.is_empty() => {
                    unused.push(*at);
                    continue;
                }
                None => {
                    is_any_valid = true;
                    self.acknowledge(inputs, &key, &request.member.member_id, batches)
                }
                Some(error) => Err(error),
            };
            if let Ok(true) = result {
                request.unwritten.insert(key);
            }
            self.counters.refused_acknowledgements += u64::from(result.is_err());
            results.insert(*at, result.err().unwrap_or(ErrorCode::None));
        }
        // As in Kafka, partitions without acknowledgements are in the answer only if another
        // partition has valid ones.
        if is_any_valid {
            results.extend(unused.into_iter().map(|at| (at, ErrorCode::None)));
        }
        request.acknowledged(results);
    }

    /// Takes acknowledgements of a partition, which are well-formed. Returns true if they change
    /// the share state, so that a record has to be written.
    fn acknowledge(
        &mut self,
        inputs: &Inputs<'_>,
        key: &SharePartitionKey,
        member_id: &str,
        batches: &[AcknowledgementBatch],
    ) -> Result<bool, ErrorCode> {
        let all = acknowledgements(batches);
        let settings = self.config(inputs, &key.group_id).settings;
        let now = inputs.times.now;
        let taken = self.open.on(key, |it| it.acknowledge(member_id, &all, &settings, now));
        let taken = taken.ok_or(ErrorCode::UnknownTopicOrPartition)?;
        let changed = taken.map_err(NotAcknowledged::error)?;
        let start = self.open.get(key).map_or(0, SharePartition::start_offset);
        for it in all.iter().filter(|it| it.last >= start) {
            self.counters.acknowledged(it.last - it.first.max(start) + 1, it.types);
        }
        Ok(changed)
    }

    /// Notes the errors of partitions that cannot be fetched.
    fn check_topics(&mut self, inputs: &Inputs<'_>, client: &Client<'_>, request: &mut Request) {
        for part in request.parts.iter_mut().filter(|part| part.is_fetched) {
            part.error = topic_error(inputs, client, part.at).unwrap_or(ErrorCode::None);
        }
    }
}

/// The reason why the acknowledgements of a partition are refused; None if they are accepted.
fn refusal(
    inputs: &Inputs<'_>,
    client: &Client<'_>,
    at: TopicPartition,
    batches: &[AcknowledgementBatch],
    renews: bool,
) -> Option<ErrorCode> {
    match topic_error(inputs, client, at) {
        Some(ErrorCode::UnknownTopicId) => Some(ErrorCode::UnknownTopicId),
        _ if !are_well_formed(&acknowledgements(batches), renews) => {
            Some(ErrorCode::InvalidRequest)
        }
        error => error,
    }
}

fn acknowledgements(batches: &[AcknowledgementBatch]) -> Vec<Acknowledgement<'_>> {
    let each = batches.iter().map(|it| Acknowledgement {
        first: it.first_offset,
        last: it.last_offset,
        types: &it.acknowledge_types,
    });
    each.collect()
}

/// The reason why a partition is not served; None if it is served.
fn topic_error(inputs: &Inputs<'_>, client: &Client<'_>, at: TopicPartition) -> Option<ErrorCode> {
    match inputs.image.topic_by_id(at.topic_id) {
        None => Some(ErrorCode::UnknownTopicId),
        Some(topic) if !(client.may_read)(&topic.name) => Some(ErrorCode::TopicAuthorizationFailed),
        Some(topic) if !(0..topic.partitions).contains(&at.partition) => {
            Some(ErrorCode::UnknownTopicOrPartition)
        }
        Some(_) => None,
    }
}

fn member(
    group_id: Option<&Str<'_>>,
    member_id: Option<&Str<'_>>,
) -> Result<SessionKey, ErrorCode> {
    let group_id = group_id.ok_or(ErrorCode::InvalidRequest)?;
    let member_id = member_id.ok_or(ErrorCode::InvalidRequest)?;
    is_member_id(member_id)
        .then(|| SessionKey::new(&**group_id, member_id))
        .ok_or(ErrorCode::InvalidRequest)
}

/// The limits of a ShareFetch. `fetch.max.bytes` limits the bytes, too.
fn wants(context: FetchContext, inputs: &Inputs<'_>, body: &ShareFetchRequest<'_>) -> FetchWants {
    let is_limit = body.share_acquire_mode == RECORD_LIMIT;
    let max_bytes = body.max_bytes.min(inputs.config.fetch_max_bytes).max(0).unsigned_abs();
    let min_bytes = body.min_bytes.max(0).unsigned_abs().min(max_bytes);
    FetchWants {
        context,
        mode: if is_limit { AcquireMode::RecordLimit } else { AcquireMode::BatchOptimized },
        max_records: body.max_records.into(),
        batch_size: body.batch_size.max(1).into(),
        max_bytes: max_bytes.into(),
        min_bytes: min_bytes.into(),
    }
}

/// The acknowledgements of a ShareFetch; empty if no partition has any.
fn of_fetch<'r>(body: &'r ShareFetchRequest<'_>) -> Acknowledgements<'r> {
    let partitions = || {
        let topics = body.topics.iter();
        topics.flat_map(|topic| topic.partitions.iter().map(move |it| (topic.topic_id, it)))
    };
    if partitions().all(|(_, it)| it.acknowledgement_batches.is_empty()) {
        return Acknowledgements::new();
    }
    let each = |(id, it): (Uuid, &'r ShareFetchPartition)| {
        (partition(id, it.partition_index), &*it.acknowledgement_batches)
    };
    partitions().map(each).collect()
}

fn of_acknowledge<'r>(body: &'r ShareAcknowledgeRequest<'_>) -> Acknowledgements<'r> {
    let topics = body.topics.iter();
    let all = topics.flat_map(|topic| topic.partitions.iter().map(move |it| (topic.topic_id, it)));
    all.map(|(id, it)| (partition(id, it.partition_index), &*it.acknowledgement_batches)).collect()
}

fn partition(topic_id: Uuid, partition: i32) -> TopicPartition {
    TopicPartition { topic_id, partition }
}
