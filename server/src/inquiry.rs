//! Questions that the admin side asks a shard. Each question takes one slice of work, some tenths
//! of a millisecond. The answer is sent when the records that it contains are read from the disk,
//! and the state of groups that it contains is durable. A question about all groups or partitions
//! is asked several times: each time it continues from the place where the last answer ended.

use crate::cluster::ClusterImage;
use crate::partitions::{Bounds, PartitionId, RecordReadEnd};
use crate::placement::Slot;
use crossbeam_channel::Sender;
use muster_coordinator::{Event, GroupAsked, GroupView, GroupsPage, Rebalance};
use std::sync::Arc;

/// A question, and the channel for its answer. A shard that cannot answer drops both.
#[derive(Debug)]
pub struct Inquiry {
    pub(crate) about: About,
    pub(crate) to: Sender<Finding>,
}

/// A place in the list of all groups: a slot, and the last group in it that was visited. The group
/// is None if no group of the slot was visited yet.
pub(crate) type SurveyPlace = (Slot, Option<String>);

/// A slot, and the last group whose share partitions in it were visited.
pub(crate) type SharesPlace = (Slot, Option<Arc<str>>);

/// The subject of a question.
#[derive(Debug)]
pub(crate) enum About {
    /// The image of the cluster.
    Cluster,
    /// The next groups of a survey, after this place. None begins the survey.
    Groups(Option<SurveyPlace>),
    /// Groups that have changed since this question was last asked, from this slot on. None begins
    /// with the first slot, and with all changes up to now.
    Changes(Option<Slot>),
    /// The bounds of the next partitions, after this one; None for the first partitions.
    Partitions(Option<PartitionId>),
    /// The bounds of these partitions.
    Bounds(Vec<PartitionId>),
    /// Records of a partition, from the batch with this offset on: at most `max_bytes`, but at
    /// least one whole batch.
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

/// A reset removes all state that clients have created, except users. These are its parts.
#[derive(Debug)]
pub(crate) enum Reset {
    Transactions,
    /// The next groups, from this place on; None for the first groups.
    Groups(Option<SurveyPlace>),
    /// The state that all shards share. The controller removes it.
    Cluster,
    /// Asks whether the shard already uses the image after the removal of the shared state, or a
    /// newer one. That image has these versions of topics and of access rights.
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
    /// Partitions. If more may follow, also the last of them, from which to continue.
    Partitions(Vec<(PartitionId, Bounds)>, Option<PartitionId>),
    /// The bounds, in the order of the question. None for a partition that the shard does not
    /// serve.
    Bounds(Vec<Option<Bounds>>),
    Records(RecordReadEnd),
    Group(Box<GroupFound>),
    /// Share partitions, and the place at which the next page begins.
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
    /// None if the group does not exist.
    pub(crate) view: Option<GroupView>,
    /// The rebalances that ended, the oldest first.
    pub(crate) rebalances: Vec<Event>,
    pub(crate) under_way: Option<Rebalance>,
}
