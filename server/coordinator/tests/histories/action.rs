//! The actions of a history.

use proptest::prelude::*;

pub const CLIENTS: usize = 12;
pub const TOPICS: [&str; 3] = ["a", "ab", "b"];

/// The actions of a history, and the config `group.consumer.assignment.interval.ms`.
#[derive(Debug, Clone)]
pub struct Plan {
    pub assignment_interval_ms: i32,
    pub actions: Vec<Action>,
}

/// An action. `who` is the number of a client; each client belongs to one group.
#[derive(Debug, Clone)]
pub enum Action {
    Join {
        who: usize,
        options: JoinOptions,
    },
    /// The client's next request: a JoinGroup, a SyncGroup or a heartbeat.
    Step {
        who: usize,
        reports: bool,
        is_lost: bool,
    },
    /// A classic client sends a JoinGroup, even if no rebalance has begun.
    Rejoin {
        who: usize,
    },
    Resubscribe {
        who: usize,
        topics: u8,
    },
    /// A delayed heartbeat or SyncGroup.
    Stale {
        who: usize,
        syncs: bool,
    },
    Leave {
        who: usize,
        for_a_while: bool,
    },
    /// An administrator removes two members.
    Remove {
        who: usize,
        other: usize,
    },
    Commit {
        who: usize,
        topic: usize,
        is_old: bool,
    },
    CommitSimple {
        who: usize,
        topic: usize,
    },
    DeleteOffsets {
        who: usize,
        topic: usize,
    },
    DeleteGroup {
        who: usize,
    },
    Make {
        topic: usize,
    },
    Grow {
        topic: usize,
    },
    Delete {
        topic: usize,
    },
    Advance {
        ms: i64,
    },
    Load,
}

/// The properties of a joining client.
#[derive(Debug, Clone, Copy)]
pub struct JoinOptions {
    pub is_classic: bool,
    pub is_static: bool,
    /// The subscribed topics, with one bit for each.
    pub topics: u8,
    /// Only for the consumer protocol: subscribes to `a.*` instead of topics.
    pub has_regex: bool,
    /// Only for the classic protocol: gives up all partitions before each join.
    pub is_eager: bool,
    /// The version of JoinGroup. A static member needs at least 5.
    pub version: i16,
}

pub fn plans() -> impl Strategy<Value = Plan> {
    let interval = prop_oneof![Just(0), Just(1_000)];
    (interval, prop::collection::vec(actions(), 1..150))
        .prop_map(|(assignment_interval_ms, actions)| Plan { assignment_interval_ms, actions })
}

fn actions() -> impl Strategy<Value = Action> {
    let (who, topic, rarely) = (0..CLIENTS, 0..TOPICS.len(), prop::bool::weighted(0.1));
    let time = prop_oneof![3 => 0..10i64, 3 => 0..3_000i64, 1 => 0..60_000i64];
    prop_oneof![
        10 => (who.clone(), join_options())
            .prop_map(|(who, options)| Action::Join { who, options }),
        40 => (who.clone(), prop::bool::weighted(0.7), rarely)
            .prop_map(|(who, reports, is_lost)| Action::Step { who, reports, is_lost }),
        2 => who.clone().prop_map(|who| Action::Rejoin { who }),
        2 => (who.clone(), 1..8u8).prop_map(|(who, topics)| Action::Resubscribe { who, topics }),
        1 => (who.clone(), any::<bool>()).prop_map(|(who, syncs)| Action::Stale { who, syncs }),
        3 => (who.clone(), any::<bool>())
            .prop_map(|(who, for_a_while)| Action::Leave { who, for_a_while }),
        1 => (who.clone(), who.clone()).prop_map(|(who, other)| Action::Remove { who, other }),
        3 => (who.clone(), topic.clone(), rarely)
            .prop_map(|(who, topic, is_old)| Action::Commit { who, topic, is_old }),
        1 => (who.clone(), topic.clone())
            .prop_map(|(who, topic)| Action::CommitSimple { who, topic }),
        1 => (who.clone(), topic.clone())
            .prop_map(|(who, topic)| Action::DeleteOffsets { who, topic }),
        1 => who.prop_map(|who| Action::DeleteGroup { who }),
        1 => topic.clone().prop_map(|topic| Action::Make { topic }),
        1 => topic.clone().prop_map(|topic| Action::Grow { topic }),
        1 => topic.prop_map(|topic| Action::Delete { topic }),
        8 => time.prop_map(|ms| Action::Advance { ms }),
        1 => Just(Action::Load),
    ]
}

fn join_options() -> impl Strategy<Value = JoinOptions> {
    let share = prop::bool::weighted;
    (any::<bool>(), share(0.4), 1..8u8, share(0.2), any::<bool>(), 0..10i16).prop_map(
        |(is_classic, is_static, topics, has_regex, is_eager, version)| JoinOptions {
            is_classic,
            is_static,
            topics,
            has_regex,
            is_eager,
            version: if is_static { version.max(5) } else { version },
        },
    )
}
