//! An administrator that creates, grows, configures and deletes topics, and deletes groups with
//! committed offsets.

use super::facts::Facts;
use super::offsets::commit_request;
use super::workers::TOPIC;
use super::{Client, Random, Server, rules};
use muster_codec::messages::*;
use muster_codec::{ErrorCode, Response};

/// The maximum number of topics, and of groups. If it is reached, one is deleted before another is
/// created.
const KEPT_MAX: usize = 8;
const RETENTION: &str = "retention.ms";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicFact {
    partitions: i32,
    /// The config `retention.ms`. `None` for the default.
    retention: Option<String>,
}

pub struct Admin {
    random: Random,
    topics: Facts<TopicFact>,
    /// The committed offset of each group.
    groups: Facts<i64>,
    made: u64,
    /// Acknowledged changes.
    pub changes: u64,
}

impl Admin {
    pub fn new(seed: u64) -> Self {
        let (topics, groups) = (Facts::default(), Facts::default());
        Self { random: Random(seed), topics, groups, made: 0, changes: 0 }
    }

    /// Makes a change. `None` once the server has ended. `controller` is connected to the
    /// controller, and `coordinator` connects to the coordinator of a group.
    pub fn change(
        &mut self,
        controller: &mut Client,
        coordinator: impl Fn(&str) -> Option<Client>,
    ) -> Option<()> {
        match self.random.next() % 4 {
            0 => self.make_or_delete_topic(controller)?,
            1 => self.grow_topic(controller)?,
            2 => self.configure_topic(controller)?,
            _ => self.commit_or_delete_group(coordinator)?,
        }
        self.changes += 1;
        Some(())
    }

    /// Checks that all acknowledged changes are in effect, and that no change is in effect only
    /// partly.
    pub fn check(&mut self, server: &Server) {
        let mut client = server.client(0);
        for name in self.topics.names() {
            self.topics.check(&name, found_topic(&mut client, &name));
        }
        self.topics.checked();
        for group in self.groups.names() {
            self.groups.check(&group, found_offset(&mut server.coordinator(&group), &group));
        }
        self.groups.checked();
    }

    fn make_or_delete_topic(&mut self, client: &mut Client) -> Option<()> {
        if self.topics.len() >= KEPT_MAX {
            return self.delete_topic(client);
        }
        self.made += 1;
        let name = format!("admin-{}", self.made);
        let partitions = (self.random.next() % 3 + 1) as i32;
        self.topics.begin(&name, Some(TopicFact { partitions, retention: None }));
        let topic = CreatableTopic {
            name: name.into(),
            num_partitions: partitions,
            replication_factor: -1,
            ..Default::default()
        };
        let topics = vec![topic];
        let request = CreateTopicsRequest { topics, timeout_ms: 10_000, ..Default::default() };
        let response = client.try_call(7, request.into())?;
        let Response::CreateTopics(body) = response else { panic!("{response:?}") };
        assert_eq!(body.topics[0].error_code, 0);
        self.topics.acknowledged();
        Some(())
    }

    fn delete_topic(&mut self, client: &mut Client) -> Option<()> {
        let name = self.any_topic();
        self.topics.begin(&name, None);
        let topic_names = vec![name.into()];
        let request = DeleteTopicsRequest { topic_names, timeout_ms: 10_000, ..Default::default() };
        let response = client.try_call(5, request.into())?;
        let Response::DeleteTopics(body) = response else { panic!("{response:?}") };
        assert_eq!(body.responses[0].error_code, 0);
        self.topics.acknowledged();
        Some(())
    }

    fn grow_topic(&mut self, client: &mut Client) -> Option<()> {
        if self.topics.len() == 0 {
            return Some(());
        }
        let name = self.any_topic();
        let mut fact = self.topics.get(&name)?.clone();
        fact.partitions += 1;
        self.topics.begin(&name, Some(fact.clone()));
        let topic =
            CreatePartitionsTopic { name: name.into(), count: fact.partitions, assignments: None };
        let topics = vec![topic];
        let request = CreatePartitionsRequest { topics, timeout_ms: 10_000, validate_only: false };
        let response = client.try_call(3, request.into())?;
        let Response::CreatePartitions(body) = response else { panic!("{response:?}") };
        assert_eq!(body.results[0].error_code, 0);
        self.topics.acknowledged();
        Some(())
    }

    fn configure_topic(&mut self, client: &mut Client) -> Option<()> {
        if self.topics.len() == 0 {
            return Some(());
        }
        let name = self.any_topic();
        let mut fact = self.topics.get(&name)?.clone();
        let is_set = !self.random.next().is_multiple_of(3);
        let value = (is_set).then(|| (1_000_000 + self.random.next() % 1_000_000).to_string());
        fact.retention = value.clone();
        self.topics.begin(&name, Some(fact));
        let retention = [(RETENTION, value.as_deref())];
        let request = rules::alter_configs(rules::TOPIC, &name, &retention);
        let response = client.try_call(1, request.into())?;
        let Response::IncrementalAlterConfigs(body) = response else { panic!("{response:?}") };
        assert_eq!(body.responses[0].error_code, 0);
        self.topics.acknowledged();
        Some(())
    }

    fn commit_or_delete_group(
        &mut self,
        coordinator: impl Fn(&str) -> Option<Client>,
    ) -> Option<()> {
        if self.groups.len() >= KEPT_MAX {
            let names = self.groups.names();
            let group = &names[self.random.next() as usize % names.len()];
            let mut client = coordinator(group)?;
            self.groups.begin(group, None);
            let request = DeleteGroupsRequest { groups_names: vec![group.clone().into()] };
            let response = client.try_call(2, request.into())?;
            let Response::DeleteGroups(body) = response else { panic!("{response:?}") };
            assert_eq!(body.results[0].error_code, 0);
        } else {
            // Some names are used again after their groups were deleted.
            let group = format!("offsets-{}", self.random.next() % 16);
            let offset = self.groups.get(&group).map_or(1, |offset| offset + 1);
            let mut client = coordinator(&group)?;
            self.groups.begin(&group, Some(offset));
            let response =
                client.try_call(8, commit_request(&group, TOPIC, [0], offset, "").into())?;
            let Response::OffsetCommit(body) = response else { panic!("{response:?}") };
            assert_eq!(body.topics[0].partitions[0].error_code, 0);
        }
        self.groups.acknowledged();
        Some(())
    }

    fn any_topic(&mut self) -> String {
        let names = self.topics.names();
        names[self.random.next() as usize % names.len()].clone()
    }
}

fn found_topic(client: &mut Client, name: &str) -> Option<TopicFact> {
    let topic = MetadataRequestTopic { name: Some(name.to_owned().into()), ..Default::default() };
    let topics = Some(vec![topic]);
    let request = MetadataRequest { topics, ..Default::default() };
    let request = MetadataRequest { allow_auto_topic_creation: false, ..request };
    let response = client.call(9, request.into());
    let Response::Metadata(body) = response else { panic!("{response:?}") };
    let found = &body.topics[0];
    if found.error_code == ErrorCode::UnknownTopicOrPartition as i16 {
        return None;
    }
    assert_eq!(found.error_code, 0);
    let partitions = found.partitions.len() as i32;
    Some(TopicFact { partitions, retention: found_retention(client, name) })
}

fn found_retention(client: &mut Client, name: &str) -> Option<String> {
    /// Kafka's config source of a topic's own config (`ConfigSource.DYNAMIC_TOPIC_CONFIG`).
    const OF_TOPIC: i8 = 1;
    let request = rules::describe_configs(rules::TOPIC, name, Some(RETENTION));
    let response = client.call(4, request.into());
    let Response::DescribeConfigs(body) = response else { panic!("{response:?}") };
    assert_eq!(body.results[0].error_code, 0);
    let config = &body.results[0].configs[0];
    let value = config.value.as_ref().map(|value| value.to_string());
    value.filter(|_| config.config_source == OF_TOPIC)
}

fn found_offset(client: &mut Client, group: &str) -> Option<i64> {
    let topic = OffsetFetchRequestTopics {
        name: TOPIC.into(),
        partition_indexes: vec![0],
        ..Default::default()
    };
    let group = OffsetFetchRequestGroup {
        group_id: group.to_owned().into(),
        topics: Some(vec![topic]),
        ..Default::default()
    };
    let request = OffsetFetchRequest { groups: vec![group], ..Default::default() };
    let response = client.call(9, request.into());
    let Response::OffsetFetch(body) = response else { panic!("{response:?}") };
    assert_eq!(body.groups[0].error_code, 0);
    let offset = body.groups[0].topics[0].partitions[0].committed_offset;
    (offset >= 0).then_some(offset)
}
