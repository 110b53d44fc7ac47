//! A client with a principal, whose permissions come from ACLs. For the judge, it turns each answer
//! into a list of rights, each with whether the answer grants or refuses it.

use super::rules::{DESCRIBE, Finding, GROUP, READ, TOPIC};
use super::{NextRequest, Surroundings};
use crate::random::Random;
use muster_codec::messages::*;
use muster_codec::{ErrorCode, Request, Response, Str};

const TOPIC_DENIED: i16 = ErrorCode::TopicAuthorizationFailed as i16;
const GROUP_DENIED: i16 = ErrorCode::GroupAuthorizationFailed as i16;
const GROUPS: usize = 2;
const OF_GROUPS: i8 = 0;

#[derive(Debug)]
pub(crate) struct User {
    name: &'static str,
    /// The first topic exists. The others come and go, or never exist.
    topics: Vec<String>,
    doing: Doing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    Nothing,
    Topics,
    AllTopics,
    Coordinators,
    Commit(usize),
    Offsets(usize),
    Groups,
    AllGroups,
    Fetch,
}

impl User {
    pub(crate) const PRINCIPALS: [&str; 2] = ["alice", "bob"];

    pub(crate) fn new(number: u32, topics: Vec<String>) -> Self {
        let name = Self::PRINCIPALS[number as usize % Self::PRINCIPALS.len()];
        Self { name, topics, doing: Doing::Nothing }
    }

    /// The groups of all users.
    pub(crate) fn groups() -> impl Iterator<Item = String> {
        (0..GROUPS).map(group)
    }

    /// The name in the client's certificate.
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    pub(super) fn next_request(&mut self, around: &mut Surroundings<'_>) -> NextRequest {
        let random = &mut *around.random;
        let any = random.below(u64::from(around.placement.shards)) as u32;
        let of = random.below(GROUPS as u64) as usize;
        self.doing = random.pick(&[
            Doing::Topics,
            Doing::AllTopics,
            Doing::Coordinators,
            Doing::Commit(of),
            Doing::Offsets(of),
            Doing::Groups,
            Doing::AllGroups,
            Doing::Fetch,
        ]);
        let shard = match self.doing {
            Doing::Commit(of) | Doing::Offsets(of) if random.chance(0.8) => {
                around.placement.group_shard(&group(of))
            }
            _ => any,
        };
        let (version, request) = self.request(random);
        NextRequest { shard, version, request }
    }

    fn request(&self, random: &mut Random) -> (i16, Request<'static>) {
        let groups = || Self::groups().map(Str::Owned).collect();
        match self.doing {
            Doing::Nothing | Doing::AllTopics => {
                (12, MetadataRequest { topics: None, ..Default::default() }.into())
            }
            Doing::Topics => {
                let topic = |name: &String| MetadataRequestTopic {
                    name: Some(name.clone().into()),
                    ..Default::default()
                };
                let topics = Some(self.topics.iter().map(topic).collect());
                (12, MetadataRequest { topics, ..Default::default() }.into())
            }
            Doing::Coordinators => {
                let (key_type, coordinator_keys) = (OF_GROUPS, groups());
                let request =
                    FindCoordinatorRequest { key_type, coordinator_keys, ..Default::default() };
                (4, request.into())
            }
            Doing::Commit(of) => (8, self.commit(of, random).into()),
            Doing::Offsets(of) => {
                let asked = OffsetFetchRequestGroup {
                    group_id: group(of).into(),
                    topics: None,
                    ..Default::default()
                };
                let groups = vec![asked];
                (8, OffsetFetchRequest { groups, ..Default::default() }.into())
            }
            Doing::Groups => {
                (5, DescribeGroupsRequest { groups: groups(), ..Default::default() }.into())
            }
            Doing::AllGroups => (4, ListGroupsRequest::default().into()),
            Doing::Fetch => (12, self.fetch().into()),
        }
    }

    fn commit(&self, of: usize, random: &mut Random) -> OffsetCommitRequest<'static> {
        let topic = |name: &String| OffsetCommitRequestTopic {
            name: name.clone().into(),
            partitions: vec![OffsetCommitRequestPartition {
                committed_offset: random.below(1_000) as i64,
                ..Default::default()
            }],
            ..Default::default()
        };
        OffsetCommitRequest {
            group_id: group(of).into(),
            generation_id_or_member_epoch: -1,
            topics: self.topics.iter().map(topic).collect(),
            ..Default::default()
        }
    }

    fn fetch(&self) -> FetchRequest<'static> {
        let topic = |name: &String| FetchTopic {
            topic: name.clone().into(),
            partitions: vec![FetchPartition { partition_max_bytes: 1_000, ..Default::default() }],
            ..Default::default()
        };
        FetchRequest { topics: self.topics.iter().map(topic).collect(), ..Default::default() }
    }

    pub(super) fn answered(&mut self) {
        self.doing = Doing::Nothing;
    }

    /// The rights that the answer to the request under way grants or refuses.
    ///
    /// # Errors
    /// The answer reveals something of a topic that it refuses, or it lacks a part.
    pub(crate) fn findings(&self, response: &Response<'_>) -> Result<Vec<Finding>, String> {
        let mut findings = Findings(Vec::new());
        match (self.doing, response) {
            (Doing::Topics, Response::Metadata(body)) => {
                body.topics.iter().try_for_each(is_silent)?;
                for it in &body.topics {
                    let name = it.name.as_deref().unwrap_or_default();
                    findings.note(TOPIC, DESCRIBE, name, it.error_code != TOPIC_DENIED);
                }
                findings.of_all(&self.topics)?;
            }
            (Doing::AllTopics, Response::Metadata(body)) => {
                let listed = || body.topics.iter().filter_map(|it| it.name.as_deref());
                listed().for_each(|name| findings.note(TOPIC, DESCRIBE, name, true));
                let first = &self.topics[0];
                findings.note(TOPIC, DESCRIBE, first, listed().any(|name| name == *first));
            }
            (Doing::Coordinators, Response::FindCoordinator(body)) => {
                for it in &body.coordinators {
                    findings.note(GROUP, DESCRIBE, &it.key, it.error_code != GROUP_DENIED);
                    if it.error_code == GROUP_DENIED && it.node_id != -1 {
                        return Err(format!("the refusal has the coordinator: {it:?}"));
                    }
                }
                findings.of_all(&Self::groups().collect::<Vec<_>>())?;
            }
            (Doing::Commit(of), Response::OffsetCommit(body)) => {
                let parts = body.topics.iter().flat_map(|it| {
                    it.partitions.iter().map(|partition| (&*it.name, partition.error_code))
                });
                findings.of_group_and_topics(&group(of), parts);
            }
            (Doing::Offsets(of), Response::OffsetFetch(body)) => {
                let [answer] = &body.groups[..] else { return Err("other groups".to_owned()) };
                let is_granted = answer.error_code != GROUP_DENIED;
                findings.note(GROUP, DESCRIBE, &group(of), is_granted);
                let topics = answer.topics.iter();
                topics.for_each(|it| findings.note(TOPIC, DESCRIBE, &it.name, true));
                if !is_granted && !answer.topics.is_empty() {
                    return Err(format!("the refusal has offsets: {answer:?}"));
                }
            }
            (Doing::Groups, Response::DescribeGroups(body)) => {
                for it in &body.groups {
                    findings.note(GROUP, DESCRIBE, &it.group_id, it.error_code != GROUP_DENIED);
                    if it.error_code == GROUP_DENIED && !it.group_state.is_empty() {
                        return Err(format!("the refusal has the group's state: {it:?}"));
                    }
                }
                findings.of_all(&Self::groups().collect::<Vec<_>>())?;
            }
            (Doing::AllGroups, Response::ListGroups(body)) => {
                body.groups
                    .iter()
                    .for_each(|it| findings.note(GROUP, DESCRIBE, &it.group_id, true));
            }
            (Doing::Fetch, Response::Fetch(body)) => {
                for it in &body.responses {
                    let codes = it.partitions.iter().map(|partition| partition.error_code);
                    codes.for_each(|code| {
                        findings.note(TOPIC, READ, &it.topic, code != TOPIC_DENIED);
                    });
                }
                findings.of_all(&self.topics)?;
            }
            (doing, response) => return Err(format!("{doing:?} is answered with {response:?}")),
        }
        Ok(findings.0)
    }
}

struct Findings(Vec<Finding>);

impl Findings {
    fn note(&mut self, resource: i8, operation: i8, name: &str, is_granted: bool) {
        let name = name.to_owned();
        self.0.push(Finding { operation, resource, name, is_granted });
    }

    /// Notes whether the group is granted, and if so, whether each topic is. If the group is
    /// refused, Kafka does not check the topics.
    fn of_group_and_topics<'p>(
        &mut self,
        group: &str,
        parts: impl Iterator<Item = (&'p str, i16)>,
    ) {
        for (topic, code) in parts {
            self.note(GROUP, READ, group, code != GROUP_DENIED);
            if code != GROUP_DENIED {
                self.note(TOPIC, READ, topic, code != TOPIC_DENIED);
            }
        }
    }

    /// Checks that each name has a part of the answer.
    fn of_all(&self, names: &[String]) -> Result<(), String> {
        match names.iter().find(|name| !self.0.iter().any(|it| it.name == **name)) {
            Some(name) => Err(format!("the answer has no part for {name}")),
            None => Ok(()),
        }
    }
}

fn group(of: usize) -> String {
    format!("user-group-{of}")
}

/// Checks the answer for a topic that the client may not describe: it must be the same whether the
/// topic exists or not.
fn is_silent(topic: &MetadataResponseTopic<'_>) -> Result<(), String> {
    let says_nothing =
        topic.topic_id.is_zero() && topic.partitions.is_empty() && !topic.is_internal;
    if topic.error_code == TOPIC_DENIED && !says_nothing {
        return Err(format!("the refusal says that the topic exists: {topic:?}"));
    }
    Ok(())
}
