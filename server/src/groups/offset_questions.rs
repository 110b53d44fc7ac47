//! TxnOffsetCommit. Before the first offsets of a transaction are written in a slot, the
//! transaction's coordinator is asked whether the producer may write
//! (`CoordinatorRuntime.scheduleTransactionalWriteOperation`). The bytes of the request are kept
//! meanwhile. They are decoded again when the answer (the verdict) arrives, because topics may have
//! changed.

use super::offset_producers::OffsetProducers;
use super::{Groups, Inputs};
use crate::dispatch::group_apis::{self, Destination};
use crate::limit_gauges::Limit;
use crate::limit_refusals::Refused;
use crate::net::{Reply, VisibleAt};
use crate::placement::Slot;
use muster_codec::messages::TxnOffsetCommitRequest;
use muster_codec::records::OFFSETS_TOPIC;
use muster_codec::{ApiKey, ErrorCode, GroupRequest, Reader, Request, Response};
use muster_coordinator::{Caller, RequestId};
use muster_fairness::{Address, Exceeded, Holders};
use muster_faults::Fault;
use muster_transactions::PartitionSet;
use muster_transactions::errors::{txn_offset_commit_error, txn_offset_commit_question};
use muster_transactions::message::{Producer, Question, Stamp, Verdict};
use muster_transactions::partition::Append;
use std::collections::BTreeMap;

/// The bit that distinguishes the numbers of groups' questions, in which it is set, from those of
/// partitions' questions.
const OF_GROUPS: u64 = 1 << 63;

/// The maximum size of all requests that wait for a verdict. If a request would exceed it, or the
/// share of its client's address, it is refused with the error for a lost question, and its client
/// tries again.
pub(crate) const ASKED_BYTES_MAX: usize = 16 << 20;

/// The requests that wait for a verdict, by the numbers of their questions.
#[derive(Debug)]
pub(super) struct OffsetQuestions {
    open: BTreeMap<u64, Asked>,
    next: u64,
    /// The bytes of the requests of each address.
    bytes: Holders,
}

/// The result of the checks of a TxnOffsetCommit's topics and group.
enum Screened {
    /// The rest of the request goes to the coordinator of this slot. The response is the answer for
    /// topics that do not exist.
    Slot(Slot, Option<Response<'static>>),
    /// Nothing is left of the request: this is its answer.
    Answered(Response<'static>),
}

/// A TxnOffsetCommit that waits for a verdict.
#[derive(Debug)]
struct Asked {
    slot: Slot,
    producer: Producer,
    request: RequestId,
    version: i16,
    client_id: Box<str>,
    client_host: Box<str>,
    address: Address,
    body: Box<[u8]>,
}

impl Asked {
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.client_id.len() + self.client_host.len() + self.body.len()
    }

    fn caller(&self) -> Caller<'_> {
        let Self { request, version, client_id, client_host, .. } = self;
        Caller { request: *request, api_version: *version, client_id, client_host, describes: None }
    }

    fn read(&self) -> GroupRequest<'_> {
        let mut reader = Reader::of_accepted_request(&self.body);
        let read = Request::read(ApiKey::TxnOffsetCommit, self.version, &mut reader);
        match read.map(GroupRequest::try_from) {
            Ok(Ok(request)) => request,
            _ => unreachable!("the same bytes were read before"),
        }
    }
}

impl OffsetQuestions {
    pub(super) fn new(first_number: u64) -> Self {
        Self { open: BTreeMap::new(), next: OF_GROUPS | first_number, bytes: Holders::default() }
    }

    /// Checks whether a request of this size may wait for its verdict. If no other request waits,
    /// a request of any size may wait.
    fn admit(&self, address: Address, bytes: usize) -> Result<(), Exceeded> {
        if self.bytes.total() == 0 {
            return Ok(());
        }
        self.bytes.admit(address, bytes, ASKED_BYTES_MAX)
    }

    fn insert(&mut self, asked: Asked) -> u64 {
        let number = self.next;
        self.next += 1;
        self.bytes.take(asked.address, asked.bytes());
        self.open.insert(number, asked);
        number
    }

    fn take(&mut self, number: u64) -> Option<Asked> {
        let asked = self.open.remove(&number)?;
        self.bytes.release(asked.address, asked.bytes());
        Some(asked)
    }
}

impl Groups {
    /// Commits offsets in a transaction, or returns the question that the request has to wait for.
    /// `body` is the request as it came.
    pub(crate) fn txn_offset_commit<'r>(
        &mut self,
        mut inputs: Inputs<'_>,
        caller: Caller<'r>,
        body: &[u8],
        request: TxnOffsetCommitRequest<'r>,
        mut take: impl FnMut(Reply<'_>),
    ) -> Option<Question> {
        let producer = Producer { id: request.producer_id, epoch: request.producer_epoch };
        let transactional_id = request.transactional_id.clone();
        // Offsets without a group are refused, whichever producer commits them.
        let has_group = !request.group_id.is_empty();
        let mut request = GroupRequest::from(request);
        let (slot, absent) = match self.screen_offsets(&mut request, caller, &inputs) {
            Screened::Slot(slot, absent) => (slot, absent),
            Screened::Answered(response) => {
                take(Reply { request: caller.request, response, visible_at: VisibleAt::Now });
                return None;
            }
        };
        let is_asked = txn_offset_commit_question(caller.api_version).is_asked(self.verifies);
        let may_append =
            self.slots_mut().on_producers(slot, |it| it.transactions().may_append(producer));
        let refused = match may_append {
            Append::Now => None,
            _ if !has_group => None,
            // The slot has reported an open transaction of this producer after a load, and the
            // report is not answered yet. The error is not CONCURRENT_TRANSACTIONS, which some
            // clients treat as fatal.
            _ if self.is_unanswered_in(slot, producer.id) => {
                Some(ErrorCode::CoordinatorLoadInProgress)
            }
            Append::Refuse(error) => Some(error),
            Append::Ask if !is_asked => {
                let before = inputs.runtime.log().log_end_offset(slot.log_partition());
                let again = inputs.again();
                self.coordinators.coordinate(slot, again, caller, request, absent, &mut take);
                self.wrote(&inputs, slot, producer, before, Stamp::default());
                return None;
            }
            Append::Ask => {
                let address = Address::of(caller.client_host);
                let Err(exceeded) = self.questions.admit(address, body.len()) else {
                    let asker = (caller, address);
                    return Some(self.ask(slot, producer, &transactional_id, asker, body));
                };
                let refused = Refused { limit: Limit::AskedBytes, exceeded, address };
                refused.log(inputs.times.now, &mut *inputs.errors);
                Some(ErrorCode::NetworkException)
            }
        };
        let Some(refused) = refused else {
            self.slots_mut().on_producers(slot, |it| it.wrote(inputs.times.now, producer.id));
            self.coordinators.coordinate(slot, inputs, caller, request, absent, &mut take);
            return None;
        };
        take(refusal(caller, &mut request, refused, absent));
        None
    }

    /// Whether this question is open.
    pub(crate) fn has_asked(&self, number: u64) -> bool {
        self.questions.open.contains_key(&number)
    }

    /// Bytes of requests that wait for a verdict.
    pub(crate) fn asked_bytes(&self) -> usize {
        self.questions.bytes.total()
    }

    /// Handles a coordinator's answer to a question: the offsets are committed or refused.
    pub(crate) fn verdict(
        &mut self,
        mut inputs: Inputs<'_>,
        verdict: &Verdict,
        mut take: impl FnMut(Reply<'_>),
    ) {
        let Some(asked) = self.questions.take(verdict.number) else { return };
        let Asked { slot, producer, .. } = asked;
        let admitted = self.admit(&asked, verdict);
        let before = inputs.runtime.log().log_end_offset(slot.log_partition());
        self.answer(inputs.again(), &asked, admitted, &mut take);
        if admitted.is_err() || !self.wrote(&inputs, slot, producer, before, verdict.stamp) {
            let number = verdict.number;
            self.slots_mut().on_producers(slot, |it| it.transactions().refused(producer, number));
        }
    }

    /// Notes that the offsets opened a transaction. Returns false if they were not written, as the
    /// slot still ends at the offset `before`.
    fn wrote(
        &mut self,
        inputs: &Inputs<'_>,
        slot: Slot,
        producer: Producer,
        before: i64,
        stamp: Stamp,
    ) -> bool {
        let now = inputs.times.now;
        let has_written = inputs.runtime.log().log_end_offset(slot.log_partition()) > before;
        if has_written {
            self.slots_mut().on_producers(slot, |it| it.appended(now, producer, before, stamp));
        }
        has_written
    }

    /// Refuses topics that do not exist, and groups of other shards.
    fn screen_offsets(
        &self,
        request: &mut GroupRequest<'_>,
        caller: Caller<'_>,
        inputs: &Inputs<'_>,
    ) -> Screened {
        match self.screen(request, caller.api_version, inputs) {
            Destination::Slot(slot, absent) => Screened::Slot(slot, absent),
            Destination::Answered(response) => Screened::Answered(response),
            Destination::Slots(_) | Destination::Shard => {
                unreachable!("offsets are those of one group")
            }
        }
    }

    fn ask(
        &mut self,
        slot: Slot,
        producer: Producer,
        transactional_id: &str,
        (caller, address): (Caller<'_>, Address),
        body: &[u8],
    ) -> Question {
        let Caller { request, api_version: version, client_id, client_host, .. } = caller;
        let (client_id, client_host) = (client_id.into(), client_host.into());
        let body = body.into();
        let asked =
            Asked { slot, producer, request, version, client_id, client_host, address, body };
        let number = self.questions.insert(asked);
        self.slots_mut().on_producers(slot, |it| it.transactions().ask(producer, number));
        Question {
            // In a question the field `slot` has the number of a shard: see
            // `crate::cluster::transaction_slot`.
            slot: self.shard,
            number,
            transactional_id: transactional_id.into(),
            producer,
            partitions: PartitionSet::of(OFFSETS_TOPIC, slot.0 as i32),
            kind: txn_offset_commit_question(version),
        }
    }

    /// Whether a verdict lets the offsets be written.
    fn admit(&mut self, asked: &Asked, verdict: &Verdict) -> Result<(), ErrorCode> {
        let Asked { slot, producer, .. } = *asked;
        verdict.on(OFFSETS_TOPIC, slot.0 as i32)?;
        let Verdict { number, stamp, .. } = *verdict;
        let admit = |it: &mut OffsetProducers| it.transactions().admit(producer, number, stamp);
        match self.slots_mut().on_producers(slot, admit) {
            Err(ErrorCode::InvalidTxnState) if Fault::StaleYes.is_injected() => Ok(()),
            admitted => admitted,
        }
    }

    /// Answers a request whose verdict has arrived.
    fn answer(
        &mut self,
        inputs: Inputs<'_>,
        asked: &Asked,
        admitted: Result<(), ErrorCode>,
        take: &mut impl FnMut(Reply<'_>),
    ) {
        let (caller, mut request) = (asked.caller(), asked.read());
        match (self.screen_offsets(&mut request, caller, &inputs), admitted) {
            (Screened::Answered(response), _) => {
                take(Reply { request: caller.request, response, visible_at: VisibleAt::Now });
            }
            (Screened::Slot(_, absent), Err(error)) => {
                take(refusal(caller, &mut request, error, absent))
            }
            (Screened::Slot(slot, absent), Ok(())) => {
                self.coordinators.coordinate(slot, inputs, caller, request, absent, take);
            }
        }
    }
}

/// The answer to a request whose producer may not write.
fn refusal(
    caller: Caller<'_>,
    request: &mut GroupRequest<'_>,
    error: ErrorCode,
    absent: Option<Response<'static>>,
) -> Reply<'static> {
    let error = txn_offset_commit_error(error, caller.api_version);
    let mut response = group_apis::refused(request, caller.api_version, error);
    if let Some(absent) = absent {
        group_apis::merge(&mut response, absent);
    }
    Reply { request: caller.request, response, visible_at: VisibleAt::Now }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds requests of a megabyte until one is refused; returns the number of accepted requests.
    fn fill(questions: &mut OffsetQuestions, host: &str) -> usize {
        let address = Address::of(host);
        let body: Box<[u8]> = vec![0; 1 << 20].into();
        let asked = || Asked {
            slot: Slot(0),
            producer: Producer { id: 1, epoch: 0 },
            request: RequestId { connection: 0, sequence: 0 },
            version: 5,
            client_id: "".into(),
            client_host: host.into(),
            address,
            body: body.clone(),
        };
        let admitted = (0..100).take_while(|_| {
            let admitted = questions.admit(address, body.len());
            admitted.is_ok_and(|()| questions.insert(asked()) > 0)
        });
        admitted.count()
    }

    #[test]
    fn an_address_whose_offsets_wait_leaves_an_eighth_of_the_bytes_to_others() {
        let mut questions = OffsetQuestions::new(0);
        assert_eq!(questions.admit(Address::of("/127.0.0.1"), 20 << 20), Ok(()), "one alone");
        assert_eq!(fill(&mut questions, "/127.0.0.2"), 13);
        assert_eq!(fill(&mut questions, "/127.0.0.1"), 1);
        let numbers: Vec<u64> = questions.open.keys().copied().collect();
        assert!(numbers.into_iter().all(|number| questions.take(number).is_some()));
        assert_eq!(questions.bytes.total(), 0);
        assert_eq!(fill(&mut questions, "/127.0.0.1"), 13);
    }
}
