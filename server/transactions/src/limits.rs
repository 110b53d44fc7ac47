//! The limits of a coordinator, whatever clients ask for. Kafka has none of them; past a limit a
//! client gets the nearest error of the protocol.

/// Transactional ids of a coordinator. Past it InitProducerId of a new one gets
/// COORDINATOR_NOT_AVAILABLE. The limit that the coordinators of a shard share is the caller's
/// ([`crate::Admission`]).
pub const IDS_MAX: usize = 1_000_000;

/// Bytes of the partitions of a transaction in its record: as many as fit into Kafka's default
/// `max.message.bytes`. Past it: UNKNOWN_SERVER_ERROR, as Kafka answers then.
pub const TRANSACTION_BYTES_MAX: usize = 1 << 20;

/// Bytes of the partitions of all open transactions. Past it a partition that is added gets
/// COORDINATOR_NOT_AVAILABLE, and is retried.
pub const OPEN_BYTES_MAX: usize = 64 << 20;

/// Requests and questions that wait for the end of a transaction, and the bytes of the partitions
/// that they name. Past it they are answered at once, as by Kafka: CONCURRENT_TRANSACTIONS.
pub const WAITING_MAX: usize = 1_024;
pub const WAITING_BYTES_MAX: usize = 1 << 20;

/// How long a request of a client with an epoch for each transaction waits for the end of the one
/// before, whose markers may wait for the disk: Produce, TxnOffsetCommit, EndTxn. The client has
/// nothing else to do, and an error would cost it a back-off on top; Kafka's clients wait for 30 s.
/// Other clients do not name a transaction: a request that waited for longer than its client might
/// change the next one (KAFKA-17754).
pub const TRANSACTION_WAIT_MS: i64 = 10_000;

/// The time after which a message that was not answered is sent again. Channels between shards lose
/// none.
pub const RESEND_MS: i64 = 1_000;

/// Ids looked at, and records written, by one call of `expire`; the next call does the rest, so
/// that clients do not wait for long.
pub const EXPIRE_IDS_MAX: usize = 1_024;

/// Commits of an id that are kept for partitions that are offline: one for each load that found
/// some, of which the last ones are kept.
pub const KEPT_COMMITS_MAX: usize = 16;

const _: () = assert!(TRANSACTION_BYTES_MAX <= WAITING_BYTES_MAX);
const _: () = assert!(WAITING_BYTES_MAX <= OPEN_BYTES_MAX);
