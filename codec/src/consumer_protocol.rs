//! The metadata in JoinGroup and the assignment in SyncGroup, as consumers write them
//! (ConsumerProtocol in Kafka's clients): a 16-bit version, then the structure. In a classic group
//! the broker reads only the topics of the metadata.

use crate::declare::message;
use crate::field::{Field, Version};
use crate::types::{Bytes, Str};
use crate::wire::{Reader, Result, put_i16};

/// The protocol type of consumer groups. Members of such a group name their topics in the metadata.
pub const PROTOCOL_TYPE: &str = "consumer";

message! {
    /// A member's subscription, versions 0-3.
    pub struct ConsumerProtocolSubscription<'a> {
        topics: Vec<Str<'a>>, 0..;
        user_data: Option<Bytes<'a>>, 0..;
        owned_partitions: Vec<TopicPartitions<'a>>, 1..;
        generation_id: i32 = -1, 2..;
        rack_id: Option<Str<'a>>, 3..;
    }

    /// A member's assignment, versions 0-3.
    pub struct ConsumerProtocolAssignment<'a> {
        assigned_partitions: Vec<TopicPartitions<'a>>, 0..;
        user_data: Option<Bytes<'a>>, 0..;
    }

    pub struct TopicPartitions<'a> {
        topic: Str<'a>, 0..;
        partitions: Vec<i32>, 0..;
    }
}

const NEWEST: i16 = 3;

impl<'a> ConsumerProtocolSubscription<'a> {
    /// Reads a subscription. A version above the newest is read as the newest, as in Kafka.
    ///
    /// # Errors
    /// The bytes are not a subscription.
    pub fn read(bytes: &'a [u8]) -> Result<Self> {
        read_versioned(bytes)
    }

    pub fn write(&self, version: i16, out: &mut Vec<u8>) {
        write_versioned(self, version, out);
    }
}

impl<'a> ConsumerProtocolAssignment<'a> {
    /// Reads an assignment.
    ///
    /// # Errors
    /// The bytes are not an assignment.
    pub fn read(bytes: &'a [u8]) -> Result<Self> {
        read_versioned(bytes)
    }

    pub fn write(&self, version: i16, out: &mut Vec<u8>) {
        write_versioned(self, version, out);
    }
}

fn read_versioned<'a, T: Field<'a>>(bytes: &'a [u8]) -> Result<T> {
    let mut reader = Reader::new(bytes);
    let number = reader.i16()?.min(NEWEST);
    T::read(&mut reader, Version { number, flexible: false })
}

fn write_versioned<'a>(value: &impl Field<'a>, version: i16, out: &mut Vec<u8>) {
    put_i16(out, version);
    value.write(out, Version { number: version, flexible: false });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subscription_of_each_version_round_trips() {
        for version in 0..=NEWEST {
            let subscription = ConsumerProtocolSubscription {
                topics: vec!["orders".into()],
                rack_id: (version >= 3).then(|| "r0".into()),
                ..Default::default()
            };
            let mut out = Vec::new();
            subscription.write(version, &mut out);
            assert_eq!(ConsumerProtocolSubscription::read(&out), Ok(subscription));
        }
    }

    #[test]
    fn a_newer_version_is_read_as_the_newest() {
        let mut out = Vec::new();
        ConsumerProtocolSubscription::default().write(NEWEST, &mut out);
        out[1] = 9;
        assert!(ConsumerProtocolSubscription::read(&out).is_ok());
        assert!(ConsumerProtocolSubscription::read(&out[..1]).is_err());
    }
}
