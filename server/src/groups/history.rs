//! The last rebalances of each group of a shard.

use muster_coordinator::{
    CAUSES_NAMED_MAX, CausedBy, EVENT_NAME_BYTES_MAX, EVENT_REASON_BYTES_MAX, Event, EventBody,
    Removal,
};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

/// The maximum number of rebalances kept of one group.
pub(crate) const OF_GROUP_MAX: usize = 16;

/// The maximum size of all rebalances kept; beyond it the oldest are dropped.
pub(crate) const HISTORY_BYTES_MAX: usize = 2 << 20;

/// The approximate size of a rebalance, without its members and the id of its group.
const EVENT_BYTES: usize = 384;

/// The maximum size of a member in a rebalance: its id, its client's id and host, and the reason.
const MEMBER_BYTES_MAX: usize =
    size_of::<CausedBy>() + 3 * EVENT_NAME_BYTES_MAX + EVENT_REASON_BYTES_MAX;

// A group's id has at most 32 KiB.
const _: () = assert!(EVENT_BYTES + CAUSES_NAMED_MAX * MEMBER_BYTES_MAX < HISTORY_BYTES_MAX / 8);

/// The rebalances by group, and in the order in which they ended.
#[derive(Debug, Default)]
pub(crate) struct History {
    groups: HashMap<Arc<str>, VecDeque<(u64, Event)>>,
    /// The group of each rebalance, by its number.
    order: BTreeMap<u64, Arc<str>>,
    count: u64,
    bytes: usize,
}

impl History {
    /// Keeps a rebalance.
    pub(crate) fn add(&mut self, event: Event) {
        self.count += 1;
        self.bytes += bytes_of(&event);
        let group_id = Arc::clone(&event.group_id);
        self.order.insert(self.count, Arc::clone(&group_id));
        let of_group = self.groups.entry(Arc::clone(&group_id)).or_default();
        of_group.push_back((self.count, event));
        if of_group.len() > OF_GROUP_MAX {
            self.drop_first(&group_id);
        }
        while self.bytes > HISTORY_BYTES_MAX
            && let Some((_, oldest)) = self.order.first_key_value()
        {
            self.drop_first(&Arc::clone(oldest));
        }
    }

    /// The rebalances of a group, the oldest first.
    pub(crate) fn of(&self, group_id: &str) -> impl Iterator<Item = &Event> {
        self.groups.get(group_id).into_iter().flatten().map(|(_, event)| event)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    fn drop_first(&mut self, group_id: &str) {
        let Some(of_group) = self.groups.get_mut(group_id) else { return };
        if let Some((number, event)) = of_group.pop_front() {
            self.order.remove(&number);
            self.bytes -= bytes_of(&event);
        }
        if of_group.is_empty() {
            self.groups.remove(group_id);
        }
    }
}

fn bytes_of(event: &Event) -> usize {
    let names = match &event.body {
        EventBody::Rebalanced(rebalance) => {
            let bytes = |it: &CausedBy| it.member_id.len() + it.said_bytes() + size_of_val(it);
            rebalance.causes.named().iter().map(bytes).sum()
        }
        EventBody::Removed(Removal { member_id, client_id, client_host, .. }) => {
            member_id.len() + client_id.len() + client_host.len()
        }
        EventBody::Refused(it) => it.client_id.len() + it.client_host.len(),
    };
    EVENT_BYTES + event.group_id.len() + names
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_codec::Wall;
    use muster_coordinator::{Causes, Moved, Rebalance};

    fn rebalance(group_id: &str, epoch: i32) -> Event {
        let rebalance = Rebalance {
            epoch,
            began: Wall(0),
            took_ms: 0,
            restarts: 0,
            causes: Causes::default(),
            members: 1,
            moved: Moved::default(),
        };
        let body = EventBody::Rebalanced(rebalance);
        Event { group_id: group_id.into(), protocol: "classic", at: Wall(0), body }
    }

    fn epochs(history: &History, group_id: &str) -> Vec<i32> {
        let epochs = history.of(group_id).filter_map(|event| match &event.body {
            EventBody::Rebalanced(rebalance) => Some(rebalance.epoch),
            EventBody::Removed(_) | EventBody::Refused(_) => None,
        });
        epochs.collect()
    }

    #[test]
    fn a_group_has_its_last_rebalances() {
        let mut history = History::default();
        (1..=20).for_each(|epoch| history.add(rebalance("g", epoch)));
        history.add(rebalance("h", 1));
        assert_eq!(epochs(&history, "g"), (5..=20).collect::<Vec<_>>());
        assert_eq!((epochs(&history, "h"), epochs(&history, "none")), (vec![1], vec![]));
        assert_eq!(history.order.len(), 17);
    }

    #[test]
    fn the_oldest_of_all_give_way_when_there_are_too_many_bytes() {
        let mut history = History::default();
        let long = |number: usize| format!("{number:01000}");
        let fit = HISTORY_BYTES_MAX / (EVENT_BYTES + 1_000);
        for number in 0..fit + 3 {
            history.add(rebalance(&long(number), 1));
            assert!(history.bytes() <= HISTORY_BYTES_MAX);
        }
        assert!(epochs(&history, &long(2)).is_empty() && !epochs(&history, &long(3)).is_empty());
        assert_eq!((history.groups.len(), history.order.len()), (fit, fit));
        history.add(rebalance(&long(3), 2));
        assert_eq!(epochs(&history, &long(3)), [2], "its first one was the oldest of all");
    }
}
