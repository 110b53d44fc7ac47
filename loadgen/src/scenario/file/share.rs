//! The keys of the members of share groups.

use std::time::Duration;

use serde::Deserialize;

use crate::plan::{AcknowledgeBy, Acquire, Poison, PoisonIs, SharePlan};
use crate::scenario::values::{Amount, Span};

/// How members process the records that they acquire, and the configs of their group.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Share {
    pub acquire: Acquire,
    pub acknowledge: AcknowledgeBy,
    pub max_records: u32,
    /// How long a member takes to process the records of a fetch.
    pub takes: Option<Span>,
    /// The share of members that are slow. They take `slow_takes`, instead of `takes`.
    pub slow: Option<Amount>,
    pub slow_takes: Option<Span>,
    /// One of every `poison` records cannot be processed. With 0 all records can be processed.
    pub poison: u32,
    pub poison_is: PoisonIs,
    /// Configs of the group.
    pub delivery_limit: u32,
    pub lock: Span,
}

impl Default for Share {
    fn default() -> Self {
        Self {
            acquire: Acquire::default(),
            acknowledge: AcknowledgeBy::default(),
            max_records: 500,
            takes: None,
            slow: None,
            slow_takes: None,
            poison: 0,
            poison_is: PoisonIs::default(),
            delivery_limit: 5,
            lock: Span::from_secs(30),
        }
    }
}

impl Share {
    pub(in crate::scenario) fn plan(&self) -> SharePlan {
        let span = |span: Option<Span>| span.map_or(Duration::ZERO, |span| span.0);
        let slow = match self.slow {
            Some(Amount::Share(share)) => share,
            Some(Amount::Count(_)) | None => 0.0,
        };
        let (one_in, how) = (self.poison, self.poison_is);
        SharePlan {
            acquire: self.acquire,
            acknowledge: self.acknowledge,
            max_records: self.max_records,
            takes: span(self.takes),
            slow: (slow * 1e6).round() as u32,
            slow_takes: span(self.slow_takes),
            poison: (one_in > 0).then_some(Poison { one_in, how }),
            delivery_limit: self.delivery_limit,
        }
    }

    /// The configs to set for the group: the configs of this table, and `share.auto.offset.reset`,
    /// so that members read from the first record on.
    pub(in crate::scenario) fn configs(&self) -> Vec<(String, String)> {
        let configs = [
            ("share.auto.offset.reset", "earliest".to_owned()),
            ("share.delivery.count.limit", self.delivery_limit.to_string()),
            ("share.record.lock.duration.ms", self.lock.0.as_millis().to_string()),
        ];
        configs.map(|(name, value)| (name.to_owned(), value)).into()
    }
}
