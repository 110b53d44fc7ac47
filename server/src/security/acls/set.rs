//! All ACLs, indexed by the resources that they are about.

use super::acl::{Acl, Entry, Pattern, WILDCARD};
use super::filter::AclFilter;
use super::kinds::{PatternType, ResourceType};
use imbl::OrdMap;
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::Arc;

/// The cost of finding the ACLs of one pattern, measured in comparisons with an ACL.
const LOOK_UP: usize = 16;

/// All ACLs of a cluster. Clones share the data.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Acls(Arc<Set>);

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Set {
    /// The entries by the pattern's kind, then by its name. A lookup borrows the name.
    by_kind: BTreeMap<(ResourceType, PatternType), ByName>,
    count: usize,
}

type ByName = OrdMap<Arc<str>, Arc<OfPattern>>;

#[derive(Debug, Clone, PartialEq, Eq)]
struct OfPattern {
    pattern: Pattern,
    /// Sorted.
    entries: Vec<Entry>,
}

impl Acls {
    pub fn len(&self) -> usize {
        self.0.count
    }

    pub fn is_empty(&self) -> bool {
        self.0.count == 0
    }

    /// Whether both are the same version, compared by pointer. False does not prove a difference.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub fn has(&self, acl: &Acl) -> bool {
        let Pattern { resource_type, pattern_type, name } = &acl.pattern;
        let of_name = self.by_name(*resource_type, *pattern_type).and_then(|it| it.get(&**name));
        of_name.is_some_and(|it| it.entries.binary_search(&acl.entry).is_ok())
    }

    pub fn add(&mut self, Acl { pattern, entry }: Acl) {
        let Set { by_kind, count } = Arc::make_mut(&mut self.0);
        let by_name = by_kind.entry((pattern.resource_type, pattern.pattern_type)).or_default();
        let new = || Arc::new(OfPattern { pattern: pattern.clone(), entries: Vec::new() });
        let of_name = by_name.entry(Arc::clone(&pattern.name)).or_insert_with(new);
        let entries = &mut Arc::make_mut(of_name).entries;
        if let Err(place) = entries.binary_search(&entry) {
            entries.insert(place, entry);
            *count += 1;
        }
    }

    pub fn remove(&mut self, acl: &Acl) {
        if !self.has(acl) {
            return;
        }
        let Set { by_kind, count } = Arc::make_mut(&mut self.0);
        let Pattern { resource_type, pattern_type, name } = &acl.pattern;
        let Some(by_name) = by_kind.get_mut(&(*resource_type, *pattern_type)) else { return };
        let Some(of_name) = by_name.get_mut(&**name) else { return };
        let entries = &mut Arc::make_mut(of_name).entries;
        entries.retain(|entry| *entry != acl.entry);
        *count -= 1;
        if entries.is_empty() {
            by_name.remove(&**name);
        }
        by_kind.retain(|_, by_name| !by_name.is_empty());
    }

    /// All ACLs, by resource.
    pub fn iter(&self) -> impl Iterator<Item = (&Pattern, &Entry)> {
        self.0.by_kind.values().flat_map(|by_name| by_name.values()).flat_map(entries_of)
    }

    /// The ACLs that a filter matches, by resource.
    pub fn matching<'a>(&'a self, filter: &AclFilter<'_>) -> Vec<(&'a Pattern, &'a Entry)> {
        let matches = |it: &(&Pattern, &Entry)| filter.matches(it.0, it.1);
        match filter.pattern() {
            Some((resource_type, pattern_type, name)) => {
                let by_name = self.by_name(resource_type, pattern_type);
                let of_name = by_name.and_then(|by_name| by_name.get(name));
                of_name.into_iter().flat_map(entries_of).filter(matches).collect()
            }
            None => self.iter().filter(matches).collect(),
        }
    }

    /// The approximate number of ACLs that [`Self::matching`] must compare.
    pub fn looks_at(&self, filter: &AclFilter<'_>) -> usize {
        if filter.pattern().is_some() { LOOK_UP } else { self.len().max(LOOK_UP) }
    }

    /// The ACLs of a resource type.
    pub(super) fn of_type(&self, of: ResourceType) -> impl Iterator<Item = (&Pattern, &Entry)> {
        let kinds = [PatternType::Literal, PatternType::Prefixed].into_iter();
        let by_name = kinds.filter_map(move |pattern_type| self.by_name(of, pattern_type));
        by_name.flat_map(|by_name| by_name.values()).flat_map(entries_of)
    }

    /// The entries of all ACLs about a resource.
    pub(super) fn about(&self, of: ResourceType, name: &str) -> impl Iterator<Item = &Entry> {
        let literals = self.by_name(of, PatternType::Literal);
        let literal = move |name: &str| literals.and_then(|it| it.get(name));
        let all = (name != WILDCARD).then(|| literal(WILDCARD)).flatten();
        let exact = literal(name).into_iter().chain(all);
        exact.chain(self.prefixes(of, name)).flat_map(|of_name| of_name.entries.iter())
    }

    /// The prefixed patterns that are prefixes of a name, longest first. Each step finds the
    /// pattern that is at or before the name in the order of texts. If this pattern is not a prefix
    /// of the name, the remaining prefixes are prefixes of what the pattern and the name share.
    fn prefixes(&self, of: ResourceType, name: &str) -> impl Iterator<Item = &Arc<OfPattern>> {
        let by_name = self.by_name(of, PatternType::Prefixed);
        let mut left = Some((name.len(), true));
        std::iter::from_fn(move || {
            while let Some((length, is_included)) = left {
                let part = &name[..length];
                let last = if is_included { Included(part) } else { Excluded(part) };
                let (before, of_name) = by_name?.range::<_, str>((Unbounded, last)).next_back()?;
                let common = common_length(part, before);
                if common == before.len() {
                    left = Some((common, false));
                    return Some(of_name);
                }
                left = Some((common, true));
            }
            None
        })
    }

    fn by_name(&self, of: ResourceType, pattern_type: PatternType) -> Option<&ByName> {
        self.0.by_kind.get(&(of, pattern_type))
    }
}

fn entries_of(of_name: &Arc<OfPattern>) -> impl Iterator<Item = (&Pattern, &Entry)> {
    of_name.entries.iter().map(|entry| (&of_name.pattern, entry))
}

/// The length of the common prefix of both texts, rounded down to a whole character.
fn common_length(name: &str, other: &str) -> usize {
    let same = name.bytes().zip(other.bytes()).take_while(|(one, other)| one == other);
    name.floor_char_boundary(same.count())
}
