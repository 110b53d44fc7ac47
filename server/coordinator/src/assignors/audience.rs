//! The subscribers of each topic of a heterogeneous group. Topics with the same subscribers share
//! one list.

use super::{MemberIndex, TargetAssignment, TopicIndex};
use alloc::vec::Vec;
use hashbrown::HashMap;

/// The topics of a group with their subscribers. A member is identified by its place: its index in
/// the order in which members are visited.
#[derive(Debug, Default)]
pub(super) struct Audiences {
    /// The lists of subscribers; each is ascending.
    lists: Vec<Vec<u32>>,
    /// For each topic with subscribers, the index of its list in `lists`.
    by_topic: Vec<(TopicIndex, usize)>,
}

impl Audiences {
    pub(super) fn new(members: &[MemberIndex], target: &TargetAssignment) -> Self {
        let mut places: Vec<Vec<u32>> = Vec::new();
        places.resize_with(target.subscriptions().len(), Vec::new);
        for (place, member) in members.iter().enumerate() {
            if let Some(subscription) = target.subscription_of(*member) {
                places[subscription].push(place as u32);
            }
        }
        let mut this = Self::default();
        let mut known: HashMap<Vec<usize>, usize> = HashMap::new();
        for (topic, subscriptions) in subscriptions_by_topic(target) {
            let next = this.lists.len();
            let list = *known.entry(subscriptions).or_insert_with_key(|subscriptions| {
                this.lists.push(merged(subscriptions, &places));
                next
            });
            this.by_topic.push((topic, list));
        }
        this
    }

    /// The topics with subscribers, each with the index of its list of subscribers in `lists`.
    pub(super) fn topics(&self) -> &[(TopicIndex, usize)] {
        &self.by_topic
    }

    pub(super) fn list(&self, number: usize) -> &[u32] {
        &self.lists[number]
    }

    pub(super) fn len(&self) -> usize {
        self.lists.len()
    }
}

/// The topics in ascending order. For each, the indices of the subscriptions that include it, also
/// in ascending order.
fn subscriptions_by_topic(target: &TargetAssignment) -> Vec<(TopicIndex, Vec<usize>)> {
    let mut by_topic: Vec<Vec<usize>> = Vec::new();
    by_topic.resize_with(target.topics_end(), Vec::new);
    for (number, subscription) in target.subscriptions().iter().enumerate() {
        for topic in subscription.topics.iter() {
            by_topic[*topic as usize].push(number);
        }
    }
    let numbered = by_topic.into_iter().enumerate();
    let subscribed = numbered.filter(|(_, subscriptions)| !subscriptions.is_empty());
    subscribed.map(|(topic, subscriptions)| (topic as TopicIndex, subscriptions)).collect()
}

fn merged(subscriptions: &[usize], places: &[Vec<u32>]) -> Vec<u32> {
    let mut list: Vec<_> =
        subscriptions.iter().flat_map(|number| &places[*number]).copied().collect();
    if subscriptions.len() > 1 {
        list.sort_unstable();
    }
    list
}
