//! The config overrides of all resources, in persistent trees: a copy shares all nodes, and a
//! change copies one path. So copies and changes are cheap even with 100,000 groups that have
//! configs.

use crate::config::Overrides;
use imbl::OrdMap;
use imbl::ordmap::DiffItem;
use muster_codec::records::{ClusterRecord, ConfigKey, ConfigValue};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The overrides of all resources, by type and name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Configs(BTreeMap<i8, OfType>);

type OfType = OrdMap<String, Arc<Overrides>>;

impl Configs {
    pub(super) fn get(&self, resource_type: i8, name: &str) -> Option<&Overrides> {
        self.0.get(&resource_type)?.get(name).map(|overrides| &**overrides)
    }

    /// All resources of a type that have overrides, by name.
    pub(super) fn of_type(&self, resource_type: i8) -> impl Iterator<Item = (&str, &Overrides)> {
        let of_type = self.0.get(&resource_type).into_iter().flat_map(OfType::iter);
        of_type.map(|(name, overrides)| (name.as_str(), &**overrides))
    }

    /// The names of a type's resources with overrides, starting at `first`.
    pub(super) fn names_from<'c>(
        &'c self,
        resource_type: i8,
        first: &str,
    ) -> impl Iterator<Item = &'c str> + use<'c> {
        use std::ops::Bound::{Included, Unbounded};
        let of_type = self.0.get(&resource_type);
        let from_first = of_type.map(|it| it.range::<_, str>((Included(first), Unbounded)));
        from_first.into_iter().flatten().map(|(name, _)| name.as_str())
    }

    pub(super) fn count(&self, resource_type: i8) -> usize {
        self.0.get(&resource_type).map_or(0, OfType::len)
    }

    /// The resource types with overrides.
    pub(super) fn types(&self) -> impl Iterator<Item = i8> {
        self.0.keys().copied()
    }

    pub(super) fn set(&mut self, resource_type: i8, name: &str, key: &str, value: String) {
        let of_type = self.0.entry(resource_type).or_default();
        let overrides = of_type.entry(name.to_owned()).or_default();
        Arc::make_mut(overrides).insert(key.to_owned(), value);
    }

    pub(super) fn remove(&mut self, resource_type: i8, name: &str, key: &str) {
        let Some(of_type) = self.0.get_mut(&resource_type) else { return };
        let Some(overrides) = of_type.get_mut(name) else { return };
        let overrides = Arc::make_mut(overrides);
        overrides.remove(key);
        if overrides.is_empty() {
            of_type.remove(name);
        }
    }

    /// The names of the resources of a type whose configs differ between two tables. One table must
    /// be derived from the other: then the cost is proportional to the number of changes.
    pub(super) fn changed<'c>(&'c self, before: &'c Self, resource_type: i8) -> Vec<&'c str> {
        match (before.0.get(&resource_type), self.0.get(&resource_type)) {
            (Some(before), Some(after)) => before.diff(after).map(name).collect(),
            (None, Some(all)) | (Some(all), None) => all.keys().map(String::as_str).collect(),
            (None, None) => Vec::new(),
        }
    }
}

fn name<'c, V>(item: DiffItem<'c, 'c, String, V>) -> &'c str {
    match item {
        DiffItem::Add(name, _) | DiffItem::Remove(name, _) => name,
        DiffItem::Update { new: (name, _), .. } => name,
    }
}

/// The records that change a resource's configs from `before` to `after`.
pub(super) fn config_records(
    resource_type: i8,
    resource: &str,
    before: Option<&Overrides>,
    after: &Overrides,
) -> Vec<ClusterRecord<'static>> {
    let key = |name: &String| ConfigKey {
        resource_type,
        resource_name: resource.to_owned().into(),
        name: name.clone().into(),
    };
    let before = before.into_iter().flatten();
    let (kept, gone): (Vec<_>, Vec<_>) = before.partition(|(name, _)| after.contains_key(*name));
    let is_new = |(name, value): &(&String, &String)| !kept.contains(&(*name, *value));
    let set = after.iter().filter(is_new).map(|(name, value)| {
        ClusterRecord::Config(key(name), Some(ConfigValue { value: value.clone().into() }))
    });
    let removed = gone.iter().map(|(name, _)| ClusterRecord::Config(key(name), None));
    removed.chain(set).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUP: i8 = 32;
    const GROUPS: usize = 10_000;

    fn many() -> Configs {
        let mut configs = Configs::default();
        for group in 0..GROUPS {
            configs.set(GROUP, &group.to_string(), "key", "value".to_owned());
        }
        configs
    }

    #[test]
    fn a_changed_copy_shares_unchanged_entries() {
        let before = many();
        let mut after = before.clone();
        after.set(GROUP, "77", "key", "other".to_owned());
        let shared = before.0[&GROUP].iter().zip(after.0[&GROUP].iter());
        let copied = shared.filter(|((_, a), (_, b))| !Arc::ptr_eq(a, b)).count();
        assert_eq!(copied, 1);
        assert_eq!(before.get(GROUP, "77").unwrap()["key"], "value");
        assert_eq!(after.get(GROUP, "77").unwrap()["key"], "other");
    }

    #[test]
    fn changed_resources_are_named() {
        let before = many();
        let mut after = before.clone();
        assert!(after.changed(&before, GROUP).is_empty());
        after.set(GROUP, "77", "another key", "value".to_owned());
        after.set(GROUP, "new", "key", "value".to_owned());
        after.remove(GROUP, "123", "key");
        after.remove(GROUP, "124", "no such key");
        assert_eq!(after.changed(&before, GROUP), ["123", "77", "new"]);
        assert_eq!(after.count(GROUP), GROUPS);
        assert_eq!(after.changed(&Configs::default(), GROUP).len(), GROUPS);
        assert_eq!(Configs::default().changed(&after, GROUP).len(), GROUPS);
    }
}
