//! StreamsGroupHeartbeat version 0 (KIP-1071), which `kafka-protocol` 0.18 lacks.

use std::sync::Arc;

use kafka_protocol::protocol::StrBytes;

use super::tasks::any_besides;
use crate::plan::{Partition, Topology};

/// `None` means no change since the last heartbeat.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct StreamsHeartbeat {
    pub group_id: StrBytes,
    pub member_id: StrBytes,
    /// 0 to join, -1 to leave.
    pub member_epoch: i32,
    /// That of the newest list of endpoints that the member has.
    pub endpoint_information_epoch: i32,
    pub rack_id: Option<StrBytes>,
    /// The description of a member that joins.
    pub joins: Option<Joining>,
    /// The tasks that it owns.
    pub owned: Option<Tasks>,
    pub shutdown_application: bool,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Joining {
    pub rebalance_timeout_ms: i32,
    pub topology: Arc<Topology>,
    pub process_id: StrBytes,
    /// Host and port of interactive queries.
    pub endpoint: Option<(StrBytes, u16)>,
}

/// Tasks, each as the index of its subtopology and a partition. They are sorted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tasks {
    pub active: Vec<Partition>,
    pub standby: Vec<Partition>,
    pub warmup: Vec<Partition>,
}

#[derive(Clone, PartialEq, Debug, Default)]
pub struct StreamsHeartbeatAnswer {
    pub error_code: i16,
    pub error_message: Option<StrBytes>,
    pub member_id: StrBytes,
    pub member_epoch: i32,
    pub heartbeat_interval_ms: i32,
    pub statuses: Vec<(i8, StrBytes)>,
    /// `None` if they have not changed.
    pub active: Option<Vec<TaskIds>>,
    pub standby: Option<Vec<TaskIds>>,
    pub warmup: Option<Vec<TaskIds>>,
    pub endpoint_information_epoch: i32,
}

/// Tasks of a subtopology, as the coordinator sent them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TaskIds {
    pub subtopology: StrBytes,
    pub partitions: Vec<i32>,
}

impl Tasks {
    /// Whether tasks of any role are in `self` and not in `other`.
    pub(super) fn exceed(&self, other: &Self) -> bool {
        any_besides(&self.active, &other.active)
            || any_besides(&self.standby, &other.standby)
            || any_besides(&self.warmup, &other.warmup)
    }
}
