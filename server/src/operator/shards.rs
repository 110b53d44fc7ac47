//! Questions of the admin side to the shards.

use crate::admin::View;
use crate::cluster::{Brokers, ClusterImage, OfflinePartitions};
use crate::config::{Config, ListenerIndex};
use crate::inquiry::{About, Finding, Inquiry};
use crate::mailbox::{Message, Peer};
use crate::placement::{CONTROLLER, Placement};
use crate::shard::Common;
use crossbeam_channel::{Receiver, bounded};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long to wait for a shard's answer.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

/// The longest pause after an answer.
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// The handle through which the admin side asks the shards.
#[derive(Debug)]
pub(super) struct Shards {
    /// Locked during a question and the pause that follows it. The pause lasts as long as the
    /// answer took, at most [`PAUSE_MAX`]. So the admin side uses at most half of a shard's time,
    /// unless answers take longer than this.
    asking: Mutex<()>,
    peers: Vec<Peer>,
    common: Common,
    offline: OfflinePartitions,
}

impl Shards {
    pub(super) fn new(peers: Vec<Peer>, common: Common) -> Self {
        Self { asking: Mutex::default(), peers, common, offline: OfflinePartitions::default() }
    }

    pub(super) fn count(&self) -> u32 {
        self.peers.len() as u32
    }

    pub(super) fn placement(&self) -> Placement {
        self.common.placement
    }

    pub(super) fn config(&self) -> &Config {
        &self.common.config
    }

    /// The answer of a shard; None if it is late.
    pub(super) fn ask(&self, shard: u32, about: About) -> Option<Finding> {
        self.in_turn(|| self.send(shard, about)?.recv_timeout(PATIENCE).ok())
    }

    /// The image of the cluster.
    pub(super) fn image(&self) -> Option<Arc<ClusterImage>> {
        match self.ask(CONTROLLER, About::Cluster)? {
            Finding::Cluster(image) => Some(image),
            Finding::Groups(..)
            | Finding::Changes(_)
            | Finding::Partitions(..)
            | Finding::Bounds(_)
            | Finding::Records(_)
            | Finding::Group(_)
            | Finding::Reset(_)
            | Finding::Shares(..) => None,
        }
    }

    /// The view of the cluster for an answer.
    pub(super) fn view<'v>(&'v self, image: &'v ClusterImage) -> View<'v> {
        View {
            image,
            offline: &self.offline,
            config: &self.common.config,
            placement: self.common.placement,
            brokers: Brokers::alone(self.common.endpoints.of(ListenerIndex::FIRST)),
            shard: CONTROLLER,
            cluster_id: &self.common.cluster_id,
        }
    }

    /// Asks all shards in parallel. Whenever `take` returns a further question, asks the shard that
    /// question. Returns whether all answers came in time.
    pub(super) fn ask_all(
        &self,
        first: impl Fn() -> About,
        mut take: impl FnMut(u32, Finding) -> Option<About>,
        until: Instant,
    ) -> bool {
        let ask_first = |shard| (shard, first());
        let mut open: Vec<_> = (0..self.peers.len() as u32).map(ask_first).collect();
        while !open.is_empty() {
            let answered = self.in_turn(|| {
                let asked = open.drain(..).map(|(shard, about)| (shard, self.send(shard, about)));
                let asked: Vec<_> = asked.collect();
                let answers = asked.into_iter().map(|(shard, receiver)| {
                    let by = until.min(Instant::now() + PATIENCE);
                    Some((shard, receiver?.recv_deadline(by).ok()?))
                });
                answers.collect::<Option<Vec<_>>>()
            });
            let Some(answered) = answered else { return false };
            let further = |(shard, found)| take(shard, found).map(|about| (shard, about));
            open.extend(answered.into_iter().filter_map(further));
        }
        true
    }

    fn in_turn<R>(&self, ask: impl FnOnce() -> R) -> R {
        let _turn = self.asking.lock().unwrap_or_else(PoisonError::into_inner);
        let began = Instant::now();
        let answer = ask();
        std::thread::sleep(began.elapsed().min(PAUSE_MAX));
        answer
    }

    /// Sends a question; None if the shard does not exist.
    pub(super) fn send(&self, shard: u32, about: About) -> Option<Receiver<Finding>> {
        let (to, receiver) = bounded(1);
        self.peers.get(shard as usize)?.send(Message::Inquiry(Inquiry { about, to }));
        Some(receiver)
    }
}
