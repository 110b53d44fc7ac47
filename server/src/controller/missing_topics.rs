//! Topics that shards asked the controller to create: internal topics of streams groups and dead
//! letter queues of share groups. Keeps the creations under way and the recent failures, like
//! Kafka's `AutoTopicCreationManager`.

use crate::mailbox::{Created, Creation};
use crate::quotas::Limit;
use muster_coordinator::MissingTopic;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// The maximum number of messages that wait for the controller; each has the topics of one group.
const MESSAGES_MAX: usize = 64;

/// A heartbeat handles at most this many of its group's missing topics. Later heartbeats handle the
/// others, once these exist.
pub(crate) const AT_ONCE_MAX: usize = 1_000;

/// At most this many failures are remembered, as in Kafka. If there are more, the one that expires
/// first is forgotten.
const FAILED_MAX: usize = 1_000;

/// The creations under way, and those that failed recently.
#[derive(Debug, Default)]
pub(super) struct MissingTopics {
    messages: usize,
    under_way: HashSet<Arc<str>>,
    /// The time at which a topic may be tried again, and the reason of the failure.
    failed: HashMap<Arc<str>, (i64, String)>,
    by_time: BTreeSet<(i64, Arc<str>)>,
}

impl MissingTopics {
    /// Returns the topics that the controller has to be asked for: those whose creation is not
    /// under way and has not failed recently. None if there are none, or if too many messages wait.
    pub(super) fn ask(
        &mut self,
        now: i64,
        missing: &[MissingTopic],
        limit: Option<Limit>,
        retry_ms: i64,
    ) -> Option<Creation> {
        if self.messages == MESSAGES_MAX {
            return None;
        }
        self.forget(now);
        let is_new =
            |name: &Arc<str>| !self.under_way.contains(name) && !self.failed.contains_key(name);
        let looked_at = missing.iter().take(AT_ONCE_MAX);
        let topics: Vec<_> = looked_at.filter(|it| is_new(&it.name)).cloned().collect();
        if topics.is_empty() {
            return None;
        }
        self.messages += 1;
        self.under_way.extend(topics.iter().map(|it| it.name.clone()));
        Some(Creation { topics, limit, retry_ms })
    }

    /// Whether the creation of any of these topics is under way.
    pub(super) fn are_under_way(&self, missing: &[MissingTopic]) -> bool {
        missing.iter().take(AT_ONCE_MAX).any(|topic| self.under_way.contains(&topic.name))
    }

    /// Handles the controller's answer. The request was sent by this shard, or before the shard
    /// failed and was loaded again.
    pub(super) fn created(&mut self, now: i64, created: Created) {
        let Created { topics, failed, retry_ms } = created;
        self.messages = self.messages.saturating_sub(1);
        for name in &topics {
            self.under_way.remove(name);
        }
        for (name, why) in failed {
            self.fail(name, now.saturating_add(retry_ms), why);
        }
    }

    /// The topics of a group whose creation failed recently, with the reason.
    pub(super) fn failed<'m>(
        &'m self,
        now: i64,
        missing: &'m [MissingTopic],
    ) -> impl Iterator<Item = (&'m str, &'m str)> {
        let of = move |topic: &'m MissingTopic| {
            let (_, why) = self.failed.get(&topic.name).filter(|(until, _)| *until > now)?;
            Some((&*topic.name, why.as_str()))
        };
        missing.iter().take(AT_ONCE_MAX).filter_map(of)
    }

    fn fail(&mut self, name: Arc<str>, until: i64, why: String) {
        if let Some((before, _)) = self.failed.insert(name.clone(), (until, why)) {
            self.by_time.remove(&(before, name.clone()));
        }
        self.by_time.insert((until, name));
        if self.failed.len() > FAILED_MAX {
            self.forget_first();
        }
    }

    /// Forgets failures whose topics may be tried again.
    fn forget(&mut self, now: i64) {
        while self.by_time.first().is_some_and(|(until, _)| *until <= now) {
            self.forget_first();
        }
    }

    fn forget_first(&mut self) {
        if let Some((_, name)) = self.by_time.pop_first() {
            self.failed.remove(&name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RETRY_MS: i64 = 10_000;

    fn missing(names: &[&str]) -> Vec<MissingTopic> {
        let of = |name: &&str| MissingTopic {
            name: Arc::from(*name),
            partitions: 1,
            replication_factor: -1,
            configs: Vec::new(),
        };
        names.iter().map(of).collect()
    }

    /// The names of the topics that the controller is asked to create.
    fn asked(topics: &mut MissingTopics, now: i64, names: &[&str]) -> Vec<String> {
        let creation = topics.ask(now, &missing(names), None, RETRY_MS);
        let topics = creation.map(|it| it.topics).unwrap_or_default();
        topics.iter().map(|it| it.name.to_string()).collect()
    }

    fn answered(topics: &mut MissingTopics, now: i64, created: &[&str], failed: &[&str]) {
        let failed: Vec<_> = failed.iter().map(|it| (Arc::from(*it), "full".to_owned())).collect();
        let names = created.iter().map(|it| Arc::from(*it));
        let topics_of_both = names.chain(failed.iter().map(|(name, _)| Arc::clone(name)));
        let (of_both, retry_ms) = (topics_of_both.collect(), RETRY_MS);
        topics.created(now, Created { topics: of_both, failed, retry_ms });
    }

    fn failed(topics: &MissingTopics, now: i64, names: &[&str]) -> Vec<String> {
        let missing = missing(names);
        topics.failed(now, &missing).map(|(name, why)| format!("{name} ({why})")).collect()
    }

    #[test]
    fn a_topic_is_asked_for_once_until_there_is_an_answer() {
        let mut topics = MissingTopics::default();
        assert_eq!(asked(&mut topics, 0, &["a", "b"]), ["a", "b"]);
        assert_eq!(asked(&mut topics, 1, &["b", "c"]), ["c"]);
        assert!(topics.are_under_way(&missing(&["b"])) && !topics.are_under_way(&missing(&["d"])));
        answered(&mut topics, 2, &["a", "b"], &[]);
        // `a` was deleted meanwhile.
        assert_eq!(asked(&mut topics, 3, &["a", "c"]), ["a"]);
    }

    #[test]
    fn a_topic_that_failed_is_tried_again_after_a_while() {
        let mut topics = MissingTopics::default();
        assert_eq!(asked(&mut topics, 0, &["a", "b"]), ["a", "b"]);
        answered(&mut topics, 5, &["a"], &["b"]);
        assert_eq!(failed(&topics, 5, &["a", "b", "c"]), ["b (full)"]);
        assert_eq!(asked(&mut topics, 5 + RETRY_MS - 1, &["b"]), Vec::<String>::new());
        assert_eq!(failed(&topics, 5 + RETRY_MS, &["b"]), Vec::<String>::new());
        assert_eq!(asked(&mut topics, 5 + RETRY_MS, &["b"]), ["b"]);
        assert!(topics.failed.is_empty() && topics.by_time.is_empty());
    }

    #[test]
    fn messages_topics_and_errors_are_limited() {
        let mut topics = MissingTopics::default();
        let names: Vec<_> = (0..=AT_ONCE_MAX).map(|it| it.to_string()).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        assert_eq!(asked(&mut topics, 0, &names).len(), AT_ONCE_MAX);
        for name in &names[..MESSAGES_MAX - 1] {
            assert_eq!(asked(&mut topics, 0, &[&format!("other-{name}")]).len(), 1);
        }
        assert_eq!(asked(&mut topics, 0, &["last"]), Vec::<String>::new());
        answered(&mut topics, 1, &[], &["first"]);
        answered(&mut topics, 2, &[], &names);
        assert_eq!(asked(&mut topics, 2, &["last", "first"]), ["last", "first"]);
        assert_eq!((topics.failed.len(), topics.by_time.len()), (FAILED_MAX, FAILED_MAX));
    }
}
