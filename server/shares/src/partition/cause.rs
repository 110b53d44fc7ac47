//! The reason why a record goes to the dead letter queue.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    Rejected,
    DeliveryLimit,
}

impl Cause {
    /// Kafka's text, for the header `__dlq.errors.message`.
    pub fn words(self) -> &'static str {
        match self {
            Self::Rejected => "Offset rejected by client.",
            Self::DeliveryLimit => "Offset delivery count exceeded the threshold.",
        }
    }
}
