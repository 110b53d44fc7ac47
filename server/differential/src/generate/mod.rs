//! Random requests of all APIs and versions, both valid and invalid.

mod cluster;
mod consumers;
mod deliveries;
mod descriptions;
mod learn;
mod logs;
mod members;
mod moves;
mod offsets;
mod share_state;
mod shares;
mod streams;
mod telemetry;
mod topics;
mod transactions;

pub use learn::{disconnected, learn};
pub use transactions::initialization;

use crate::wire::{Ask, Flaw};
use crate::world::World;
use muster_codec::{ApiKey, Request};
use std::ops::RangeInclusive;

type Generator = fn(&mut World) -> Request<'static>;

/// A generator, with its weight and API.
type Row = (u32, ApiKey, Generator);

/// The generators of requests that are not about transactions.
const GENERATORS: &[Row] = &[
    (6, ApiKey::Produce, logs::produce),
    (6, ApiKey::Fetch, logs::fetch),
    (4, ApiKey::ListOffsets, logs::list_offsets),
    (2, ApiKey::DeleteRecords, logs::delete_records),
    (2, ApiKey::OffsetForLeaderEpoch, logs::offset_for_leader_epoch),
    (2, ApiKey::InitProducerId, logs::init_producer_id),
    (4, ApiKey::Metadata, topics::metadata),
    (6, ApiKey::CreateTopics, topics::create_topics),
    (2, ApiKey::DeleteTopics, topics::delete_topics),
    (2, ApiKey::CreatePartitions, topics::create_partitions),
    (2, ApiKey::DescribeTopicPartitions, topics::describe_topic_partitions),
    (3, ApiKey::DescribeConfigs, cluster::describe_configs),
    (3, ApiKey::IncrementalAlterConfigs, cluster::incremental_alter_configs),
    (2, ApiKey::AlterConfigs, cluster::alter_configs),
    (1, ApiKey::DescribeLogDirs, cluster::describe_log_dirs),
    (1, ApiKey::DescribeAcls, cluster::describe_acls),
    (1, ApiKey::ListPartitionReassignments, cluster::list_partition_reassignments),
    (1, ApiKey::AlterPartitionReassignments, moves::alter_partition_reassignments),
    (1, ApiKey::ElectLeaders, moves::elect_leaders),
    (1, ApiKey::AlterReplicaLogDirs, moves::alter_replica_log_dirs),
    (1, ApiKey::UpdateFeatures, moves::update_features),
    (1, ApiKey::DescribeQuorum, moves::describe_quorum),
    (1, ApiKey::UnregisterController, moves::unregister_controller),
    (1, ApiKey::DescribeCluster, cluster::describe_cluster),
    (1, ApiKey::ListConfigResources, cluster::list_config_resources),
    (1, ApiKey::GetTelemetrySubscriptions, telemetry::get_telemetry_subscriptions),
    (1, ApiKey::PushTelemetry, telemetry::push_telemetry),
    (1, ApiKey::ApiVersions, cluster::api_versions),
    (1, ApiKey::FindCoordinator, cluster::find_coordinator),
    (10, ApiKey::JoinGroup, members::join_group),
    (8, ApiKey::SyncGroup, members::sync_group),
    (4, ApiKey::Heartbeat, members::heartbeat),
    (3, ApiKey::LeaveGroup, members::leave_group),
    (3, ApiKey::DescribeGroups, members::describe_groups),
    (2, ApiKey::ListGroups, members::list_groups),
    (2, ApiKey::DeleteGroups, members::delete_groups),
    (8, ApiKey::OffsetCommit, offsets::offset_commit),
    (8, ApiKey::OffsetFetch, offsets::offset_fetch),
    (2, ApiKey::OffsetDelete, offsets::offset_delete),
    (10, ApiKey::ConsumerGroupHeartbeat, consumers::consumer_group_heartbeat),
    (3, ApiKey::ConsumerGroupDescribe, consumers::consumer_group_describe),
    (9, ApiKey::ShareGroupHeartbeat, shares::share_group_heartbeat),
    (2, ApiKey::ShareGroupDescribe, shares::share_group_describe),
    (9, ApiKey::ShareFetch, deliveries::share_fetch),
    (6, ApiKey::ShareAcknowledge, deliveries::share_acknowledge),
    (2, ApiKey::DescribeShareGroupOffsets, shares::describe_share_group_offsets),
    (2, ApiKey::AlterShareGroupOffsets, shares::alter_share_group_offsets),
    (1, ApiKey::DeleteShareGroupOffsets, shares::delete_share_group_offsets),
    (2, ApiKey::InitializeShareGroupState, share_state::initialize_share_group_state),
    (2, ApiKey::ReadShareGroupState, share_state::read_share_group_state),
    (3, ApiKey::WriteShareGroupState, share_state::write_share_group_state),
    (1, ApiKey::DeleteShareGroupState, share_state::delete_share_group_state),
    (2, ApiKey::ReadShareGroupStateSummary, share_state::read_share_group_state_summary),
    (10, ApiKey::StreamsGroupHeartbeat, streams::streams_group_heartbeat),
    (3, ApiKey::StreamsGroupDescribe, streams::streams_group_describe),
    (
        3,
        ApiKey::StreamsGroupTopologyDescriptionUpdate,
        descriptions::streams_group_topology_description_update,
    ),
];

/// The choice of the requests that a run sends.
pub struct Choice<'a> {
    /// Whether most requests are about transactions.
    pub transactions: bool,
    /// Whether some transactions end by their timeouts.
    pub timeouts: bool,
    /// If not empty, only requests of these APIs are sent.
    pub only: &'a [ApiKey],
    pub versions: &'a Versions<'a>,
}

/// Sometimes queues a first request that leads to more states: share groups read from the start.
pub fn begin(world: &mut World, choice: &Choice<'_>) {
    let has_shares = !choice.transactions && choice.wants(ApiKey::ShareFetch);
    if has_shares && world.chance(70) {
        let request = shares::read_from_the_start(world);
        world.due.push_back(Ask { version: 1, request, flaw: Flaw::None });
    }
}

impl Choice<'_> {
    fn wants(&self, api: ApiKey) -> bool {
        self.only.is_empty() || self.only.contains(&api)
    }
}

/// The percentage of requests about transactions, if no APIs are chosen.
const OF_TRANSACTIONS: u32 = 15;

/// The next request. If few topics exist, it may create one even if that API is not in `choice`.
pub fn ask(world: &mut World, choice: &Choice<'_>) -> Ask {
    if let Some(due) = world.due.pop_front() {
        return due;
    }
    let is_narrow = choice.transactions || !choice.only.is_empty();
    if is_narrow && world.topics.len() < 2 && world.chance(30) {
        let request = if choice.transactions {
            topics::create_topic_of_one_segment(world)
        } else {
            topics::create_plain_topic(world, Vec::new())
        };
        return Ask { version: 7, request, flaw: Flaw::None };
    }
    let share = if is_narrow { 0 } else { OF_TRANSACTIONS };
    if choice.transactions || world.chance(share) {
        return transactions::ask(world, choice);
    }
    let wanted: Vec<_> = GENERATORS.iter().filter(|(_, api, _)| choice.wants(*api)).collect();
    let ask = one_of(world, &wanted, choice.versions);
    let mut before: Vec<Ask> = deliveries::end_before(world, &ask).into_iter().collect();
    before.extend(deliveries::loads_before(world, &ask));
    before.push(ask);
    let first = before.remove(0);
    world.due.extend(before);
    first
}

/// A request of one of these generators. It may have a flaw.
fn one_of(world: &mut World, generators: &[&Row], versions: &Versions<'_>) -> Ask {
    let sum: u32 = generators.iter().map(|(weight, ..)| weight).sum();
    let mut at = world.random.u32(..sum);
    let mut chosen = generators[0];
    for one in generators {
        chosen = one;
        match at.checked_sub(one.0) {
            Some(rest) => at = rest,
            None => break,
        }
    }
    let (_, api, generate) = chosen;
    let version = version(world, &versions(*api));
    let request = generate(world);
    Ask { version, request, flaw: flaw(world) }
}

/// The versions of an API that both servers support.
pub type Versions<'a> = dyn Fn(ApiKey) -> RangeInclusive<i16> + Sync + 'a;

fn version(world: &mut World, served: &RangeInclusive<i16>) -> i16 {
    if world.chance(40) { *served.end() } else { world.random.i16(served.clone()) }
}

fn flaw(world: &mut World) -> Flaw {
    match world.random.u32(..300) {
        0 => Flaw::Trailing,
        1 => Flaw::Cut,
        2 => Flaw::Version(world.one(&[-1, 99, i16::MAX])),
        _ => Flaw::None,
    }
}
