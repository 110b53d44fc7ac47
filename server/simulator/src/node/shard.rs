//! A running shard, with production's `Reactor`.

use super::Node;
use super::letter::FromPeer;
use super::operation::{CLOSING_MAX, Ended, OpenFile};
use crate::net::LinkId;
use muster_counters::Totals;
use muster_server::clock::Times;
use muster_server::cluster::ClusterImage;
use muster_server::files::{CallDone, Files};
use muster_server::host::Host;
use muster_server::reactor::Reactor;
use muster_server::shard::{Inspection, Letter, Message, NodeId, Shard};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// When an injected failure takes place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failing {
    /// In the shard's next turn.
    Soon,
    /// In a turn that ends while mail for the shard is on its way, such as a message to itself.
    WithOwnMail,
}

/// A running shard, with its mailbox, its files and its connections.
pub(crate) struct SimShard {
    pub(super) host: Host,
    /// None while the shard takes its turn.
    pub(super) running: Option<Box<Running>>,
    /// The injected failure. It stays set after it has occurred, until the shard is loaded again or
    /// faults end.
    pub(super) fails: Option<Failing>,
    /// Whether the shard has failed, and will be loaded again.
    pub(super) is_leaving: bool,
    /// Whether the shard has failed, and no operation is under way any longer.
    pub(super) is_loading: bool,
    /// The shard's image of the cluster, and whether the image was shown to the judge.
    pub(super) image: Arc<ClusterImage>,
    pub(super) has_shown_image: bool,
    /// Whether the log has operations, recovered or accepted since the shard was loaded, but has
    /// flushed none since then. (The first sync counts as the flush of the recovered operations.)
    pub(super) is_recovering: bool,
    pub(super) inbox: VecDeque<Inbound>,
    /// The events that have arrived from other nodes.
    pub(super) peers: VecDeque<FromPeer>,
    /// When the newest message of each other node was sent.
    pub(super) heard: BTreeMap<NodeId, u64>,
    /// When the first of the waiting input arrived.
    pub(super) first_came_at: u64,
    /// The outcomes of completed calls of the file system, in order.
    pub(super) called: VecDeque<CallDone<OpenFile>>,
    /// Mail that is on its way, with the time when it arrives, in order.
    pub(super) mailbox: VecDeque<(u64, Message)>,
    /// Verdicts that arrive after the marker of their producer.
    pub(super) late: Vec<LateVerdict>,
    /// The input of this turn.
    pub(super) ready: VecDeque<Inbound>,
    /// When the last received bytes arrived.
    pub(super) came_at: i64,
    /// The gathered bytes to send next; None if a part of a file could not be read.
    pub(super) parts: Option<Vec<u8>>,
    /// The files that some of the bytes in `parts` come from. They stay open until the bytes have
    /// left.
    pub(super) files_of_parts: Vec<OpenFile>,
    /// The time of the shard's next turn.
    pub(super) turn_at: Option<u64>,
    pub(super) is_stopped: bool,
}

/// A letter with a verdict, and the shard that sent it.
pub(super) type LateVerdict = (u32, Letter);

/// A shard with its reactor.
pub(super) struct Running {
    pub(super) shard: Shard,
    pub(super) reactor: Reactor<Node>,
}

/// Input that waits for a shard's next turn.
pub(super) enum Inbound {
    Opened(LinkId),
    /// Bytes, and the time when they arrived.
    Received(LinkId, Vec<u8>, i64),
    Sent(LinkId, usize),
    InputEnded(LinkId),
    /// This number of bytes of a gathered output has left. The files are those of the output's
    /// parts.
    Streamed(LinkId, usize, Vec<OpenFile>),
    StreamFailed(LinkId, Vec<OpenFile>),
    Writable(LinkId),
    Ended(LinkId),
    File(Ended),
    /// A call of the file system has ended.
    Called,
    Mail(Message),
}

impl SimShard {
    pub(super) fn new(host: Host, running: Box<Running>) -> Self {
        let shard = running.shard.inspect();
        let image = shard.image().clone();
        let is_recovering = is_recovering(shard);
        Self {
            host,
            running: Some(running),
            fails: None,
            is_leaving: false,
            is_loading: false,
            image,
            has_shown_image: false,
            is_recovering,
            inbox: VecDeque::new(),
            peers: VecDeque::new(),
            heard: BTreeMap::new(),
            called: VecDeque::new(),
            mailbox: VecDeque::new(),
            late: Vec::new(),
            ready: VecDeque::new(),
            came_at: 0,
            parts: Some(Vec::new()),
            files_of_parts: Vec::new(),
            turn_at: None,
            first_came_at: 0,
            is_stopped: false,
        }
    }

    pub(crate) fn inspect(&self) -> Inspection<'_> {
        self.running().shard.inspect()
    }

    /// Whether the shard has failed, or will fail, and is not loaded again yet.
    pub(crate) fn is_failing(&self) -> bool {
        self.fails.is_some() || self.is_leaving || self.is_loading
    }

    /// Whether the shard's failure was injected.
    pub(crate) fn is_made_to_fail(&self) -> bool {
        self.fails.is_some()
    }

    /// Whether the log has operations, recovered or accepted since the shard was loaded, but has
    /// flushed none since then. (The first sync counts as the flush of the recovered operations.)
    pub(crate) fn is_recovering(&self) -> bool {
        self.is_recovering
    }

    /// Whether messages or other input wait for the shard.
    pub(crate) fn has_input(&self) -> bool {
        !self.inbox.is_empty() || !self.mailbox.is_empty()
    }

    /// Adds all counters of the shard to `totals`.
    pub(super) fn add_counters(&self, totals: &mut Totals) {
        totals.count(&self.inspect().numbers());
        totals.count(&self.running().reactor.files().counters());
    }

    /// The number of file descriptors that the shard has open.
    pub(crate) fn descriptors(&self) -> usize {
        self.running().reactor.files().descriptors()
    }

    /// Takes the mail that has arrived.
    pub(super) fn take_mail(&mut self, now: u64) {
        while let Some((_, message)) = self.mailbox.pop_front_if(|(at, _)| *at <= now) {
            self.inbox.push_back(Inbound::Mail(message));
        }
    }

    pub(super) fn running(&self) -> &Running {
        match &self.running {
            Some(running) => running,
            None => panic!("the shard takes its turn"),
        }
    }

    pub(super) fn take(&mut self) -> Box<Running> {
        match self.running.take() {
            Some(running) => running,
            None => panic!("the shard takes its turn already"),
        }
    }
}

impl Running {
    pub(super) fn new(shard: Shard, times: Times) -> Box<Self> {
        Box::new(Self { shard, reactor: Reactor::new(Files::new(CLOSING_MAX, times.now), times) })
    }
}

/// Whether the shard's log has operations, none of which is flushed since the shard was loaded.
pub(super) fn is_recovering(shard: Inspection<'_>) -> bool {
    let progress = shard.progress();
    progress.flushed() == 0 && progress.accepted() > 0
}
