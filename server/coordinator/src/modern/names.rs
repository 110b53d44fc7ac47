//! The lists of topic names to which members subscribe. Equal lists, the usual case, are stored
//! once.

use crate::text::{TEXT_BYTES, Text};
use alloc::sync::Arc;
use alloc::vec::Vec;
use hashbrown::HashMap;
use muster_codec::Str;

/// Topic names, sorted and without duplicates.
pub(crate) type Names = Arc<[Text]>;

/// The lists, each with the number of members that have it.
#[derive(Debug, Default)]
pub(crate) struct NameLists {
    lists: HashMap<Names, usize>,
    bytes: usize,
}

impl NameLists {
    /// The approximate memory of all lists. Each list counts once.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The approximate memory if each of `members` members had its own list.
    pub(crate) fn bytes_unshared(&self, members: usize) -> usize {
        self.bytes.saturating_mul(members) / self.lists.len().max(1)
    }

    /// The memory that a list would add.
    pub(crate) fn bytes_added_by(&self, names: &Names) -> usize {
        if self.lists.contains_key(names) { 0 } else { bytes(names) }
    }

    /// The equal list of another member, if there is one; else `names`.
    pub(crate) fn shared(&self, names: Names) -> Names {
        self.lists.get_key_value(&names).map_or(names, |(known, _)| known.clone())
    }

    pub(crate) fn add(&mut self, names: &Names) {
        let members = self.lists.entry(names.clone()).or_default();
        *members += 1;
        if *members == 1 {
            self.bytes += bytes(names);
        }
    }

    pub(crate) fn remove(&mut self, names: &Names) {
        let Some(members) = self.lists.get_mut(names) else { return };
        *members -= 1;
        if *members == 0 {
            self.lists.remove(names);
            self.bytes -= bytes(names);
        }
    }
}

/// The names in a request, sorted and without duplicates.
pub(crate) fn sorted(names: &[Str<'_>]) -> Names {
    let mut sorted: Vec<&str> = names.iter().map(|it| &**it).collect();
    sorted.sort_unstable();
    sorted.dedup();
    sorted.into_iter().map(Text::from).collect()
}

/// Whether a list contains exactly the names in a request.
pub(crate) fn has_names(list: &Names, sent: &[Str<'_>]) -> bool {
    list.len() == sent.len()
        && (list.iter().zip(sent).all(|(mine, other)| **mine == **other) || sorted(sent) == *list)
}

/// Approximate memory of a list.
pub(crate) fn bytes(names: &[Text]) -> usize {
    names.iter().map(|name| TEXT_BYTES + name.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Names {
        text.split(' ').map(Text::from).collect()
    }

    #[test]
    fn an_equal_list_is_stored_once_until_its_last_member_is_removed() {
        let mut lists = NameLists::default();
        let first = lists.shared(names("a b"));
        assert_eq!(lists.bytes_added_by(&first), 2 * TEXT_BYTES + 2);
        lists.add(&first);
        let second = lists.shared(names("a b"));
        assert!(Arc::ptr_eq(&first, &second));
        assert_eq!(lists.bytes_added_by(&second), 0);
        lists.add(&second);
        lists.add(&lists.shared(names("a")));
        assert_eq!(lists.bytes(), 3 * TEXT_BYTES + 3);
        lists.remove(&first);
        assert_eq!(lists.bytes(), 3 * TEXT_BYTES + 3);
        lists.remove(&second);
        assert_eq!(
            (lists.bytes(), lists.bytes_added_by(&first)),
            (TEXT_BYTES + 1, 2 * TEXT_BYTES + 2)
        );
    }
}
