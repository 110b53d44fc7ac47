//! The outcomes of commits, transactions and records.

use serde::{Deserialize, Serialize};

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Commits {
    pub accepted: u64,
    pub refused: u64,
    /// Sent, and never answered.
    pub unknown: u64,
    /// Offsets read back at the end, and compared.
    pub read_back: u64,
}

/// Transactions of producers that ended.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Transactions {
    pub committed: u64,
    /// As the scenario asked for, or after an error.
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
    /// All deliveries, and those that were not the first of their record in the group.
    pub delivered: u64,
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
    /// All deliveries, and those that were not the first of their record.
    pub delivered: u64,
    pub redelivered: u64,
    pub accepted: u64,
    pub released: u64,
    pub rejected: u64,
    /// Acknowledgements that were refused, and those that were never answered.
    pub refused: u64,
    pub unknown: u64,
    /// The spread in each group.
    pub spread: Vec<Spread>,
}

/// The records that each member of a group was delivered.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Spread {
    pub group: String,
    pub members: u64,
    pub min: u64,
    pub median: u64,
    pub max: u64,
    /// Jain's index: 1 if all had the same number, 1/n if one of n had all.
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
