//! The rates that have quotas.

use super::Entity;

/// A rate that may have a quota (`QuotaConfig`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum QuotaKey {
    /// The part of a core's time that requests take, in percent.
    RequestPercentage,
    /// Bytes of Produce requests in a second.
    ProducerByteRate,
    /// Bytes of Fetch answers in a second.
    ConsumerByteRate,
    /// Partitions and topics that are created, added and deleted in a second.
    ControllerMutationRate,
    /// New connections of an address in a second.
    ConnectionCreationRate,
}

impl QuotaKey {
    /// In the order of Kafka's answers.
    pub const ALL: [Self; 5] = [
        Self::RequestPercentage,
        Self::ProducerByteRate,
        Self::ConsumerByteRate,
        Self::ControllerMutationRate,
        Self::ConnectionCreationRate,
    ];

    /// Kafka's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::ProducerByteRate => "producer_byte_rate",
            Self::ConsumerByteRate => "consumer_byte_rate",
            Self::RequestPercentage => "request_percentage",
            Self::ControllerMutationRate => "controller_mutation_rate",
            Self::ConnectionCreationRate => "connection_creation_rate",
        }
    }

    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|key| key.name() == name)
    }

    /// Whether an entity may have it.
    pub fn is_of(self, entity: &Entity) -> bool {
        match entity {
            Entity::Ip(_) => self == Self::ConnectionCreationRate,
            Entity::User(_) | Entity::Client(_) | Entity::UserAndClient(..) => {
                self != Self::ConnectionCreationRate
            }
        }
    }

    /// The greatest value of an integer, with Kafka's word for its type; None for any number.
    pub fn integer(self) -> Option<(&'static str, f64)> {
        match self {
            Self::ProducerByteRate | Self::ConsumerByteRate => Some(("a LONG", i64::MAX as f64)),
            Self::ConnectionCreationRate => Some(("an INT", f64::from(i32::MAX))),
            Self::RequestPercentage | Self::ControllerMutationRate => None,
        }
    }
}
