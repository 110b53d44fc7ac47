//! The first bytes on a connection, in both directions: which node is at the other end, and whether
//! it may be a node of the same cluster. `FORMAT.md` has the fields.
//!
//! The node that dialled says hello first, and the other one answers with its own hello. Both check
//! what the other said. So both know of a difference, and both can name it in their logs.

use crate::refusal::Refusal;
use bytes::Bytes;
use muster_codec::Uuid;
use muster_codec::wire::{DecodeError, Reader};
use muster_replication::{NodeId, Session};

/// The longest hello, in any version of the protocol.
pub const HELLO_BYTES_MAX: usize = 4 << 10;

/// The version of the protocol between nodes: of the hello and of the frames.
pub const PROTOCOL_VERSION: u16 = 1;

/// The first bytes of a hello.
pub const HELLO_MAGIC: [u8; 6] = *b"muster";

/// Magic, version, length and checksum. They stay the same in all versions.
pub const HELLO_PREFIX_BYTES: usize = 14;

/// The most bytes of a cluster id. Kafka's have 22.
pub const CLUSTER_ID_BYTES_MAX: usize = 64;

/// The most bytes of the addresses for clients.
pub const CLIENTS_BYTES_MAX: usize = 3 << 10;

/// The most shards of a node. Broker ids have room for as many.
pub const SHARDS_MAX: u16 = 1_000;

/// The properties of a shard and its node that decide whether it may work with another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Empty if the node is not part of a cluster yet.
    pub cluster: String,
    pub node: NodeId,
    /// The process.
    pub session: Session,
    pub directory: Uuid,
    pub shard: u16,
    /// The number of the node's shards.
    pub shards: u16,
    /// `offsets.topic.num.partitions`
    pub slots: u32,
    /// `transaction.state.log.num.partitions`
    pub transactions_partitions: u32,
    /// `controller.quorum.election.timeout.ms`. The time for which a deposed leader may answer, and
    /// the time for which a new one waits, follow from it.
    pub election_timeout_ms: u32,
    /// The level of the release: its records and messages.
    pub features: u32,
    /// The addresses of the node for clients. This crate does not read them.
    pub clients: Bytes,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    pub from: Identity,
    /// The node and the shard that the sender means.
    pub to: (NodeId, u16),
    /// In an answer: the number of the reason why the connection is refused, or 0.
    pub refusal: u8,
}

impl Hello {
    /// # Panics
    /// If the cluster id has more than [`CLUSTER_ID_BYTES_MAX`] bytes, or others than printable
    /// ASCII; or if the addresses for clients have more than [`CLIENTS_BYTES_MAX`] bytes.
    pub fn write(&self) -> Vec<u8> {
        let Self { from, to, refusal } = self;
        let cluster = &from.cluster;
        assert!(is_cluster_id(cluster.as_bytes()), "no cluster has the id {cluster:?}");
        assert!(from.clients.len() <= CLIENTS_BYTES_MAX, "too many addresses for clients");
        let mut rest = vec![*refusal];
        rest.extend(from.node.0.to_be_bytes());
        rest.extend(from.shard.to_be_bytes());
        rest.extend(from.shards.to_be_bytes());
        rest.extend(to.0.0.to_be_bytes());
        rest.extend(to.1.to_be_bytes());
        rest.extend(from.session.0.to_be_bytes());
        rest.extend(from.directory.0);
        rest.extend(from.slots.to_be_bytes());
        rest.extend(from.transactions_partitions.to_be_bytes());
        rest.extend(from.election_timeout_ms.to_be_bytes());
        rest.extend(from.features.to_be_bytes());
        rest.push(from.cluster.len() as u8);
        rest.extend(from.cluster.as_bytes());
        rest.extend((from.clients.len() as u16).to_be_bytes());
        rest.extend(&from.clients);
        let mut bytes = HELLO_MAGIC.to_vec();
        bytes.extend(PROTOCOL_VERSION.to_be_bytes());
        bytes.extend((rest.len() as u16).to_be_bytes());
        let checksum = crc32c::crc32c_append(crc32c::crc32c(&bytes), &rest);
        bytes.extend(checksum.to_be_bytes());
        bytes.extend(rest);
        bytes
    }

    /// Reads what follows the prefix.
    fn read(rest: &[u8]) -> Result<Self, DecodeError> {
        fn u16_of(reader: &mut Reader<'_>) -> Result<u16, DecodeError> {
            reader.array().map(u16::from_be_bytes)
        }
        fn u32_of(reader: &mut Reader<'_>) -> Result<u32, DecodeError> {
            reader.array().map(u32::from_be_bytes)
        }
        let reader = &mut Reader::new(rest);
        let refusal = reader.u8()?;
        let (node, shard, shards) = (NodeId(u16_of(reader)?), u16_of(reader)?, u16_of(reader)?);
        let to = (NodeId(u16_of(reader)?), u16_of(reader)?);
        let session = Session(reader.array().map(u64::from_be_bytes)?);
        let directory = Uuid(reader.array()?);
        let slots = u32_of(reader)?;
        let transactions_partitions = u32_of(reader)?;
        let election_timeout_ms = u32_of(reader)?;
        let features = u32_of(reader)?;
        let length = usize::from(reader.u8()?);
        let cluster = reader.take(length)?;
        let length = usize::from(u16_of(reader)?);
        let clients = reader.take(length)?;
        // It is written to the log, whoever has sent it.
        let is_shard = shard < shards && shards <= SHARDS_MAX;
        let is_whole = clients.len() <= CLIENTS_BYTES_MAX && reader.remaining() == 0;
        let is_valid = is_cluster_id(cluster) && is_whole && is_shard;
        let cluster = std::str::from_utf8(cluster).ok().filter(|_| is_valid);
        let cluster = cluster.ok_or(DecodeError::LengthTooLong)?.to_owned();
        let from = Identity {
            cluster,
            node,
            session,
            directory,
            shard,
            shards,
            slots,
            transactions_partitions,
            election_timeout_ms,
            features,
            clients: Bytes::copy_from_slice(clients),
        };
        Ok(Self { from, to, refusal })
    }
}

/// Whether a cluster may have this id: printable ASCII without spaces. Kafka's ids are in base64.
fn is_cluster_id(id: &[u8]) -> bool {
    id.len() <= CLUSTER_ID_BYTES_MAX && id.iter().all(u8::is_ascii_graphic)
}

/// Puts a hello together. The bytes arrive in pieces.
#[derive(Debug, Default)]
pub struct HelloBytes(Vec<u8>);

impl HelloBytes {
    /// Takes bytes off the front of `input`, up to the end of the hello. None if it needs more
    /// bytes than there are.
    ///
    /// # Errors
    /// The bytes are no hello of this version. No further call is useful.
    pub fn take(&mut self, input: &mut &[u8]) -> Result<Option<Hello>, Refusal> {
        self.take_up_to(HELLO_PREFIX_BYTES, input);
        let magic = self.0.len().min(HELLO_MAGIC.len());
        if self.0[..magic] != HELLO_MAGIC[..magic] {
            return Err(Refusal::NotMuster);
        }
        let Some(prefix) = self.0.first_chunk::<HELLO_PREFIX_BYTES>() else { return Ok(None) };
        let version = u16::from_be_bytes([prefix[6], prefix[7]]);
        if version != PROTOCOL_VERSION {
            return Err(Refusal::Version { theirs: version, own: PROTOCOL_VERSION });
        }
        let length = usize::from(u16::from_be_bytes([prefix[8], prefix[9]]));
        let checksum = u32::from_be_bytes([prefix[10], prefix[11], prefix[12], prefix[13]]);
        let whole = HELLO_PREFIX_BYTES + length;
        if whole > HELLO_BYTES_MAX {
            return Err(Refusal::Damaged);
        }
        self.take_up_to(whole, input);
        if self.0.len() < whole {
            return Ok(None);
        }
        let (prefix, rest) = self.0.split_at(HELLO_PREFIX_BYTES);
        if crc32c::crc32c_append(crc32c::crc32c(&prefix[..10]), rest) != checksum {
            return Err(Refusal::Damaged);
        }
        Hello::read(rest).map(Some).map_err(|_| Refusal::Damaged)
    }

    fn take_up_to(&mut self, whole: usize, input: &mut &[u8]) {
        let missing = whole.saturating_sub(self.0.len());
        let (piece, rest) = input.split_at(missing.min(input.len()));
        self.0.extend_from_slice(piece);
        *input = rest;
    }
}

#[cfg(test)]
mod tests;
