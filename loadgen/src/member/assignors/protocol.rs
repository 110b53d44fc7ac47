//! The bytes that members of a classic group exchange through the coordinator: ConsumerProtocol's
//! Subscription and Assignment, each preceded by its version, and the user data of sticky members.
//!
//! Other members may be any clients, so the codec checks each length against the available bytes.

use std::sync::Arc;

use muster_codec::consumer_protocol::{
    ConsumerProtocolAssignment, ConsumerProtocolSubscription, TopicPartitions,
};
use muster_codec::messages::{JoinGroupResponseMember, SyncGroupRequestAssignment};
use muster_codec::wire::{Reader as Bytes, put_i32};
use muster_codec::{Field, Str, Version};

use super::{MemberSubscription, NO_GENERATION, assign};
use crate::plan::{ClassicAssignor, Partition, TopicIndex};
use crate::topics::Topics;

/// The version of the consumer protocol that this module writes.
const VERSION: i16 = 3;
/// The layout of the sticky assignor's user data.
const CLASSIC: Version = Version { number: 1, flexible: false };

/// Why bytes of the consumer protocol can't be read or written.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ProtocolError {
    #[error("the {0} of the consumer protocol is malformed")]
    Malformed(&'static str),
    #[error("the {0} of the consumer protocol has the unknown version {1}")]
    Version(&'static str, i16),
    #[error("the assignment names the topic {0:?}, which this run does not have")]
    UnknownTopic(String),
    #[error("the metadata of the member {0:?}: {1}")]
    Member(String, Box<Self>),
}

/// The metadata with which a member joins.
#[derive(Clone, Copy, Debug)]
pub struct Joining<'a> {
    pub topics: &'a [TopicIndex],
    /// The partitions that the member owns. For [`ClassicAssignor::Sticky`] they are its last
    /// assignment, even if the member has given them up since. Range and round-robin do not send
    /// them.
    pub owned: &'a [Partition],
    /// The generation of `owned`, or [`NO_GENERATION`].
    pub generation: i32,
    pub rack: Option<&'a str>,
}

/// The metadata of an assignor in JoinGroup: a Subscription of [`VERSION`], as Kafka's Java client
/// encodes it.
pub fn join_metadata(assignor: ClassicAssignor, joining: &Joining<'_>, topics: &Topics) -> Vec<u8> {
    let known = joining.topics.iter().filter_map(|index| topics.get(*index));
    let mut names: Vec<Str<'_>> = known.map(|topic| Str::Borrowed(&*topic.name)).collect();
    names.sort_unstable();
    let owned = if assignor.is_cooperative() { joining.owned } else { &[] };
    let subscription = ConsumerProtocolSubscription {
        topics: names,
        user_data: user_data(assignor, joining, topics).map(Into::into),
        owned_partitions: by_topic(owned, topics),
        generation_id: joining.generation,
        rack_id: joining.rack.map(Str::Borrowed),
    };
    let mut bytes = Vec::new();
    subscription.write(VERSION, &mut bytes);
    bytes
}

/// Reads the assignment in SyncGroup's answer, sorted by topic and number.
pub fn read_assignment(bytes: &[u8], topics: &Topics) -> Result<Vec<Partition>, ProtocolError> {
    const WHAT: &str = "assignment";
    check_version(WHAT, bytes)?;
    let assignment = ConsumerProtocolAssignment::read(bytes);
    let assignment = assignment.map_err(|_| ProtocolError::Malformed(WHAT))?;
    let mut partitions = Vec::new();
    for topic in assignment.assigned_partitions {
        let Some(index) = topics.named(&topic.topic) else {
            return Err(ProtocolError::UnknownTopic(topic.topic.into_owned()));
        };
        for number in topic.partitions {
            let number = u32::try_from(number).map_err(|_| ProtocolError::Malformed(WHAT))?;
            partitions.push(Partition { topic: index, number });
        }
    }
    partitions.sort_unstable();
    partitions.dedup();
    Ok(partitions)
}

/// The work of the leader between JoinGroup's answer and SyncGroup's request. As in Kafka's
/// clients, metadata that can't be decoded is an error, whichever member sent it.
pub fn lead(
    assignor: ClassicAssignor,
    members: &[JoinGroupResponseMember<'_>],
    topics: &Topics,
) -> Result<Vec<SyncGroupRequestAssignment<'static>>, ProtocolError> {
    let mut reader = Reader::new(assignor, topics);
    let subscriptions =
        members.iter().map(|member| reader.member(member)).collect::<Result<Vec<_>, _>>()?;
    let assignments = assign(assignor, &subscriptions, topics);
    let named = members.iter().zip(assignments);
    let assigned = named.map(|(member, assignment)| SyncGroupRequestAssignment {
        member_id: member.member_id.clone().into_owned().into(),
        assignment: assignment_bytes(&assignment, topics).into(),
    });
    Ok(assigned.collect())
}

/// The bytes of one member's assignment in SyncGroup.
pub fn assignment_bytes(assignment: &[Partition], topics: &Topics) -> Vec<u8> {
    let assigned_partitions = by_topic(assignment, topics);
    let mut bytes = Vec::new();
    ConsumerProtocolAssignment { assigned_partitions, user_data: None }.write(VERSION, &mut bytes);
    bytes
}

/// Decodes the metadata of the members of a group. It leaves out topics that the run does not have,
/// because the leader does not know their partitions.
#[derive(Debug)]
pub struct Reader<'a> {
    assignor: ClassicAssignor,
    topics: &'a Topics,
    /// The topics of the last decoded member: their names, and their indices. If the next member
    /// has the same names, it shares the `Arc`, as thousands of members may.
    last: Option<(Vec<String>, Arc<[TopicIndex]>)>,
}

impl<'a> Reader<'a> {
    pub const fn new(assignor: ClassicAssignor, topics: &'a Topics) -> Self {
        Self { assignor, topics, last: None }
    }

    /// Decodes the metadata of a member in JoinGroup's answer.
    pub fn member(
        &mut self,
        member: &JoinGroupResponseMember<'_>,
    ) -> Result<MemberSubscription, ProtocolError> {
        let subscription = read_subscription(&member.metadata)
            .map_err(|e| ProtocolError::Member(member.member_id.to_string(), Box::new(e)))?;
        let (owned, generation) = self.past(&subscription);
        Ok(MemberSubscription {
            member_id: Arc::from(&*member.member_id),
            instance_id: member.group_instance_id.as_deref().map(Arc::from),
            topics: self.indices(&subscription.topics),
            owned,
            generation,
        })
    }

    /// The partitions that the member owns, and their generation. They are read from the same
    /// fields as in `memberData` of Kafka's assignors. As in Kafka, user data that can't be decoded
    /// counts as absent.
    fn past(&self, subscription: &ConsumerProtocolSubscription<'_>) -> (Vec<Partition>, i32) {
        let user_data = subscription.user_data.as_deref();
        match self.assignor {
            ClassicAssignor::Range | ClassicAssignor::RoundRobin => (Vec::new(), NO_GENERATION),
            ClassicAssignor::Sticky => {
                let (owned, generation) =
                    user_data.and_then(read_sticky).unwrap_or((Vec::new(), NO_GENERATION));
                (self.partitions(&owned), generation)
            }
            ClassicAssignor::CooperativeSticky => {
                let in_user_data = || user_data.and_then(|data| Bytes::new(data).i32().ok());
                let generation = match subscription.generation_id {
                    NO_GENERATION => in_user_data().unwrap_or(NO_GENERATION),
                    generation => generation,
                };
                (self.partitions(&subscription.owned_partitions), generation)
            }
        }
    }

    fn indices(&mut self, names: &[Str<'_>]) -> Arc<[TopicIndex]> {
        if let Some((last, indices)) = &self.last
            && *last == *names
        {
            return indices.clone();
        }
        let mut indices: Vec<TopicIndex> =
            names.iter().filter_map(|name| self.topics.named(name)).collect();
        indices.sort_unstable();
        let indices: Arc<[TopicIndex]> = indices.into();
        let names = names.iter().map(ToString::to_string).collect();
        self.last = Some((names, indices.clone()));
        indices
    }

    fn partitions(&self, owned: &[TopicPartitions<'_>]) -> Vec<Partition> {
        let mut partitions = Vec::new();
        for topic in owned {
            let Some(index) = self.topics.named(&topic.topic) else { continue };
            let numbers = topic.partitions.iter().filter_map(|number| u32::try_from(*number).ok());
            partitions.extend(numbers.map(|number| Partition { topic: index, number }));
        }
        partitions
    }
}

fn read_subscription(bytes: &[u8]) -> Result<ConsumerProtocolSubscription<'_>, ProtocolError> {
    const WHAT: &str = "subscription";
    check_version(WHAT, bytes)?;
    ConsumerProtocolSubscription::read(bytes).map_err(|_| ProtocolError::Malformed(WHAT))
}

/// Checks the version. A newer version than ours is decoded as ours, as in Kafka: later versions
/// only add fields at the end.
fn check_version(what: &'static str, bytes: &[u8]) -> Result<(), ProtocolError> {
    match Bytes::new(bytes).i16() {
        Ok(version) if version < 0 => Err(ProtocolError::Version(what, version)),
        _ => Ok(()),
    }
}

/// The user data that an assignor sends. For `StickyAssignor` it is the last assignment and its
/// generation. For `CooperativeStickyAssignor` it is only the generation: leaders that read
/// subscriptions below version 2 look for it there.
fn user_data(assignor: ClassicAssignor, joining: &Joining<'_>, topics: &Topics) -> Option<Vec<u8>> {
    let mut data = Vec::new();
    match assignor {
        ClassicAssignor::Range | ClassicAssignor::RoundRobin => return None,
        ClassicAssignor::Sticky if joining.generation == NO_GENERATION => return None,
        ClassicAssignor::Sticky => by_topic(joining.owned, topics).write(&mut data, CLASSIC),
        ClassicAssignor::CooperativeSticky => {}
    }
    put_i32(&mut data, joining.generation);
    Some(data)
}

/// Decodes the sticky assignor's user data. It contains the generation since its version 1.
fn read_sticky(data: &[u8]) -> Option<(Vec<TopicPartitions<'_>>, i32)> {
    let mut data = Bytes::new(data);
    let owned = Field::read(&mut data, CLASSIC).ok()?;
    Some((owned, data.i32().unwrap_or(NO_GENERATION)))
}

fn by_topic<'a>(partitions: &[Partition], topics: &'a Topics) -> Vec<TopicPartitions<'a>> {
    let mut sorted = partitions.to_vec();
    sorted.sort_unstable();
    let of_topic = |some: &[Partition]| {
        let topic = Str::Borrowed(&*topics.get(some[0].topic)?.name);
        Some(TopicPartitions { topic, partitions: some.iter().map(|p| p.number as i32).collect() })
    };
    sorted.chunk_by(|a, b| a.topic == b.topic).filter_map(of_topic).collect()
}
