//! Converts a line of a script to a request.

use crate::ids::long;
use muster_codec::consumer_protocol::ConsumerProtocolSubscription;
use muster_codec::messages::*;
use muster_codec::{Bytes, Request, Uuid};

/// The words of a line: a verb, plain words, and options of the form `key=value`.
pub struct Line<'l> {
    pub verb: &'l str,
    pub words: Vec<&'l str>,
    options: Vec<(&'l str, &'l str)>,
}

impl<'l> Line<'l> {
    pub fn parse(line: &'l str) -> Self {
        let mut words = line.split_whitespace();
        let verb = words.next().unwrap();
        let (options, words): (Vec<_>, Vec<_>) = words
            .partition(|word| word.split_once('=').is_some_and(|(key, _)| OPTIONS.contains(&key)));
        let options = options.into_iter().map(|word| word.split_once('=').unwrap()).collect();
        Self { verb, words, options }
    }

    pub fn option(&self, key: &str) -> Option<&'l str> {
        assert!(OPTIONS.contains(&key), "{key}");
        self.options.iter().find(|(it, _)| *it == key).map(|(_, value)| *value)
    }

    pub fn number(&self, key: &str, default: i32) -> i32 {
        self.option(key).map_or(default, |value| value.parse().unwrap())
    }

    pub fn version(&self, newest: i16) -> i16 {
        self.option("v").map_or(newest, |value| value.parse().unwrap())
    }

    /// The member id of the client in the second word: `a#1` has one, `a` has none.
    pub fn member_id(&self) -> String {
        let who = self.words.get(1).copied().unwrap_or_default();
        let who = who.split(':').next().unwrap_or_default();
        if who.contains('#') { long(who) } else { String::new() }
    }

    pub fn client(&self) -> &'l str {
        self.words.get(1).and_then(|who| who.split('#').next()).unwrap_or("admin")
    }

    fn group(&self) -> std::borrow::Cow<'static, str> {
        match self.words.first() {
            Some(&"-") | None => "".into(),
            Some(group) => (*group).to_owned().into(),
        }
    }

    fn instance(&self) -> Option<std::borrow::Cow<'static, str>> {
        self.option("instance").map(|it| it.to_owned().into())
    }

    /// The client's reason. `_` stands for a space.
    fn reason(&self) -> Option<std::borrow::Cow<'static, str>> {
        self.option("reason").map(|it| it.replace('_', " ").into())
    }

    fn list(&self, key: &str) -> Vec<std::borrow::Cow<'static, str>> {
        let value = self.option(key).unwrap_or_default();
        value.split(',').filter(|it| !it.is_empty()).map(|it| it.to_owned().into()).collect()
    }

    /// The request in a line, with its version. None if the verb is not a request.
    pub fn request(&self, topic_id: impl Fn(&str) -> Uuid) -> Option<(i16, Request<'static>)> {
        Some(match self.verb {
            "join" => (self.version(9), self.join()),
            "sync" => (self.version(5), self.sync()),
            "heartbeat" => (self.version(4), self.heartbeat()),
            "leave" => (self.version(5), self.leave()),
            "beat" => (self.version(1), self.beat(topic_id)),
            "describe-consumers" => {
                let group_ids = self.words.iter().map(|it| (*it).to_owned().into()).collect();
                let include_authorized_operations = self.option("operations").is_some();
                let request =
                    ConsumerGroupDescribeRequest { group_ids, include_authorized_operations };
                (self.version(1), request.into())
            }
            "commit" => (self.version(9), self.commit(topic_id)),
            "fetch" => (self.version(9), self.fetch(topic_id)),
            "delete-offsets" => (0, self.delete_offsets()),
            "delete" => {
                let groups_names = self.words.iter().map(|it| (*it).to_owned().into()).collect();
                (2, DeleteGroupsRequest { groups_names }.into())
            }
            "list" => {
                let (states_filter, types_filter) = (self.list("states"), self.list("types"));
                (self.version(5), ListGroupsRequest { states_filter, types_filter }.into())
            }
            "describe" => {
                let groups = self.words.iter().map(|it| (*it).to_owned().into()).collect();
                let include_authorized_operations = self.option("operations").is_some();
                let request = DescribeGroupsRequest { groups, include_authorized_operations };
                (self.version(6), request.into())
            }
            _ => return None,
        })
    }

    /// A heartbeat. A member at epoch 0 joins, so it sends all fields.
    fn beat(&self, topic_id: impl Fn(&str) -> Uuid) -> Request<'static> {
        let member_epoch = self.number("epoch", 0);
        let own = |key: &str| self.option(key).map(|it| it.to_owned().into());
        let owns = self.option("owns").or((member_epoch == 0).then_some(""));
        let topic_partitions = owns.map(|owns| {
            let words = owns.split(',').filter(|it| !it.is_empty());
            let partitions = words.map(|word| {
                let (topic, partition) = word.rsplit_once('-').unwrap();
                let partitions = vec![partition.parse().unwrap()];
                ConsumerGroupHeartbeatTopicPartitions { topic_id: topic_id(topic), partitions }
            });
            partitions.collect()
        });
        ConsumerGroupHeartbeatRequest {
            group_id: self.group(),
            member_id: long(self.words[1]).into(),
            member_epoch,
            instance_id: self.instance(),
            rebalance_timeout_ms: self
                .number("rebalance", if member_epoch == 0 { 60_000 } else { -1 }),
            subscribed_topic_names: self.option("topics").map(|_| self.list("topics")),
            subscribed_topic_regex: own("regex"),
            server_assignor: own("assignor"),
            topic_partitions,
            ..Default::default()
        }
        .into()
    }

    fn join(&self) -> Request<'static> {
        let protocol_type = self.option("type").unwrap_or("consumer");
        let offered = self.option("protocols").unwrap_or("range");
        let protocols = offered.split(',').filter(|it| !it.is_empty()).map(|name| {
            let metadata = match (protocol_type, self.option("raw")) {
                (_, Some(raw)) => raw.as_bytes().to_vec(),
                ("consumer", None) => self.subscription(),
                _ => self.option("topics").unwrap_or_default().as_bytes().to_vec(),
            };
            JoinGroupRequestProtocol { name: name.to_owned().into(), metadata: metadata.into() }
        });
        JoinGroupRequest {
            group_id: self.group(),
            session_timeout_ms: self.number("session", 10_000),
            rebalance_timeout_ms: self.number("rebalance", 60_000),
            member_id: self.member_id().into(),
            group_instance_id: self.instance(),
            protocol_type: protocol_type.to_owned().into(),
            protocols: protocols.collect(),
            reason: self.reason(),
        }
        .into()
    }

    fn subscription(&self) -> Vec<u8> {
        let topics = self.list("topics");
        let mut out = Vec::new();
        ConsumerProtocolSubscription { topics, ..Default::default() }.write(0, &mut out);
        out
    }

    fn sync(&self) -> Request<'static> {
        let assignments = self.words.iter().skip(2).map(|word| {
            let (member, assignment) = word.split_once(':').unwrap();
            SyncGroupRequestAssignment {
                member_id: long(member).into(),
                assignment: Bytes::from(assignment.as_bytes().to_vec()),
            }
        });
        SyncGroupRequest {
            group_id: self.group(),
            generation_id: self.number("gen", -1),
            member_id: self.member_id().into(),
            group_instance_id: self.instance(),
            protocol_type: self.option("type").map(|it| it.to_owned().into()),
            protocol_name: self.option("protocols").map(|it| it.to_owned().into()),
            assignments: assignments.collect(),
        }
        .into()
    }

    fn heartbeat(&self) -> Request<'static> {
        HeartbeatRequest {
            group_id: self.group(),
            generation_id: self.number("gen", -1),
            member_id: self.member_id().into(),
            group_instance_id: self.instance(),
        }
        .into()
    }

    /// A LeaveGroup. A member is `a#1`, `a#1:i`, or `instance:i` if only its instance id is sent.
    fn leave(&self) -> Request<'static> {
        let members = self.words.iter().skip(1).map(|word| {
            let (member, instance) = word.split_once(':').unwrap_or((word, ""));
            let member = if member == "instance" { "" } else { member };
            MemberIdentity {
                member_id: long(member).into(),
                group_instance_id: (!instance.is_empty()).then(|| instance.to_owned().into()),
                reason: self.reason(),
            }
        });
        let members: Vec<_> = members.collect();
        let member_id = members[0].member_id.clone();
        LeaveGroupRequest { group_id: self.group(), member_id, members }.into()
    }

    /// A transactional commit and its version, by the option `producer=id/epoch`. None without it.
    pub fn transactional(
        &self,
        topic_id: impl Fn(&str) -> Uuid,
    ) -> Option<(i16, TxnOffsetCommitRequest<'static>)> {
        let (id, epoch) = self.option("producer")?.split_once('/').unwrap();
        let Request::OffsetCommit(commit) = self.commit(topic_id) else { return None };
        let topics = commit.topics.into_iter().map(|topic| TxnOffsetCommitRequestTopic {
            name: topic.name,
            topic_id: topic.topic_id,
            partitions: topic.partitions.into_iter().map(in_transaction).collect(),
        });
        let request = TxnOffsetCommitRequest {
            transactional_id: "tx".into(),
            group_id: commit.group_id,
            producer_id: id.parse().unwrap(),
            producer_epoch: epoch.parse().unwrap(),
            generation_id_or_member_epoch: commit.generation_id_or_member_epoch,
            member_id: commit.member_id,
            group_instance_id: commit.group_instance_id,
            topics: topics.collect(),
        };
        Some((self.version(5), request))
    }

    /// A commit. An offset is `topic-0:5` or `topic-0:5:metadata`.
    fn commit(&self, topic_id: impl Fn(&str) -> Uuid) -> Request<'static> {
        let topics = self.words.iter().filter(|word| word.contains(':')).map(|word| {
            let mut parts = word.splitn(3, ':');
            let (topic, partition_index) = topic_partition(parts.next().unwrap());
            let committed_offset = parts.next().unwrap().parse().unwrap();
            OffsetCommitRequestTopic {
                topic_id: topic_id(topic),
                name: topic.to_owned().into(),
                partitions: vec![OffsetCommitRequestPartition {
                    partition_index,
                    committed_offset,
                    committed_metadata: parts.next().map(|it| it.to_owned().into()),
                    ..Default::default()
                }],
            }
        });
        OffsetCommitRequest {
            group_id: self.group(),
            generation_id_or_member_epoch: self.number("gen", -1),
            member_id: self.member_id().into(),
            group_instance_id: self.instance(),
            retention_time_ms: i64::from(self.number("retention", -1)),
            topics: topics.collect(),
        }
        .into()
    }

    /// An OffsetFetch. A partition is `topic-0`; `all` means all partitions. Several groups are
    /// `g,h`.
    fn fetch(&self, topic_id: impl Fn(&str) -> Uuid) -> Request<'static> {
        let wanted: Vec<_> = self.words[1..].iter().map(|it| topic_partition(it)).collect();
        let all = self.words[1..] == ["all"];
        if self.version(9) < 8 {
            let topics = wanted.iter().map(|(topic, partition)| OffsetFetchRequestTopic {
                name: (*topic).to_owned().into(),
                partition_indexes: vec![*partition],
            });
            let topics = (!all).then(|| topics.collect());
            let group_id = self.group();
            return OffsetFetchRequest { group_id, topics, ..Default::default() }.into();
        }
        let groups = self.words[0].split(',').map(|group_id| {
            let topics = wanted.iter().map(|(topic, partition)| OffsetFetchRequestTopics {
                topic_id: topic_id(topic),
                name: (*topic).to_owned().into(),
                partition_indexes: vec![*partition],
            });
            let topics = (!all).then(|| topics.collect());
            let group_id = group_id.to_owned().into();
            OffsetFetchRequestGroup { group_id, topics, ..Default::default() }
        });
        let require_stable = self.option("stable").is_some();
        let groups = groups.collect();
        OffsetFetchRequest { groups, require_stable, ..Default::default() }.into()
    }

    fn delete_offsets(&self) -> Request<'static> {
        let topics = self.words.iter().skip(1).map(|word| {
            let (topic, partition_index) = topic_partition(word);
            OffsetDeleteRequestTopic {
                name: topic.to_owned().into(),
                partitions: vec![OffsetDeleteRequestPartition { partition_index }],
            }
        });
        OffsetDeleteRequest { group_id: self.group(), topics: topics.collect() }.into()
    }
}

const OPTIONS: &[&str] = &[
    "v",
    "operations",
    "gen",
    "epoch",
    "owns",
    "regex",
    "assignor",
    "instance",
    "session",
    "rebalance",
    "type",
    "protocols",
    "topics",
    "raw",
    "retention",
    "producer",
    "stable",
    "states",
    "types",
    "reason",
];

fn in_transaction(
    partition: OffsetCommitRequestPartition<'static>,
) -> TxnOffsetCommitRequestPartition<'static> {
    TxnOffsetCommitRequestPartition {
        partition_index: partition.partition_index,
        committed_offset: partition.committed_offset,
        committed_leader_epoch: partition.committed_leader_epoch,
        committed_metadata: partition.committed_metadata,
    }
}

fn topic_partition(word: &str) -> (&str, i32) {
    match word.rsplit_once('-') {
        Some((topic, partition)) => (topic, partition.parse().unwrap()),
        None => (word, 0),
    }
}
