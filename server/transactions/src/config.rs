//! The configs that the coordinator reads, with Kafka's names, units and defaults.

/// The comment of each field names its config in Kafka's `TransactionStateManagerConfig` or
/// `AddPartitionsToTxnConfig`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// `transaction.max.timeout.ms`
    pub transaction_max_timeout_ms: i32,
    /// `transactional.id.expiration.ms`
    pub transactional_id_expiration_ms: i64,
    /// `transaction.abort.timed.out.transaction.cleanup.interval.ms`
    pub abort_timed_out_interval_ms: i64,
    /// `transaction.remove.expired.transaction.cleanup.interval.ms`
    pub remove_expired_interval_ms: i64,
    /// `transaction.two.phase.commit.enable`
    pub two_phase_commit_enable: bool,
    /// `add.partitions.to.txn.retry.backoff.max.ms`: how long a request waits for the reports of
    /// slots or for a producer id. A request whose epoch does not identify its transaction also
    /// waits for the end of the id's transaction. Kafka's clients and brokers retry instead.
    pub retry_backoff_max_ms: i64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            transaction_max_timeout_ms: 900_000,
            transactional_id_expiration_ms: 604_800_000,
            abort_timed_out_interval_ms: 10_000,
            remove_expired_interval_ms: 3_600_000,
            two_phase_commit_enable: false,
            retry_backoff_max_ms: 100,
        }
    }
}
