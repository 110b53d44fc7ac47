//! Counts the subscriptions of a group to each topic.

use crate::text::Text;
use alloc::collections::BTreeMap;

/// The subscriptions to a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Count {
    /// The number of members that subscribe to the topic by name.
    pub(crate) by_name: u32,
    /// The number of regular expressions that match the topic.
    pub(crate) by_regex: u32,
}

/// The topics to which a group subscribes, by name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Subscriptions {
    topics: BTreeMap<Text, Count>,
}

impl Subscriptions {
    pub(crate) fn contains(&self, topic: &str) -> bool {
        self.topics.contains_key(topic)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &Text> {
        self.topics.keys()
    }

    pub(crate) fn counts(&self) -> impl Iterator<Item = &Count> {
        self.topics.values()
    }

    pub(crate) fn add_named(&mut self, topics: &[Text]) {
        for topic in topics {
            self.count(topic).by_name += 1;
        }
    }

    pub(crate) fn remove_named(&mut self, topics: &[Text]) {
        for topic in topics {
            self.uncount(topic, |count| &mut count.by_name);
        }
    }

    pub(crate) fn add_matched(&mut self, topics: &[Text]) {
        for topic in topics {
            self.count(topic).by_regex += 1;
        }
    }

    pub(crate) fn remove_matched(&mut self, topics: &[Text]) {
        for topic in topics {
            self.uncount(topic, |count| &mut count.by_regex);
        }
    }

    fn count(&mut self, topic: &Text) -> &mut Count {
        self.topics.entry(topic.clone()).or_default()
    }

    fn uncount(&mut self, topic: &Text, which: impl Fn(&mut Count) -> &mut u32) {
        let Some(count) = self.topics.get_mut(topic) else { return };
        let which = which(count);
        *which = which.saturating_sub(1);
        if *count == Count::default() {
            self.topics.remove(topic);
        }
    }
}
