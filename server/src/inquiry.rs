//! Questions of the admin side to a shard. Each is answered by one slice of work, of some tenths of
//! a millisecond, or once records are read. A question about all groups or partitions is repeated
//! from where the last answer ended.

use crate::cluster::ClusterImage;
use crate::partitions::{Bounds, PartitionId, RecordReadEnd};
use crate::placement::Slot;
use crossbeam_channel::Sender;
use muster_coordinator::{Event, GroupAsked, GroupView, GroupsPage, Rebalance};
use std::sync::Arc;

/// A question, and the place for its answer. A shard that cannot answer drops it.
#[derive(Debug)]
pub struct Inquiry {
    pub(crate) about: About,
    pub(crate) to: Sender<Finding>,
}

/// The last group that was visited in a slot; None before the first.
pub(crate) type SurveyPlace = (Slot, Option<String>);

/// A slot, and the last group whose share partitions in it were visited.
pub(crate) type SharesPlace = (Slot, Option<Arc<str>>);

/// The subject of a question.
#[derive(Debug)]
pub(crate) enum About {
    /// The image of the cluster.
    Cluster,
    /// The next groups of a survey, after this place; None for the first groups.
    Groups(Option<SurveyPlace>),
    /// Groups that have changed since the last question about changes, from this slot on; None for
    /// the first slot.
    Changes(Option<Slot>),
    /// The bounds of the next partitions, after this one; None for the first partitions.
    Partitions(Option<PartitionId>),
    /// The bounds of these partitions.
    Bounds(Vec<PartitionId>),
    /// Records of a partition: batches from the one with this offset on, at most `max_bytes` or one
    /// batch.
    Records {
        id: PartitionId,
        offset: i64,
        max_bytes: u32,
    },
    Group(GroupAsked),
    /// The next share partitions, from this place on; None for the first share partitions.
    Shares(Option<SharesPlace>),
    /// Share partitions of a group.
    SharesOf(Arc<str>),
    /// A slice of a reset. The answer is sent once the changes of the slice are durable.
    Reset(Reset),
}

/// The removal of all state that clients have created, part by part.
#[derive(Debug)]
pub(crate) enum Reset {
    Transactions,
    /// The next groups, from this place on; None for the first groups.
    Groups(Option<SurveyPlace>),
    /// The state that all shards share, at the controller.
    Cluster,
    /// Whether the shard already uses the image in which the shared state is removed. The image has
    /// these versions of topics and of access rights.
    Taken {
        topics: i64,
        access: i64,
    },
}

/// The answer to a question.
#[derive(Debug)]
pub(crate) enum Finding {
    Cluster(Arc<ClusterImage>),
    /// Groups, and the place at which to continue.
    Groups(Box<GroupsPage>, Option<SurveyPlace>),
    /// Changed groups, and the slot at which to continue. None if the changes are not known: then
    /// the caller has to ask for all groups.
    Changes(Option<(Box<GroupsPage>, Option<Slot>)>),
    /// Partitions, and the last one if more may follow.
    Partitions(Vec<(PartitionId, Bounds)>, Option<PartitionId>),
    /// In the order of the question; None for a partition that the shard does not serve.
    Bounds(Vec<Option<Bounds>>),
    Records(RecordReadEnd),
    Group(Box<GroupFound>),
    /// Share partitions, and the place of the next ones.
    Shares(Vec<ShareStart>, Option<SharesPlace>),
    /// The next slice; None after the last.
    Reset(Option<Reset>),
}

/// A share partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ShareStart {
    pub(crate) group: Arc<str>,
    pub(crate) partition: PartitionId,
    /// The start offset: all records before it are done. None if it is not decided yet.
    pub(crate) start: Option<i64>,
    /// The end of the partition; None if it is not served.
    pub(crate) end: Option<i64>,
    /// The number of records from the start on that are not done; None if it is not known.
    pub(crate) lag: Option<u64>,
}

/// A group, and the history of its rebalances.
#[derive(Debug)]
pub(crate) struct GroupFound {
    /// None if it does not exist.
    pub(crate) view: Option<GroupView>,
    /// The rebalances that ended, the oldest first.
    pub(crate) rebalances: Vec<Event>,
    pub(crate) under_way: Option<Rebalance>,
}
