//! The rules of the topics in a shard's log. The caller gives each topic a number and a rule; the
//! log knows nothing else of them.

/// The topics that a log may have records of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TopicRules(&'static [TopicRule]);

/// The rule of one topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopicRule {
    /// The topic's number in a block.
    pub number: u8,
    /// Whether its operations wait for others ([`LogConfig::linger_ms`](crate::LogConfig)).
    pub lingers: bool,
    pub keys: KeyRule,
}

/// Which older records a record displaces when the log is compacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyRule {
    /// All records of the same key.
    SameKey,
    /// Keys begin with a type, and keys that differ by the type alone are of the same state. A
    /// snapshot has the whole state, so it displaces the snapshots and the updates before it. So
    /// does a tombstone with the key of a snapshot. An update adds to the records before it, and
    /// displaces none.
    SnapshotsAndUpdates { snapshot: [u8; 2], update: [u8; 2] },
}

impl TopicRules {
    pub const fn new(rules: &'static [TopicRule]) -> Self {
        Self(rules)
    }

    /// The rule of a topic; None if the log may have no records of it.
    pub(crate) fn get(self, number: u8) -> Option<&'static TopicRule> {
        self.0.iter().find(|rule| rule.number == number)
    }

    /// The rule of a topic of which the log has accepted or read a record.
    ///
    /// # Panics
    /// If there is none.
    pub(crate) fn of(self, number: u8) -> &'static TopicRule {
        self.get(number).unwrap_or_else(|| panic!("topic {number} has no rule"))
    }
}

impl KeyRule {
    /// Whether a record with this key displaces none.
    pub(crate) fn is_update(&self, key: &[u8]) -> bool {
        match self {
            Self::SameKey => false,
            Self::SnapshotsAndUpdates { update, .. } => key.starts_with(update),
        }
    }

    /// The key by which a record is compared, in two parts: of an update, the key of its snapshot.
    pub(crate) fn compared<'k>(&'k self, key: &'k [u8]) -> [&'k [u8]; 2] {
        match self {
            Self::SnapshotsAndUpdates { snapshot, update } => match key.strip_prefix(update) {
                Some(rest) => [snapshot, rest],
                None => [&[], key],
            },
            Self::SameKey => [&[], key],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_updates_have_the_key_of_another_record() {
        let both = KeyRule::SnapshotsAndUpdates { snapshot: [0, 0], update: [0, 1] };
        for (rule, key, expected) in [
            (both, &[0, 1, 9][..], &[0, 0, 9][..]),
            (both, &[0, 1], &[0, 0]),
            (both, &[0, 0, 9], &[0, 0, 9]),
            (both, &[0, 2, 9], &[0, 2, 9]),
            (both, &[1, 9], &[1, 9]),
            (both, &[0], &[0]),
            (both, &[], &[]),
            (KeyRule::SameKey, &[0, 1, 9], &[0, 1, 9]),
        ] {
            assert_eq!(rule.compared(key).concat(), expected, "{rule:?} {key:?}");
            assert_eq!(rule.is_update(key), key != expected, "{rule:?} {key:?}");
        }
    }
}
