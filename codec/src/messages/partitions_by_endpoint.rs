//! A list in heartbeat answers of a streams group: the endpoint of each member, with the member's
//! partitions. Many answers carry the same list, so it is encoded once.

use super::StreamsGroupEndpointPartitions;
use crate::field::{Field, Nullable, Version};
use crate::wire::{Reader, Result};
use std::sync::Arc;

/// An encoded list of [`StreamsGroupEndpointPartitions`]. All versions of StreamsGroupHeartbeat
/// encode it to the same bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionsByEndpoint(Arc<[u8]>);

const VERSION: Version = Version { number: 0, flexible: true };

impl PartitionsByEndpoint {
    pub fn new(list: &Vec<StreamsGroupEndpointPartitions<'_>>) -> Self {
        let mut bytes = Vec::new();
        list.write(&mut bytes, VERSION);
        Self(bytes.into())
    }

    /// Decodes the list.
    ///
    /// # Errors
    /// None in practice: the bytes are always an encoded list.
    pub fn list(&self) -> Result<Vec<StreamsGroupEndpointPartitions<'_>>> {
        Field::read(&mut Reader::new(&self.0), VERSION)
    }
}

impl Default for PartitionsByEndpoint {
    fn default() -> Self {
        Self::new(&Vec::new())
    }
}

impl<'a> Field<'a> for PartitionsByEndpoint {
    fn read(reader: &mut Reader<'a>, version: Version) -> Result<Self> {
        Vec::read(reader, version).map(|list| Self::new(&list))
    }

    fn write(&self, out: &mut Vec<u8>, _: Version) {
        out.extend_from_slice(&self.0);
    }

    fn held(&self) -> usize {
        self.0.len()
    }
}

impl<'a> Nullable<'a> for PartitionsByEndpoint {
    fn read_nullable(reader: &mut Reader<'a>, version: Version) -> Result<Option<Self>> {
        Ok(Vec::read_nullable(reader, version)?.map(|list| Self::new(&list)))
    }

    fn write_nullable(value: Option<&Self>, out: &mut Vec<u8>, version: Version) {
        match value {
            Some(list) => list.write(out, version),
            None => Vec::<StreamsGroupEndpointPartitions<'_>>::write_nullable(None, out, version),
        }
    }

    fn held_by(value: &Self) -> usize {
        value.held()
    }

    fn longest_string_of(_: &Self) -> usize {
        0
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for PartitionsByEndpoint {
    fn serialize<S: serde::Serializer>(
        &self,
        serializer: S,
    ) -> std::result::Result<S::Ok, S::Error> {
        let list = self.list().map_err(serde::ser::Error::custom)?;
        serde::Serialize::serialize(&list, serializer)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for PartitionsByEndpoint {
    fn deserialize<D: serde::Deserializer<'de>>(
        deserializer: D,
    ) -> std::result::Result<Self, D::Error> {
        let list = serde::Deserialize::deserialize(deserializer)?;
        Ok(Self::new(&list))
    }
}
