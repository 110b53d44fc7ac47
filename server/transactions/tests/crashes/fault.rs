//! Faults that a test injects, to show that the checks find them.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Partitions append without a question.
    UnaskedAppend,
    /// Partitions append after a positive verdict even if it came too late to count.
    StaleYes,
    /// Markers are sent before the decision is durable.
    EarlyMarker,
    /// Partitions acknowledge markers that they have not written.
    LostMarker,
    /// Partitions acknowledge syncs that they have not done.
    SkippedSync,
}

impl Fault {
    pub const ALL: [Self; 5] = [
        Self::UnaskedAppend,
        Self::StaleYes,
        Self::EarlyMarker,
        Self::LostMarker,
        Self::SkippedSync,
    ];
}
