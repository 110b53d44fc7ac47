//! The protocols of groups.

use serde::Deserialize;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    Classic,
    Consumer,
    Share,
    Streams,
    /// A client without membership. It commits and fetches offsets of all partitions of its topics.
    Manual,
    #[serde(skip)]
    Producer,
    #[serde(skip)]
    Reader,
}

impl Protocol {
    /// Whether the clients are members of a group that rebalances.
    pub const fn has_members(self) -> bool {
        matches!(self, Self::Classic | Self::Consumer | Self::Share | Self::Streams)
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::Classic => "classic",
            Self::Consumer => "consumer",
            Self::Share => "share",
            Self::Streams => "streams",
            Self::Manual => "manual",
            Self::Producer => "producer",
            Self::Reader => "reader",
        }
    }
}
