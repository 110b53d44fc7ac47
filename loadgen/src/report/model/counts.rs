//! The outcomes of commits, transactions and records.

use serde::{Deserialize, Serialize};

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Commits {
    pub accepted: u64,
    pub refused: u64,
    /// The number of commits that were sent, but never answered.
    pub unknown: u64,
    /// The number of offsets that were read back at the end, and compared.
    pub read_back: u64,
}

/// The number of transactions that ended, by outcome.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Transactions {
    pub committed: u64,
    /// Aborted because the scenario said so, or after an error.
    pub aborted: u64,
}

impl Transactions {
    pub fn are_none(&self) -> bool {
        *self == Self::default()
    }
}

/// Records of classic and consumer groups.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Consumed {
    /// The number of deliveries.
    pub delivered: u64,
    /// The number of deliveries of records that a member of the same group had already got.
    pub redelivered: u64,
}

impl Consumed {
    pub fn are_none(&self) -> bool {
        *self == Self::default()
    }
}

/// Records of share groups.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Shares {
    /// The number of deliveries.
    pub delivered: u64,
    /// The number of deliveries that were not the first of their record.
    pub redelivered: u64,
    pub accepted: u64,
    pub released: u64,
    pub rejected: u64,
    /// The number of acknowledgements that were refused.
    pub refused: u64,
    /// The number of acknowledgements that were never answered.
    pub unknown: u64,
    /// How evenly the records were spread over the members of each group.
    pub spread: Vec<Spread>,
}

/// How many records the members of a group got.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Spread {
    pub group: String,
    pub members: u64,
    pub min: u64,
    pub median: u64,
    pub max: u64,
    /// Jain's index: 1 if all members got equal numbers, 1/n if one of n members got all.
    pub fairness: f64,
}

impl Shares {
    pub fn are_none(&self) -> bool {
        *self == Self::default()
    }

    /// The group whose records were spread the least evenly.
    pub fn least_fair(&self) -> Option<&Spread> {
        self.spread.iter().min_by(|one, other| one.fairness.total_cmp(&other.fairness))
    }
}
