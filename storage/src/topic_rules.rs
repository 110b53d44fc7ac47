//! The rules of the topics in a shard's log. The caller gives each topic a number and a rule; the
//! log knows nothing else about topics.

/// The rules of all topics whose records a log may contain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TopicRules(&'static [TopicRule]);

/// The rule of one topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopicRule {
    /// The number that stands for the topic in blocks.
    pub number: u8,
    /// Whether an operation of the topic may wait for further operations, so that they are written
    /// together ([`LogConfig::linger_ms`](crate::LogConfig)).
    pub lingers: bool,
    pub keys: KeyRule,
}

/// The rule that says which older records a record replaces when the log is compacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyRule {
    /// A record replaces all older records with the same key.
    SameKey,
    /// A key begins with a record type; the rest names a state. A snapshot record has the whole
    /// state and replaces the earlier snapshots and updates of the state; so does the tombstone of
    /// a snapshot. An update adds to the earlier records and replaces none.
    SnapshotsAndUpdates { snapshot: [u8; 2], update: [u8; 2] },
}

impl TopicRules {
    pub const fn new(rules: &'static [TopicRule]) -> Self {
        Self(rules)
    }

    /// The lowest topic number above `after`. If `after` is None, the lowest topic number.
    pub fn next(self, after: Option<u8>) -> Option<u8> {
        let numbers = self.0.iter().map(|rule| rule.number);
        numbers.filter(|number| Some(*number) > after).min()
    }

    /// The rule of a topic. None if the log may not contain records of the topic.
    pub(crate) fn get(self, number: u8) -> Option<&'static TopicRule> {
        self.0.iter().find(|rule| rule.number == number)
    }

    /// The rule of a topic. The log must have accepted or read a record of the topic.
    ///
    /// # Panics
    /// The topic has no rule.
    pub(crate) fn of(self, number: u8) -> &'static TopicRule {
        self.get(number).unwrap_or_else(|| panic!("topic {number} has no rule"))
    }
}

impl KeyRule {
    /// Whether a record with this key adds to older records instead of replacing them.
    pub(crate) fn is_update(&self, key: &[u8]) -> bool {
        match self {
            Self::SameKey => false,
            Self::SnapshotsAndUpdates { update, .. } => key.starts_with(update),
        }
    }

    /// The key that a record is compared by, in two parts. For an update, this is the key of a
    /// snapshot of the same state.
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
