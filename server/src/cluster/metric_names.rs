//! Topic names as Kafka's metrics show them, with `_` for `.`. Topics whose names are the same in
//! metrics collide.

use imbl::OrdMap;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The topics with a `.` or `_` in their names, by their names in metrics. One name in metrics may
/// belong to several topics, if they were created by one request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct MetricNames(OrdMap<String, BTreeSet<Arc<str>>>);

impl MetricNames {
    /// Whether a topic with this name belongs into the table. Names without `.` and `_` do not,
    /// because they cannot collide.
    pub(super) fn has(name: &str) -> bool {
        name.contains(['.', '_'])
    }

    /// A topic with the same name in metrics, possibly the topic itself.
    pub(super) fn colliding(&self, name: &str) -> Option<&str> {
        if !Self::has(name) {
            return None;
        }
        self.0.get(&in_metrics(name))?.first().map(|name| &**name)
    }

    pub(super) fn insert(&mut self, name: Arc<str>) {
        self.0.entry(in_metrics(&name)).or_default().insert(name);
    }

    pub(super) fn remove(&mut self, name: &str) {
        let in_metrics = in_metrics(name);
        let Some(names) = self.0.get_mut(&in_metrics) else { return };
        names.remove(name);
        if names.is_empty() {
            self.0.remove(&in_metrics);
        }
    }
}

fn in_metrics(name: &str) -> String {
    name.replace('.', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_several_topics_collides_until_it_is_removed() {
        let mut names = MetricNames::default();
        names.insert("a.b".into());
        names.insert("a_b".into());
        assert_eq!((names.colliding("a.b"), names.colliding("ab")), (Some("a.b"), None));
        names.remove("a.b");
        assert_eq!(names.colliding("a.b"), Some("a_b"));
        names.remove("a_b");
        assert_eq!(names, MetricNames::default());
    }
}
