//! Clients, each with its transactional id. A client that gets no answer, or an unexpected error,
//! starts again with InitProducerId.

use crate::slots::TOPIC;
use muster_codec::ErrorCode;
use muster_codec::messages::{
    AddPartitionsToTxnRequest, AddPartitionsToTxnTopic, EndTxnRequest, InitProducerIdRequest,
};
use muster_transactions::message::Producer;
use muster_transactions::{Request, RequestId, Response, Text};
use std::collections::BTreeSet;

/// A transaction, as its client knows it.
#[derive(Debug, Default)]
pub struct Transaction {
    /// The partition of each acknowledged record.
    pub acknowledged: Vec<i32>,
    /// The outcome that EndTxn acknowledged: true for a commit, false for an abort.
    pub ended: Option<bool>,
}

pub struct Client {
    pub id: Text,
    /// Whether the client's epoch increases with each transaction.
    pub has_epochs: bool,
    pub state: Stage,
    pub producer: Producer,
    /// The partitions that the client has added to the transaction with AddPartitionsToTxn.
    pub added: BTreeSet<i32>,
    /// The number of its current transaction.
    pub transaction: Option<usize>,
    /// The time at which the client stops waiting for an answer.
    pub gives_up_at: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The client has no producer id.
    New,
    Ready,
    Waits(RequestId, Wanted),
    /// A batch of the client waits for a verdict.
    Asks(u64, i32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    Begin,
    Add(i32),
    End { is_commit: bool },
}

impl Client {
    pub fn new(number: usize) -> Self {
        Self {
            id: format!("client-{number}").as_str().into(),
            has_epochs: number.is_multiple_of(2),
            state: Stage::New,
            producer: Producer { id: -1, epoch: -1 },
            added: BTreeSet::new(),
            transaction: None,
            gives_up_at: 0,
        }
    }

    /// Forgets everything but the name.
    pub fn begin_again(&mut self) {
        self.state = Stage::New;
        self.transaction = None;
        self.added.clear();
    }

    pub fn as_request(&self, wanted: Wanted) -> (i16, Request<'static>) {
        let id = || self.id.to_string().into();
        let Producer { id: producer_id, epoch: producer_epoch } = self.producer;
        match wanted {
            Wanted::Begin => {
                let request = InitProducerIdRequest {
                    transactional_id: Some(id()),
                    transaction_timeout_ms: 60_000,
                    ..Default::default()
                };
                (5, request.into())
            }
            Wanted::Add(partition) => {
                let name = TOPIC.into();
                let topic = AddPartitionsToTxnTopic { name, partitions: vec![partition] };
                let request = AddPartitionsToTxnRequest {
                    v3_and_below_transactional_id: id(),
                    v3_and_below_producer_id: producer_id,
                    v3_and_below_producer_epoch: producer_epoch,
                    v3_and_below_topics: vec![topic],
                    ..Default::default()
                };
                (3, request.into())
            }
            Wanted::End { is_commit: committed } => {
                let request = EndTxnRequest {
                    transactional_id: id(),
                    producer_id,
                    producer_epoch,
                    committed,
                };
                (if self.has_epochs { 5 } else { 4 }, request.into())
            }
        }
    }

    /// The producer id and epoch to use after this answer; None for an error.
    pub fn next_producer(&self, response: &Response) -> Option<Producer> {
        match response {
            Response::InitProducerId(it) if it.error_code == 0 => {
                Some(Producer { id: it.producer_id, epoch: it.producer_epoch })
            }
            Response::EndTxn(it) if it.error_code == 0 && self.has_epochs => {
                Some(Producer { id: it.producer_id, epoch: it.producer_epoch })
            }
            Response::EndTxn(it) if it.error_code == 0 => Some(self.producer),
            Response::AddPartitionsToTxn(it) => {
                let result = &it.results_by_topic_v3_and_below[0].results_by_partition[0];
                let is_added = result.partition_error_code == ErrorCode::None as i16;
                is_added.then_some(self.producer)
            }
            _ => None,
        }
    }
}
