//! The shards, as the admin side asks them.

use crate::admin::View;
use crate::cluster::{ClusterImage, OfflinePartitions};
use crate::config::ListenerIndex;
use crate::inquiry::{About, Finding, Inquiry};
use crate::mailbox::{Message, Peer};
use crate::placement::{CONTROLLER, Placement};
use crate::shard::Common;
use crossbeam_channel::{Receiver, bounded};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time in which a shard answers a question.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

/// See the head of the file.
#[derive(Debug)]
pub(super) struct Shards {
    peers: Vec<Peer>,
    common: Common,
    offline: OfflinePartitions,
}

impl Shards {
    pub(super) fn new(peers: Vec<Peer>, common: Common) -> Self {
        Self { peers, common, offline: OfflinePartitions::default() }
    }

    pub(super) fn placement(&self) -> Placement {
        self.common.placement
    }

    /// The answer of a shard; None if it does not come in time.
    pub(super) fn ask(&self, shard: u32, about: About) -> Option<Finding> {
        self.send(shard, about)?.recv_timeout(PATIENCE).ok()
    }

    /// The image of the cluster.
    pub(super) fn image(&self) -> Option<Arc<ClusterImage>> {
        match self.ask(CONTROLLER, About::Cluster)? {
            Finding::Cluster(image) => Some(image),
            Finding::Groups(..)
            | Finding::Partitions(..)
            | Finding::Bounds(_)
            | Finding::Group(_) => None,
        }
    }

    /// The input of answers about the cluster.
    pub(super) fn view<'v>(&'v self, image: &'v ClusterImage) -> View<'v> {
        View {
            image,
            offline: &self.offline,
            config: &self.common.config,
            placement: self.common.placement,
            endpoints: self.common.endpoints.of(ListenerIndex::FIRST),
            shard: CONTROLLER,
            cluster_id: &self.common.cluster_id,
        }
    }

    /// Asks all shards at once, each again as long as `take` returns a further question. Returns
    /// whether all have answered in time.
    pub(super) fn ask_all(
        &self,
        first: impl Fn() -> About,
        mut take: impl FnMut(u32, Finding) -> Option<About>,
        until: Instant,
    ) -> bool {
        let ask_first = |shard| (shard, self.send(shard, first()));
        let mut open: Vec<_> = (0..self.peers.len() as u32).map(ask_first).collect();
        while !open.is_empty() {
            let mut left = Vec::with_capacity(open.len());
            for (shard, receiver) in open {
                let by = until.min(Instant::now() + PATIENCE);
                let found = receiver.and_then(|receiver| receiver.recv_deadline(by).ok());
                let Some(found) = found else { return false };
                left.extend(take(shard, found).map(|about| (shard, self.send(shard, about))));
            }
            open = left;
        }
        true
    }

    fn send(&self, shard: u32, about: About) -> Option<Receiver<Finding>> {
        let (to, receiver) = bounded(1);
        self.peers.get(shard as usize)?.send(Message::Inquiry(Inquiry { about, to }));
        Some(receiver)
    }
}
