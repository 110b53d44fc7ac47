//! The bytes that members of a classic group exchange through the coordinator: ConsumerProtocol's
//! Subscription and Assignment with their version in front, and the user data of sticky members.
//!
//! Other members may be any clients: each length is checked against the bytes before
//! `kafka-protocol` decodes them, because it reserves memory for any claimed length.

use std::sync::Arc;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use kafka_protocol::messages::TopicName;
use kafka_protocol::messages::consumer_protocol_assignment::{
    ConsumerProtocolAssignment, TopicPartition as AssignedTopic,
};
use kafka_protocol::messages::consumer_protocol_subscription::{
    ConsumerProtocolSubscription, TopicPartition as OwnedTopic,
};
use kafka_protocol::messages::join_group_response::JoinGroupResponseMember;
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::protocol::{Decodable, Encodable, Message, StrBytes};

use super::{MemberSubscription, NO_GENERATION, assign};
use crate::plan::{ClassicAssignor, Partition, TopicIndex};
use crate::topics::Topics;

/// Why bytes of the consumer protocol can't be read or written.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ProtocolError {
    #[error("the {0} of the consumer protocol is malformed")]
    Malformed(&'static str),
    #[error("the {0} of the consumer protocol has the unknown version {1}")]
    Version(&'static str, i16),
    #[error("the assignment names the topic {0:?}, which this run does not have")]
    UnknownTopic(StrBytes),
    #[error("the {0} of the consumer protocol can't be encoded: {1}")]
    Encode(&'static str, String),
    #[error("the metadata of the member {0:?}: {1}")]
    Member(StrBytes, Box<Self>),
}

/// The metadata that a member joins with.
#[derive(Clone, Copy, Debug)]
pub struct Joining<'a> {
    pub topics: &'a [TopicIndex],
    /// The partitions that it owns; for [`ClassicAssignor::Sticky`] its last assignment, though it
    /// has given that up. Range and round-robin do not send them.
    pub owned: &'a [Partition],
    /// The generation of `owned`, or [`NO_GENERATION`].
    pub generation: i32,
    pub rack: Option<&'a StrBytes>,
}

/// The metadata of a protocol in JoinGroup, as Kafka's Java client encodes it (version 3).
pub fn join_metadata(
    assignor: ClassicAssignor,
    joining: &Joining<'_>,
    topics: &Topics,
) -> Result<Bytes, ProtocolError> {
    let mut names: Vec<StrBytes> = joining
        .topics
        .iter()
        .filter_map(|index| topics.get(*index).map(|topic| topic.name.clone()))
        .collect();
    names.sort_unstable();
    let owned = if assignor.is_cooperative() { joining.owned } else { &[] };
    let subscription = ConsumerProtocolSubscription::default()
        .with_topics(names)
        .with_user_data(user_data(assignor, joining, topics)?)
        .with_owned_partitions(by_topic(owned, topics, owned_topic))
        .with_generation_id(joining.generation)
        .with_rack_id(joining.rack.cloned());
    versioned("subscription", &subscription)
}

/// The assignment in SyncGroup's answer, in the order of topic and number.
pub fn read_assignment(bytes: &Bytes, topics: &Topics) -> Result<Vec<Partition>, ProtocolError> {
    const WHAT: &str = "assignment";
    let (version, mut body) = version_of(WHAT, bytes)?;
    Unread(&body).assignment().ok_or(ProtocolError::Malformed(WHAT))?;
    let assignment = ConsumerProtocolAssignment::decode(&mut body, version)
        .map_err(|_| ProtocolError::Malformed(WHAT))?;
    let mut partitions = Vec::new();
    for topic in assignment.assigned_partitions {
        let Some(index) = topics.named(&topic.topic) else {
            return Err(ProtocolError::UnknownTopic(topic.topic.0));
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

/// The task of the leader between JoinGroup's answer and SyncGroup's request. As in Kafka's
/// clients, metadata of any member that can't be decoded is an error.
pub fn lead(
    assignor: ClassicAssignor,
    members: &[JoinGroupResponseMember],
    topics: &Topics,
) -> Result<Vec<SyncGroupRequestAssignment>, ProtocolError> {
    let mut reader = Reader::new(assignor, topics);
    let subscriptions =
        members.iter().map(|member| reader.member(member)).collect::<Result<Vec<_>, _>>()?;
    let assignments = assign(assignor, &subscriptions, topics);
    let named = members.iter().zip(assignments);
    named
        .map(|(member, assignment)| {
            Ok(SyncGroupRequestAssignment::default()
                .with_member_id(member.member_id.clone())
                .with_assignment(assignment_bytes(&assignment, topics)?))
        })
        .collect()
}

/// The bytes of one member's assignment in SyncGroup.
pub fn assignment_bytes(assignment: &[Partition], topics: &Topics) -> Result<Bytes, ProtocolError> {
    let assignment = ConsumerProtocolAssignment::default().with_assigned_partitions(by_topic(
        assignment,
        topics,
        assigned_topic,
    ));
    versioned("assignment", &assignment)
}

/// Decodes the metadata of the members of a group. Topics that the run does not have are left out:
/// the leader does not know their partitions.
#[derive(Debug)]
pub struct Reader<'a> {
    assignor: ClassicAssignor,
    topics: &'a Topics,
    /// The topics of the last member: thousands of members may have, and then share, the same.
    last: Option<(Vec<StrBytes>, Arc<[TopicIndex]>)>,
}

impl<'a> Reader<'a> {
    pub const fn new(assignor: ClassicAssignor, topics: &'a Topics) -> Self {
        Self { assignor, topics, last: None }
    }

    /// The metadata of a member in JoinGroup's answer.
    pub fn member(
        &mut self,
        member: &JoinGroupResponseMember,
    ) -> Result<MemberSubscription, ProtocolError> {
        let subscription = read_subscription(&member.metadata)
            .map_err(|e| ProtocolError::Member(member.member_id.clone(), Box::new(e)))?;
        let (owned, generation) = self.past(&subscription);
        Ok(MemberSubscription {
            member_id: member.member_id.clone(),
            instance_id: member.group_instance_id.clone(),
            topics: self.indices(subscription.topics),
            owned,
            generation,
        })
    }

    /// The partitions that the member owns, and their generation, from the fields that `memberData`
    /// of Kafka's assignors uses. As there, user data that can't be decoded counts as none.
    fn past(&self, subscription: &ConsumerProtocolSubscription) -> (Vec<Partition>, i32) {
        let user_data = subscription.user_data.as_ref();
        match self.assignor {
            ClassicAssignor::Range | ClassicAssignor::RoundRobin => (Vec::new(), NO_GENERATION),
            ClassicAssignor::Sticky => {
                let (owned, generation) =
                    user_data.and_then(read_sticky).unwrap_or((Vec::new(), NO_GENERATION));
                (self.partitions(&owned), generation)
            }
            ClassicAssignor::CooperativeSticky => {
                let in_user_data = || user_data.and_then(|data| Unread(data).i32());
                let generation = match subscription.generation_id {
                    NO_GENERATION => in_user_data().unwrap_or(NO_GENERATION),
                    generation => generation,
                };
                (self.partitions(&subscription.owned_partitions), generation)
            }
        }
    }

    fn indices(&mut self, names: Vec<StrBytes>) -> Arc<[TopicIndex]> {
        if let Some((last, indices)) = &self.last
            && *last == names
        {
            return indices.clone();
        }
        let mut indices: Vec<TopicIndex> =
            names.iter().filter_map(|name| self.topics.named(name)).collect();
        indices.sort_unstable();
        let indices: Arc<[TopicIndex]> = indices.into();
        self.last = Some((names, indices.clone()));
        indices
    }

    fn partitions(&self, owned: &[OwnedTopic]) -> Vec<Partition> {
        let mut partitions = Vec::new();
        for topic in owned {
            let Some(index) = self.topics.named(&topic.topic) else { continue };
            let numbers = topic.partitions.iter().filter_map(|number| u32::try_from(*number).ok());
            partitions.extend(numbers.map(|number| Partition { topic: index, number }));
        }
        partitions
    }
}

fn read_subscription(bytes: &Bytes) -> Result<ConsumerProtocolSubscription, ProtocolError> {
    const WHAT: &str = "subscription";
    let (version, mut body) = version_of(WHAT, bytes)?;
    Unread(&body).subscription(version).ok_or(ProtocolError::Malformed(WHAT))?;
    ConsumerProtocolSubscription::decode(&mut body, version)
        .map_err(|_| ProtocolError::Malformed(WHAT))
}

/// The version to decode with, and the body. A newer version than ours is decoded as ours, as in
/// Kafka: later versions only add fields at the end.
fn version_of(what: &'static str, bytes: &Bytes) -> Result<(i16, Bytes), ProtocolError> {
    let mut body = bytes.clone();
    if body.len() < 2 {
        return Err(ProtocolError::Malformed(what));
    }
    let version = body.get_i16();
    if version < 0 {
        return Err(ProtocolError::Version(what, version));
    }
    Ok((version.min(ConsumerProtocolSubscription::VERSIONS.max), body))
}

fn versioned<M: Encodable + Message>(
    what: &'static str,
    message: &M,
) -> Result<Bytes, ProtocolError> {
    let version = M::VERSIONS.max;
    let mut bytes = BytesMut::new();
    bytes.put_i16(version);
    let encoded = message.encode(&mut bytes, version);
    encoded.map_err(|e| ProtocolError::Encode(what, e.to_string()))?;
    Ok(bytes.freeze())
}

/// `StickyAssignor`: the last assignment and its generation. `CooperativeStickyAssignor`: the
/// generation, for leaders that read subscriptions below version 2.
fn user_data(
    assignor: ClassicAssignor,
    joining: &Joining<'_>,
    topics: &Topics,
) -> Result<Option<Bytes>, ProtocolError> {
    let mut data = BytesMut::new();
    match assignor {
        ClassicAssignor::Range | ClassicAssignor::RoundRobin => return Ok(None),
        ClassicAssignor::Sticky if joining.generation == NO_GENERATION => return Ok(None),
        ClassicAssignor::Sticky => {
            let owned = by_topic(joining.owned, topics, owned_topic);
            data.put_i32(owned.len() as i32);
            for topic in owned {
                let encoded = topic.encode(&mut data, PREVIOUS_ASSIGNMENT);
                encoded.map_err(|e| ProtocolError::Encode("user data", e.to_string()))?;
            }
        }
        ClassicAssignor::CooperativeSticky => {}
    }
    data.put_i32(joining.generation);
    Ok(Some(data.freeze()))
}

/// The version of ConsumerProtocolSubscription in which an owned topic has the layout of a topic in
/// the sticky assignor's user data: a string and an array of int32.
const PREVIOUS_ASSIGNMENT: i16 = 1;

/// The user data has the generation since its version 1.
fn read_sticky(data: &Bytes) -> Option<(Vec<OwnedTopic>, i32)> {
    let mut unread = Unread(data);
    unread.topic_partitions()?;
    let mut data = data.clone();
    let owned = (0..data.get_i32()).map(|_| OwnedTopic::decode(&mut data, PREVIOUS_ASSIGNMENT));
    Some((owned.collect::<Result<_, _>>().ok()?, unread.i32().unwrap_or(NO_GENERATION)))
}

fn owned_topic(name: TopicName, partitions: Vec<i32>) -> OwnedTopic {
    OwnedTopic::default().with_topic(name).with_partitions(partitions)
}

fn assigned_topic(name: TopicName, partitions: Vec<i32>) -> AssignedTopic {
    AssignedTopic::default().with_topic(name).with_partitions(partitions)
}

fn by_topic<T>(
    partitions: &[Partition],
    topics: &Topics,
    make: impl Fn(TopicName, Vec<i32>) -> T,
) -> Vec<T> {
    let mut sorted = partitions.to_vec();
    sorted.sort_unstable();
    sorted
        .chunk_by(|a, b| a.topic == b.topic)
        .filter_map(|of_topic| {
            let name = topics.get(of_topic[0].topic)?.name.clone();
            Some(make(TopicName(name), of_topic.iter().map(|p| p.number as i32).collect()))
        })
        .collect()
}

/// Walks bytes by their lengths alone; `None` if one is negative or exceeds the bytes.
struct Unread<'a>(&'a [u8]);

impl Unread<'_> {
    fn subscription(&mut self, version: i16) -> Option<()> {
        self.array(2, Self::string)?;
        self.nullable_bytes()?;
        if version >= 1 {
            self.topic_partitions()?;
        }
        Some(())
    }

    fn assignment(&mut self) -> Option<()> {
        self.topic_partitions()?;
        self.nullable_bytes()
    }

    fn topic_partitions(&mut self) -> Option<()> {
        self.array(6, |topic| {
            topic.string()?;
            topic.array(4, |number| number.i32().map(drop))
        })
    }

    /// `smallest` is the minimum of bytes of an element.
    fn array(&mut self, smallest: usize, each: impl Fn(&mut Self) -> Option<()>) -> Option<()> {
        let elements = usize::try_from(self.i32()?).ok()?;
        if elements.checked_mul(smallest)? > self.0.len() {
            return None;
        }
        (0..elements).try_for_each(|_| each(self))
    }

    fn string(&mut self) -> Option<()> {
        let length = i16::from_be_bytes(self.take(2)?.try_into().ok()?);
        self.take(usize::try_from(length).ok()?).map(drop)
    }

    fn nullable_bytes(&mut self) -> Option<()> {
        match self.i32()? {
            -1 => Some(()),
            length => self.take(usize::try_from(length).ok()?).map(drop),
        }
    }

    fn i32(&mut self) -> Option<i32> {
        Some(i32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    fn take(&mut self, length: usize) -> Option<&[u8]> {
        let (taken, left) = self.0.split_at_checked(length)?;
        self.0 = left;
        Some(taken)
    }
}
