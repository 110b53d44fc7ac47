//! The records of the node itself that wait for the next block.
//!
//! A disk may hang for an hour, while the terms of all groups ascend. So only the newest vote of a
//! group waits. Raft requires its record in the next block. Records of members may be in a later
//! one.

use muster_replication::Group;
use muster_storage::node_state::Vote;
use muster_storage::{LogPartition, NodeRecord, ShardLog};
use std::collections::{BTreeMap, VecDeque};

/// The most records of members in a block.
const MEMBERS_MAX: usize = 4;

#[derive(Debug, Default)]
pub(super) struct Notes {
    votes: BTreeMap<Group, Vote>,
    members: VecDeque<NodeRecord>,
}

impl Notes {
    pub(super) fn vote(&mut self, group: Group, vote: Vote) {
        self.votes.insert(group, vote);
    }

    pub(super) fn members(&mut self, record: NodeRecord) {
        self.members.push_back(record);
    }

    /// Adds the records to the next block, which is about to be sealed.
    pub(super) fn write(&mut self, log: &mut ShardLog) {
        for (Group(group), vote) in std::mem::take(&mut self.votes) {
            write_node(log, NodeRecord::Vote { group, vote });
        }
        let members = self.members.len().min(MEMBERS_MAX);
        self.members.drain(..members).for_each(|record| write_node(log, record));
    }
}

/// Writes a record of the node itself.
pub(super) fn write_node(log: &mut ShardLog, record: NodeRecord) {
    let written = log.append(LogPartition::NODE, 0, [record]);
    written.expect("a record of the node is short");
}
