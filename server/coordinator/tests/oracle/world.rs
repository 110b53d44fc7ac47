//! The topics and configs that a transcript sets.

use muster_codec::Uuid;
use muster_coordinator::assignors::sticky::{Placed, StickyMember, TasksOf};
use muster_coordinator::assignors::{Assignor, TaskAssignor};
use muster_coordinator::{Config, GroupOverrides, MigrationPolicy, Topics};
use serde_json::Value;
use std::collections::BTreeMap;

/// The topics after the last `new` or `topics` operation.
#[derive(Debug, Default)]
pub struct World {
    topics: Vec<Topic>,
    made: u64,
    /// The rack of each broker.
    racks: BTreeMap<i64, String>,
    version: i64,
    version_of_newest: i64,
}

#[derive(Debug)]
struct Topic {
    name: String,
    id: Uuid,
    partitions: i32,
    /// The brokers of each partition. The default is broker 0.
    replicas: Vec<Vec<i64>>,
}

impl World {
    /// Deletes topics, and creates or extends topics. Returns the names and ids of the deleted
    /// topics.
    pub fn change(&mut self, op: &Value) -> Vec<(String, Uuid)> {
        self.version += 1;
        for broker in op["brokers"].as_array().into_iter().flatten() {
            if let (Some(id), Some(rack)) = (broker["id"].as_i64(), broker["rack"].as_str()) {
                self.racks.insert(id, rack.to_owned());
            }
        }
        let named = |name: &Value| op["delete"].as_array().is_some_and(|all| all.contains(name));
        let gone = |topic: &mut Topic| named(&Value::from(topic.name.as_str()));
        let deleted =
            self.topics.extract_if(.., gone).map(|topic| (topic.name, topic.id)).collect();
        for entry in op["topics"].as_array().into_iter().flatten() {
            self.make_or_grow(entry);
        }
        deleted
    }

    fn make_or_grow(&mut self, entry: &Value) {
        let name = entry["name"].as_str().unwrap();
        let partitions = entry["partitions"].as_i64().unwrap() as i32;
        let replicas: Option<Vec<Vec<i64>>> =
            serde_json::from_value(entry["replicas"].clone()).unwrap_or_default();
        let of = |partition: i32| match &replicas {
            Some(replicas) => replicas[partition as usize].clone(),
            None => vec![0],
        };
        if let Some(topic) = self.topics.iter_mut().find(|topic| topic.name == name) {
            topic.replicas.extend((topic.partitions..partitions).map(of));
            topic.partitions = topic.partitions.max(partitions);
            return;
        }
        self.version_of_newest = self.version;
        let id = match entry["id"].as_str() {
            Some(id) => Uuid::parse(id).unwrap(),
            None => self.numbered_id(),
        };
        let replicas = (0..partitions).map(of).collect();
        self.topics.push(Topic { name: name.to_owned(), id, partitions, replicas });
    }

    /// The id that the oracle assigns to a topic without an id.
    fn numbered_id(&mut self) -> Uuid {
        self.made += 1;
        let mut id = [0; 16];
        id[..8].copy_from_slice(&0x74_6f70_6963_u64.to_be_bytes());
        id[8..].copy_from_slice(&self.made.to_be_bytes());
        Uuid(id)
    }
}

impl Topics for World {
    fn id(&self, name: &str) -> Option<Uuid> {
        self.topics.iter().find(|topic| topic.name == name).map(|topic| topic.id)
    }

    fn name(&self, id: Uuid) -> Option<&str> {
        self.topics.iter().find(|topic| topic.id == id).map(|topic| topic.name.as_str())
    }

    fn partitions(&self, name: &str) -> Option<i32> {
        self.topics.iter().find(|topic| topic.name == name).map(|topic| topic.partitions)
    }

    fn version(&self) -> i64 {
        self.version
    }

    fn version_of_newest(&self) -> i64 {
        self.version_of_newest
    }

    fn names_after(&self, name: Option<&str>) -> Box<dyn Iterator<Item = &str> + '_> {
        let mut names: Vec<&str> = self.topics.iter().map(|topic| topic.name.as_str()).collect();
        names.sort_unstable();
        names.retain(|it| name.is_none_or(|name| *it > name));
        Box::new(names.into_iter())
    }

    fn racks(&self, name: &str, partition: i32) -> Vec<&str> {
        let topic = self.topics.iter().find(|topic| topic.name == name);
        let replicas = topic.and_then(|topic| topic.replicas.get(partition as usize));
        let racks = replicas.into_iter().flatten().filter_map(|id| self.racks.get(id));
        let mut racks: Vec<&str> = racks.map(String::as_str).collect();
        racks.sort_unstable();
        racks
    }
}

/// The configs of a `new` operation. Configs that muster's coordinator does not have are ignored.
pub fn config(op: &Value) -> Config {
    let mut config = Config::default();
    for (name, value) in op["config"].as_object().into_iter().flatten() {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        set(&mut config, name, &value);
    }
    config
}

fn set(config: &mut Config, name: &str, value: &str) {
    if name.starts_with("group.streams.") {
        return set_of_streams(config, name, value);
    }
    let number = || value.parse::<i64>().unwrap();
    match name {
        "group.initial.rebalance.delay.ms" => {
            config.group_initial_rebalance_delay_ms = number() as i32;
        }
        "group.min.session.timeout.ms" => config.group_min_session_timeout_ms = number() as i32,
        "group.max.session.timeout.ms" => config.group_max_session_timeout_ms = number() as i32,
        "group.max.size" => config.group_max_size = number() as i32,
        "offset.metadata.max.bytes" => config.offset_metadata_max_bytes = number() as i32,
        "offsets.retention.minutes" => config.offsets_retention_ms = number() * 60_000,
        "offsets.retention.check.interval.ms" => {
            config.offsets_retention_check_interval_ms = number();
        }
        "group.consumer.session.timeout.ms" => {
            config.group_consumer_session_timeout_ms = number() as i32;
        }
        "group.consumer.heartbeat.interval.ms" => {
            config.group_consumer_heartbeat_interval_ms = number() as i32;
        }
        "group.consumer.assignment.interval.ms" => {
            config.group_consumer_assignment_interval_ms = number() as i32;
        }
        "group.consumer.max.size" => config.group_consumer_max_size = number() as i32,
        "group.consumer.regex.refresh.interval.ms" => {
            config.group_consumer_regex_refresh_interval_ms = number() as i32;
        }
        "group.share.session.timeout.ms" => {
            config.group_share_session_timeout_ms = number() as i32;
        }
        "group.share.heartbeat.interval.ms" => {
            config.group_share_heartbeat_interval_ms = number() as i32;
        }
        "group.share.assignment.interval.ms" => {
            config.group_share_assignment_interval_ms = number() as i32;
        }
        "group.share.max.size" => config.group_share_max_size = number() as i32,
        "group.share.initialize.retry.interval.ms" => {
            config.group_share_initialize_retry_interval_ms = number() as i32;
        }
        "group.consumer.migration.policy" => {
            config.group_consumer_migration_policy = MigrationPolicy::by_name(value).unwrap();
        }
        "group.consumer.assignors" => {
            let names = value.split(',');
            config.group_consumer_assignors =
                names.map(|name| Assignor::by_name(name.trim()).unwrap()).collect();
        }
        _ => assert!(
            ["group.consumer.", "group.share."].iter().any(|prefix| name.starts_with(prefix)),
            "a config that is unknown to the harness: {name}"
        ),
    }
}

fn set_of_streams(config: &mut Config, name: &str, value: &str) {
    let number = || value.parse::<i64>().unwrap();
    match name {
        "group.streams.session.timeout.ms" => {
            config.group_streams_session_timeout_ms = number() as i32;
        }
        "group.streams.heartbeat.interval.ms" => {
            config.group_streams_heartbeat_interval_ms = number() as i32;
        }
        "group.streams.assignment.interval.ms" => {
            config.group_streams_assignment_interval_ms = number() as i32;
        }
        "group.streams.initial.rebalance.delay.ms" => {
            config.group_streams_initial_rebalance_delay_ms = number() as i32;
        }
        "group.streams.num.standby.replicas" => {
            config.group_streams_num_standby_replicas = number() as i32;
        }
        "group.streams.max.size" => config.group_streams_max_size = number() as i32,
        "group.streams.assignors" => {
            config.group_streams_assignors = value.split(',').map(task_assignor).collect();
        }
        "group.streams.rack.aware.assignment.tags" => {
            config.group_streams_rack_aware_assignment_tags = words(value);
        }
        "group.streams.task.offset.interval.ms" => {
            config.group_streams_task_offset_interval_ms = number() as i32;
        }
        "group.streams.acceptable.recovery.lag" => {
            config.group_streams_acceptable_recovery_lag = number();
        }
        // muster's coordinator has no other configs.
        _ => {}
    }
}

fn words(list: &str) -> Vec<String> {
    list.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// The assignor with this name. `Lowest` exists only in the oracle.
fn task_assignor(name: &str) -> TaskAssignor {
    match name {
        "sticky" => TaskAssignor::STICKY,
        "org.apache.kafka.coordinator.group.Oracle$Lowest" => TaskAssignor::new("lowest", lowest),
        _ => panic!("an assignor that is unknown to the harness: {name}"),
    }
}

/// Assigns all tasks to the member with the lowest id, without standbys.
fn lowest(members: &[StickyMember<'_>], tasks: &[TasksOf]) -> Vec<Placed> {
    let count = tasks.iter().map(|it| it.partitions).sum();
    let first = members.iter().map(|it| it.id.encode_utf16().collect::<Vec<_>>()).min();
    let placed = members.iter().map(|member| {
        let is_first = Some(member.id.encode_utf16().collect()) == first;
        Placed { active: (0..count).filter(|_| is_first).collect(), standby: Vec::new() }
    });
    placed.collect()
}

/// The configs of a `group_config` operation that muster's coordinator has.
pub fn group_overrides(op: &Value) -> GroupOverrides {
    let number = |name: &str| {
        let value = &op["configs"][name];
        let text = value.as_str().and_then(|text| text.parse().ok());
        text.or_else(|| value.as_i64().map(|number| number as i32))
    };
    let text = |name: &str| op["configs"][name].as_str();
    let interval = number("streams.task.offset.interval.ms");
    GroupOverrides {
        consumer_session_timeout_ms: number("consumer.session.timeout.ms"),
        consumer_heartbeat_interval_ms: number("consumer.heartbeat.interval.ms"),
        consumer_assignment_interval_ms: number("consumer.assignment.interval.ms"),
        share_session_timeout_ms: number("share.session.timeout.ms"),
        share_heartbeat_interval_ms: number("share.heartbeat.interval.ms"),
        share_assignment_interval_ms: number("share.assignment.interval.ms"),
        streams_session_timeout_ms: number("streams.session.timeout.ms"),
        streams_heartbeat_interval_ms: number("streams.heartbeat.interval.ms"),
        streams_assignment_interval_ms: number("streams.assignment.interval.ms"),
        streams_initial_rebalance_delay_ms: number("streams.initial.rebalance.delay.ms"),
        streams_num_standby_replicas: number("streams.num.standby.replicas"),
        streams_assignor_name: text("streams.assignor.name").map(str::to_owned),
        streams_rack_aware_assignment_tags: text("streams.rack.aware.assignment.tags").map(words),
        // The oracle's broker has this lower bound.
        streams_task_offset_interval_ms: interval.map(|it| it.max(15_000)),
        streams_acceptable_recovery_lag: number("streams.acceptable.recovery.lag").map(i64::from),
    }
}
