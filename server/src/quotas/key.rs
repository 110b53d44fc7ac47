//! The rates that can have quotas.

use super::Entity;

/// A rate that can have a quota (Kafka's `QuotaConfig`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum QuotaKey {
    /// The share of a core's time for requests, in percent.
    RequestPercentage,
    /// Bytes of Produce requests per second.
    ProducerByteRate,
    /// Bytes of Fetch answers per second.
    ConsumerByteRate,
    /// Partitions per second that are created or deleted. They may be created with their topic or
    /// added to it later.
    ControllerMutationRate,
    /// New connections from an address per second.
    ConnectionCreationRate,
}

impl QuotaKey {
    /// All keys, in the order of Kafka's answers.
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

    /// Whether this quota can be set for an entity.
    pub fn is_of(self, entity: &Entity) -> bool {
        match entity {
            Entity::Ip(_) => self == Self::ConnectionCreationRate,
            Entity::User(_) | Entity::Client(_) | Entity::UserAndClient(..) => {
                self != Self::ConnectionCreationRate
            }
        }
    }

    /// If the quota must be an integer: Kafka's name of its type, and its largest value. Otherwise
    /// None.
    pub fn integer(self) -> Option<(&'static str, f64)> {
        match self {
            Self::ProducerByteRate | Self::ConsumerByteRate => Some(("a LONG", i64::MAX as f64)),
            Self::ConnectionCreationRate => Some(("an INT", f64::from(i32::MAX))),
            Self::RequestPercentage | Self::ControllerMutationRate => None,
        }
    }
}
