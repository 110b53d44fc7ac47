//! A change of access rights is answered when every shard has applied it. From then on no shard
//! grants a revoked right.
//!
//! Each image has a version of the access rights. A shard reports the version that it applies: when
//! it is loaded, with each new image, and when it has stopped (it has no clients then). An answer
//! also waits for a shard that is being loaded again and will find the image in its mailbox. If the
//! load fails, the process ends. After the controller is loaded again it knows no versions, and
//! sends its image to all shards.

use super::Pending;
use crate::event::Command;
use muster_codec::ControllerRequest;
use muster_faults::Fault;
use std::collections::VecDeque;

/// Answers to durable changes of access rights that not all shards have applied, and the newest
/// version of the access rights that each shard has applied.
#[derive(Debug)]
pub(super) struct Access {
    taken: Vec<i64>,
    /// Answers in the order of their versions.
    pending: VecDeque<(i64, Pending)>,
}

impl Access {
    pub(super) fn new(shards: u32) -> Self {
        Self { taken: vec![0; shards as usize], pending: VecDeque::new() }
    }

    /// Notes that a shard has taken a version.
    pub(super) fn taken(&mut self, by: u32, version: i64) {
        self.taken[by as usize] = version;
    }

    /// Sends an answer. One about access rights is sent when all shards have applied its version.
    pub(super) fn pass(&mut self, pending: Pending, out: &mut Vec<Command>) {
        match pending.access {
            Some(version) if version > self.by_all() && !Fault::EarlyAccess.is_injected() => {
                self.pending.push_back((version, pending));
            }
            Some(_) | None => send(pending, out),
        }
    }

    /// Sends the answers to changes that all shards have taken.
    pub(super) fn pass_taken(&mut self, out: &mut Vec<Command>) {
        let by_all = self.by_all();
        while let Some((_, pending)) = self.pending.pop_front_if(|(at, _)| *at <= by_all) {
            send(pending, out);
        }
    }

    /// The answers that were not sent.
    pub(super) fn leave(self) -> impl Iterator<Item = Pending> {
        self.pending.into_iter().map(|(_, pending)| pending)
    }

    /// Takes out the answers that were not sent: another node decides changes now.
    pub(super) fn take_pending(&mut self) -> impl Iterator<Item = Pending> + use<> {
        std::mem::take(&mut self.pending).into_iter().map(|(_, pending)| pending)
    }

    fn by_all(&self) -> i64 {
        self.taken.iter().copied().min().unwrap_or(i64::MAX)
    }
}

/// Whether a request may change access rights.
pub(super) fn is_changed_by(request: &ControllerRequest<'_>) -> bool {
    match request {
        ControllerRequest::CreateAcls(_)
        | ControllerRequest::DeleteAcls(_)
        | ControllerRequest::AlterUserScramCredentials(_) => true,
        ControllerRequest::CreateTopics(_)
        | ControllerRequest::DeleteTopics(_)
        | ControllerRequest::CreatePartitions(_)
        | ControllerRequest::AlterConfigs(_)
        | ControllerRequest::DescribeQuorum(_)
        | ControllerRequest::AlterClientQuotas(_)
        | ControllerRequest::IncrementalAlterConfigs(_) => false,
    }
}

fn send(Pending { to, message, .. }: Pending, out: &mut Vec<Command>) {
    out.push(Command::mail(to, message));
}
