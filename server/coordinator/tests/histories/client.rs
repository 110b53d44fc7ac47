//! A client. It is no member, or a member with one of the two protocols.

use crate::action::{JoinOptions, TOPICS};
use crate::classic::Classic;
use crate::consumer::Consumer;
use crate::shard::Shard;
use muster_codec::{Str, Uuid};
use std::collections::BTreeSet;

/// The rebalance timeout of members of both protocols.
pub const REBALANCE_TIMEOUT_MS: i32 = 20_000;

/// Whether a client is still a member after an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    In,
    Out,
}

pub struct Client {
    pub identity: Identity,
    pub role: Role,
    /// Whether the client is a static member that has left, and joins again with its next step.
    is_away: bool,
    /// Whether the client may believe that it owns partitions of the former classic group. The
    /// group became a consumer group during a rebalance, which the client has not finished yet.
    pub has_old_partitions: bool,
}

/// The identity of a client, whether it is a member or not.
pub struct Identity {
    pub group: &'static str,
    name: String,
    /// The instance id, if the client is a static member.
    instance: String,
    pub options: JoinOptions,
}

pub enum Role {
    Out,
    Classic(Classic),
    Consumer(Consumer),
}

impl Client {
    pub fn new(identity: Identity) -> Self {
        Self { identity, role: Role::Out, is_away: false, has_old_partitions: false }
    }

    /// Joins like a new process. The group is not notified that the previous process ended.
    pub fn join(&mut self, shard: &mut Shard, options: JoinOptions) {
        (self.identity.options, self.is_away) = (options, false);
        self.has_old_partitions = false;
        self.role = if options.is_classic {
            Role::Classic(Classic::default())
        } else {
            Role::Consumer(Consumer::default())
        };
        self.step(shard, true, false);
    }

    /// Takes the next step. If `reports` is false, a consumer leaves out its owned partitions where
    /// the protocol allows it. If `is_lost`, the answer does not arrive.
    pub fn step(&mut self, shard: &mut Shard, reports: bool, is_lost: bool) {
        let fate = match &mut self.role {
            Role::Out if self.is_away => return self.join(shard, self.identity.options),
            Role::Out => return,
            Role::Classic(classic) => classic.step(shard, &self.identity, is_lost),
            Role::Consumer(consumer) => consumer.step(shard, &self.identity, reports, is_lost),
        };
        if fate == Fate::Out {
            self.role = Role::Out;
        }
    }

    pub fn rejoin(&mut self, shard: &mut Shard) {
        if let Role::Classic(classic) = &mut self.role {
            classic.must_join();
        }
        self.step(shard, true, false);
    }

    pub fn resubscribe(&mut self, shard: &mut Shard, topics: u8) {
        if let Role::Consumer(consumer) = &mut self.role {
            consumer.sends_subscription();
        }
        (self.identity.options.topics, self.identity.options.has_regex) = (topics, false);
        self.rejoin(shard);
    }

    pub fn stale(&mut self, shard: &mut Shard, syncs: bool) {
        match &mut self.role {
            Role::Out => {}
            Role::Classic(classic) => classic.stale(shard, &self.identity, syncs),
            Role::Consumer(consumer) => consumer.stale(shard, &self.identity),
        }
    }

    pub fn leave(&mut self, shard: &mut Shard, for_a_while: bool) {
        match std::mem::replace(&mut self.role, Role::Out) {
            Role::Out => {}
            Role::Classic(classic) => classic.leave(shard, &self.identity),
            Role::Consumer(consumer) => {
                self.is_away = for_a_while && self.identity.options.is_static;
                consumer.leave(shard, &self.identity, self.is_away);
            }
        }
    }

    pub fn is_in(&self) -> bool {
        !matches!(self.role, Role::Out)
    }

    /// The member id; empty if the client is no member.
    pub fn member_id(&self) -> &str {
        match &self.role {
            Role::Out => "",
            Role::Classic(classic) => &classic.member_id,
            Role::Consumer(_) => self.identity.consumer_id(),
        }
    }

    /// The generation or member epoch.
    pub fn epoch(&self) -> i32 {
        match &self.role {
            Role::Out => -1,
            Role::Classic(classic) => classic.generation,
            Role::Consumer(consumer) => consumer.epoch,
        }
    }

    /// Called when the member's session must have expired. The client gives up all partitions.
    pub fn lose_all(&mut self) {
        match &mut self.role {
            Role::Out => {}
            Role::Classic(classic) => classic.owned.clear(),
            Role::Consumer(consumer) => consumer.owned.clear(),
        }
    }

    /// The partitions that the client believes it owns.
    pub fn owned(&self) -> Option<&BTreeSet<(Uuid, i32)>> {
        match &self.role {
            Role::Out => None,
            Role::Classic(classic) => Some(&classic.owned),
            Role::Consumer(consumer) => Some(&consumer.owned),
        }
    }

    /// Whether the client only has to send heartbeats. A classic member that joins or syncs has
    /// more to do. The client must be a member.
    pub fn is_settled(&self) -> bool {
        !matches!(&self.role, Role::Classic(classic) if !classic.is_stable())
    }
}

impl Identity {
    pub fn new(group: &'static str, index: usize, options: JoinOptions) -> Self {
        Self {
            group,
            name: format!("m{index}"),
            instance: format!("instance of m{index}"),
            options,
        }
    }

    /// The member id that a consumer generates. A static member never reuses the id of a dynamic
    /// one: Kafka would not assign anything to it until the next epoch.
    pub fn consumer_id(&self) -> &str {
        if self.options.is_static { &self.instance } else { &self.name }
    }

    pub fn instance(&self) -> Option<Str<'static>> {
        self.options.is_static.then(|| self.instance.clone().into())
    }

    /// The topics to which the client subscribes.
    pub fn topics(&self) -> impl Iterator<Item = &'static str> {
        let options = self.options;
        let wants = move |(bit, name): &(usize, &str)| {
            if options.has_regex && !options.is_classic {
                name.starts_with('a')
            } else {
                options.topics & 1 << bit != 0
            }
        };
        TOPICS.into_iter().enumerate().filter(wants).map(|(_, name)| name)
    }
}
