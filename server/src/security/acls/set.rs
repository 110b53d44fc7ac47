//! A set of ACLs, by the resources that they are about.

use super::acl::{Acl, Entry, Pattern, WILDCARD};
use super::filter::AclFilter;
use super::kinds::{PatternType, ResourceType};
use imbl::OrdMap;
use std::sync::Arc;

/// A look-up of a pattern takes as long as looking at this number of ACLs.
const LOOK_UP: usize = 16;

/// All ACLs of a cluster. A clone shares everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Acls {
    /// The entries of a pattern are in order.
    by_pattern: OrdMap<Pattern, Arc<Vec<Entry>>>,
    count: usize,
}

impl Acls {
    pub fn len(&self) -> usize {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether both are the same set, without a look at each ACL: false is no proof that they are
    /// not.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.by_pattern.ptr_eq(&other.by_pattern)
    }

    pub fn has(&self, acl: &Acl) -> bool {
        self.by_pattern.get(&acl.pattern).is_some_and(|it| it.binary_search(&acl.entry).is_ok())
    }

    pub fn add(&mut self, acl: Acl) {
        let entries = Arc::make_mut(self.by_pattern.entry(acl.pattern).or_default());
        if let Err(place) = entries.binary_search(&acl.entry) {
            entries.insert(place, acl.entry);
            self.count += 1;
        }
    }

    pub fn remove(&mut self, acl: &Acl) {
        let Some(entries) = self.by_pattern.get_mut(&acl.pattern) else { return };
        let entries = Arc::make_mut(entries);
        let before = entries.len();
        entries.retain(|entry| *entry != acl.entry);
        self.count -= before - entries.len();
        if entries.is_empty() {
            self.by_pattern.remove(&acl.pattern);
        }
    }

    /// All of them, by resource.
    pub fn iter(&self) -> impl Iterator<Item = (&Pattern, &Entry)> {
        self.by_pattern.iter().flat_map(entries_of)
    }

    /// Those that a filter matches, by resource.
    pub fn matching<'a>(&'a self, filter: &AclFilter<'_>) -> Vec<(&'a Pattern, &'a Entry)> {
        let matches = |it: &(&Pattern, &Entry)| filter.matches(it.0, it.1);
        match filter.pattern() {
            Some(only) => {
                let entries = self.by_pattern.get_key_value(&only);
                entries.into_iter().flat_map(entries_of).filter(matches).collect()
            }
            None => self.iter().filter(matches).collect(),
        }
    }

    /// The number of ACLs that [`Self::matching`] has to look at, about.
    pub fn looks_at(&self, filter: &AclFilter<'_>) -> usize {
        if filter.pattern().is_some() { LOOK_UP } else { self.len().max(LOOK_UP) }
    }

    /// Those of a type of resources.
    pub(super) fn of_type(&self, of: ResourceType) -> impl Iterator<Item = (&Pattern, &Entry)> {
        let first =
            Pattern { resource_type: of, pattern_type: PatternType::Literal, name: Arc::from("") };
        let of_type =
            self.by_pattern.range(first..).take_while(move |(it, _)| it.resource_type == of);
        of_type.flat_map(entries_of)
    }

    /// Those about a resource.
    pub(super) fn about(&self, of: ResourceType, name: &str) -> impl Iterator<Item = &Entry> {
        let literal = |name: &str| self.by_pattern.get(&pattern(of, PatternType::Literal, name));
        let all = (name != WILDCARD).then(|| literal(WILDCARD)).flatten();
        let exact = literal(name).into_iter().chain(all);
        exact.chain(self.prefixes(of, name)).flat_map(|entries| entries.iter())
    }

    /// Those of all prefixes of a name. A look-up finds the greatest pattern up to the name: it is
    /// a prefix, or else all others are prefixes of the part that both have in common.
    fn prefixes(&self, of: ResourceType, name: &str) -> impl Iterator<Item = &Arc<Vec<Entry>>> {
        let first = pattern(of, PatternType::Prefixed, "");
        let mut left = Some((name.len(), true));
        std::iter::from_fn(move || {
            while let Some((length, is_included)) = left {
                let last = pattern(of, PatternType::Prefixed, &name[..length]);
                let (before, entries) = if is_included {
                    self.by_pattern.range(first.clone()..=last).next_back()?
                } else {
                    self.by_pattern.range(first.clone()..last).next_back()?
                };
                let common = common_length(&name[..length], &before.name);
                if common == before.name.len() {
                    left = Some((common, false));
                    return Some(entries);
                }
                left = Some((common, true));
            }
            None
        })
    }
}

fn entries_of<'a>(
    (pattern, entries): (&'a Pattern, &'a Arc<Vec<Entry>>),
) -> impl Iterator<Item = (&'a Pattern, &'a Entry)> {
    entries.iter().map(move |entry| (pattern, entry))
}

fn pattern(resource_type: ResourceType, pattern_type: PatternType, name: &str) -> Pattern {
    Pattern { resource_type, pattern_type, name: name.into() }
}

/// The bytes with which both begin, up to the end of a character.
fn common_length(name: &str, other: &str) -> usize {
    let same = name.bytes().zip(other.bytes()).take_while(|(one, other)| one == other);
    name.floor_char_boundary(same.count())
}
