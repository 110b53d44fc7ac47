//! The limits of a coordinator, which hold for all requests. Kafka has none of them, except that a
//! record must fit into `max.message.bytes`. Beyond a limit a client gets the nearest error of the
//! protocol.

/// Transactional ids of a coordinator. Beyond it, InitProducerId with a new id gets
/// COORDINATOR_NOT_AVAILABLE. The caller has another limit for all coordinators of a shard
/// ([`crate::Admission`]).
pub const IDS_MAX: usize = 1_000_000;

/// Bytes of the partitions of a transaction in its record: as many as fit into Kafka's default
/// `max.message.bytes`. Beyond it: UNKNOWN_SERVER_ERROR, as in Kafka.
pub const TRANSACTION_BYTES_MAX: usize = 1 << 20;

/// Bytes of the lists of partitions of all open transactions. Beyond this limit, adding a partition
/// gets COORDINATOR_NOT_AVAILABLE, which clients retry.
pub const OPEN_BYTES_MAX: usize = 64 << 20;

/// Parked requests and questions, and the bytes of the partitions in them. Beyond these limits a
/// request is answered at once with Kafka's error: CONCURRENT_TRANSACTIONS if it would wait for the
/// end of a transaction, else COORDINATOR_LOAD_IN_PROGRESS.
pub const WAITING_MAX: usize = 1_024;
pub const WAITING_BYTES_MAX: usize = 1 << 20;

/// How long a request waits for the end of the previous transaction, whose markers may wait for the
/// disk, if the request's epoch identifies its own transaction (Produce, TxnOffsetCommit, EndTxn).
/// An error would only make the client wait and retry, and Kafka's clients wait for 30 s. Other
/// requests wait less: after a long wait such a request might change the transaction that follows
/// its own (KAFKA-17754).
pub const TRANSACTION_WAIT_MS: i64 = 10_000;

/// The time after which an unanswered message is sent again. It need not be short, because the
/// channels between shards lose no messages.
pub const RESEND_MS: i64 = 1_000;

/// The most ids that one call of `expire` visits; it writes about as many records at most. The next
/// call continues with the next ids. In between, clients are served.
pub const EXPIRE_IDS_MAX: usize = 1_024;

/// The most commits of an id that are kept for offline partitions. Each time a slot is loaded with
/// offline partitions, one more commit may have to be kept; only the newest ones are.
pub const KEPT_COMMITS_MAX: usize = 16;

const _: () = assert!(TRANSACTION_BYTES_MAX <= WAITING_BYTES_MAX);
const _: () = assert!(WAITING_BYTES_MAX <= OPEN_BYTES_MAX);
