//! A connection that another node has dialled, and what arrives on it.

use crate::frame::Frames;
use crate::hello::HelloBytes;
use crate::limits::GREETING_MS;
use crate::output::MayBe;
use crate::process::Mark;
use crate::unsent::Unsent;
use muster_codec::Uuid;
use muster_replication::{NodeId, Session};

#[derive(Debug)]
pub(crate) enum Stage {
    /// The hello has not arrived yet.
    Greeting(HelloBytes),
    /// The answer refuses the connection. The other end closes it when it has read the answer: a
    /// close at this end might be faster than the answer.
    Refused,
    /// The hello is answered. The first frame shows that the process has read the answer.
    Answered(Caller, Mark),
    Live(Caller),
}

/// The other end of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Caller {
    pub(crate) node: NodeId,
    pub(crate) shard: u16,
    pub(crate) shards: u16,
    pub(crate) session: Session,
    pub(crate) directory: Uuid,
    /// The number of the answer. A connection that was answered later is newer.
    pub(crate) order: u64,
}

#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) stage: Stage,
    pub(crate) may_be: MayBe,
    /// The time at which the connection is closed, unless something arrives.
    pub(crate) deadline: i64,
    pub(crate) frames: Frames,
    pub(crate) unsent: Unsent,
}

impl Incoming {
    pub(crate) fn accepted(may_be: MayBe, now: i64) -> Self {
        Self {
            may_be,
            stage: Stage::Greeting(HelloBytes::default()),
            deadline: now + GREETING_MS,
            frames: Frames::default(),
            unsent: Unsent::default(),
        }
    }

    /// The other end, once it has said hello.
    pub(crate) fn caller(&self) -> Option<&Caller> {
        match &self.stage {
            Stage::Greeting(_) | Stage::Refused => None,
            Stage::Answered(caller, _) | Stage::Live(caller) => Some(caller),
        }
    }

    pub(crate) fn is_live(&self) -> bool {
        matches!(self.stage, Stage::Live(_))
    }
}
