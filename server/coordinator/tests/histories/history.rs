//! A history: the actions of twelve clients in three groups.

use crate::action::{Action, CLIENTS, JoinOptions, Plan, TOPICS};
use crate::client::{Client, Identity};
use crate::common::read;
use crate::shard::Shard;
use muster_codec::messages::*;
use muster_codec::records::GroupRecord;
use muster_codec::{Response, Uuid};
use muster_coordinator::Config;
use std::collections::{BTreeMap, BTreeSet};

/// The groups of the clients, repeated in this order. The mixed group has clients of both
/// protocols.
const GROUPS: [&str; 4] = ["classic", "consumer", "mixed", "mixed"];

/// Pauses between heartbeats, in ms. Former members expire meanwhile: the sum exceeds the longest
/// session plus a rebalance.
const QUIET_ROUNDS: [i64; 25] = [4_000; 25];

/// The number of rounds of heartbeats within which a group settles after the last change. A member
/// of the consumer protocol revokes partitions, reports this, and gets partitions that others have
/// revoked. For each of these, a classic member needs three requests (Heartbeat, JoinGroup,
/// SyncGroup). If the group becomes classic, it needs three more.
const SETTLING_ROUNDS: usize = 16;

/// Longer than `group.consumer.assignment.interval.ms`.
const ROUND_MS: i64 = 1_100;

pub struct History {
    pub shard: Shard,
    clients: Vec<Client>,
}

impl History {
    pub fn of(plan: &Plan) -> Self {
        let mut shard = Shard::new(config(plan));
        shard.topics.make("a", 3);
        shard.topics.make("b", 2);
        let mut history = Self { shard, clients: (0..CLIENTS).map(client).collect() };
        for action in &plan.actions {
            history.act(action);
            history.check_owned();
        }
        history
    }

    /// Lets the clients that are members continue until all other members have expired. Each group
    /// must then settle. It must settle again after topics grow, and again after a member leaves.
    pub fn settle_down(&mut self) {
        for pause_ms in QUIET_ROUNDS {
            self.round();
            self.shard.advance(pause_ms);
            self.check_owned();
        }
        self.settle();
        TOPICS.into_iter().for_each(|name| self.shard.topics.grow(name));
        self.settle();
        for group in GROUPS {
            let of_group = |it: &&mut Client| it.identity.group == group && it.is_in();
            if let Some(client) = self.clients.iter_mut().find(of_group) {
                client.leave(&mut self.shard, false);
            }
        }
        self.settle();
    }

    /// Waits until the groups are settled. Heartbeats precede the first check, because a group
    /// notices changed topics only at its next heartbeat.
    fn settle(&mut self) {
        for _ in 0..SETTLING_ROUNDS {
            self.round();
            self.shard.advance(ROUND_MS);
            self.check_owned();
            if self.is_settled() {
                return self.stays_settled();
            }
        }
        panic!("not settled: {:?}", self.shard.witness.groups);
    }

    fn stays_settled(&mut self) {
        let settled = self.shard.log.len();
        self.round();
        let is_resolution =
            |it: &GroupRecord<'_>| matches!(it, GroupRecord::ConsumerGroupRegularExpression(..));
        let written = self.shard.log[settled..].iter().map(read);
        let written: Vec<_> = written.filter(|it| !is_resolution(it)).collect();
        assert!(written.is_empty(), "a settled group writes {written:?}");
    }

    fn round(&mut self) {
        for who in 0..CLIENTS {
            self.clients[who].step(&mut self.shard, true, false);
            self.check_owned();
        }
    }

    fn act(&mut self, action: &Action) {
        let Self { shard, clients } = self;
        match *action {
            Action::Join { who, options } => {
                let is_classic = match clients[who].identity.group {
                    "classic" => true,
                    "consumer" => false,
                    _ => options.is_classic,
                };
                clients[who].join(shard, JoinOptions { is_classic, ..options });
            }
            Action::Step { who, reports, is_lost } => clients[who].step(shard, reports, is_lost),
            Action::Rejoin { who } => clients[who].rejoin(shard),
            Action::Resubscribe { who, topics } => clients[who].resubscribe(shard, topics),
            Action::Stale { who, syncs } => clients[who].stale(shard, syncs),
            Action::Leave { who, for_a_while } => clients[who].leave(shard, for_a_while),
            Action::Remove { who, other } => self.remove(who, other),
            Action::Commit { who, topic, is_old } => self.commit(who, topic, is_old),
            Action::CommitSimple { who, topic } => {
                self.commit_as(clients_group(who), "", -1, topic, 9);
            }
            Action::DeleteOffsets { who, topic } => {
                let partitions = vec![OffsetDeleteRequestPartition { partition_index: 0 }];
                let name = TOPICS[topic].into();
                let topics = vec![OffsetDeleteRequestTopic { name, partitions }];
                let group_id = clients_group(who).into();
                shard.ask(0, OffsetDeleteRequest { group_id, topics });
            }
            Action::DeleteGroup { who } => {
                let groups_names = vec![clients_group(who).into()];
                shard.ask(2, DeleteGroupsRequest { groups_names });
            }
            Action::Make { topic } => shard.topics.make(TOPICS[topic], 2),
            Action::Grow { topic } => shard.topics.grow(TOPICS[topic]),
            Action::Delete { topic } => shard.delete_topic(TOPICS[topic]),
            Action::Advance { ms } => shard.advance(ms),
            Action::Load => shard.load(),
        }
    }

    fn remove(&mut self, who: usize, other: usize) {
        let members = [who, other].map(|it| MemberIdentity {
            member_id: self.clients[it].member_id().to_owned().into(),
            ..Default::default()
        });
        let request = LeaveGroupRequest {
            group_id: clients_group(who).into(),
            members: members.into(),
            ..Default::default()
        };
        self.shard.ask(5, request);
    }

    /// Commits an offset. A commit of an old version has its own retention time.
    fn commit(&mut self, who: usize, topic: usize, is_old: bool) {
        let client = &self.clients[who];
        let (member_id, epoch) = (client.member_id().to_owned(), client.epoch());
        self.commit_as(clients_group(who), &member_id, epoch, topic, if is_old { 4 } else { 9 });
    }

    fn commit_as(&mut self, group: &str, member_id: &str, epoch: i32, topic: usize, version: i16) {
        let committed_offset = self.shard.now;
        let partition = OffsetCommitRequestPartition { committed_offset, ..Default::default() };
        let topic = OffsetCommitRequestTopic {
            name: TOPICS[topic].into(),
            partitions: vec![partition],
            ..Default::default()
        };
        let request = OffsetCommitRequest {
            group_id: group.to_owned().into(),
            generation_id_or_member_epoch: epoch,
            member_id: member_id.to_owned().into(),
            retention_time_ms: if version == 4 { 5_000 } else { -1 },
            topics: vec![topic],
            ..Default::default()
        };
        self.shard.ask(version, request);
    }

    /// In a consumer group, no two clients may believe that they own the same partition. A client
    /// that is no longer a member gives up all partitions.
    fn check_owned(&mut self) {
        for (id, group) in &self.shard.witness.groups {
            let mut owners: BTreeMap<(Uuid, i32), String> = BTreeMap::new();
            let of_group = |it: &&mut Client| it.identity.group == id && it.is_in();
            for client in self.clients.iter_mut().filter(of_group) {
                let (epoch, is_settled) = (client.epoch(), client.is_settled());
                client.has_old_partitions = group.is_consumer
                    && (group.was_upgraded_amid(epoch, is_settled)
                        || client.has_old_partitions && !is_settled);
                if !group.is_consumer {
                    continue;
                }
                if !group.members.contains_key(client.member_id()) {
                    client.lose_all();
                }
                if client.has_old_partitions {
                    continue;
                }
                for partition in client.owned().into_iter().flatten() {
                    let other = owners.insert(*partition, client.member_id().to_owned());
                    assert_eq!(other, None, "{} has {partition:?} too", client.member_id());
                }
            }
        }
    }

    /// Whether each group with members is stable, and its members are up to date.
    fn is_settled(&mut self) -> bool {
        let states = self.states();
        let groups: BTreeSet<&str> = GROUPS.into_iter().collect();
        groups.into_iter().all(|group| {
            let of_group = |it: &&Client| it.identity.group == group && it.is_in();
            let live: Vec<&Client> = self.clients.iter().filter(of_group).collect();
            live.is_empty()
                || states.get(group).is_some_and(|state| state == "Stable")
                    && live.iter().all(|client| client.is_settled())
                    && self.is_served(group, &live)
        })
    }

    /// Whether a consumer group has exactly these members, all at its epoch, and they own all
    /// partitions of their topics.
    fn is_served(&self, group: &str, live: &[&Client]) -> bool {
        let group = &self.shard.witness.groups[group];
        if !group.is_consumer {
            return true;
        }
        let members: BTreeSet<&str> = group.members.keys().map(String::as_str).collect();
        let wanted: BTreeSet<(Uuid, i32)> = live
            .iter()
            .flat_map(|client| client.identity.topics())
            .flat_map(|name| self.shard.topics.partitions_of(name))
            .collect();
        let owned: BTreeSet<(Uuid, i32)> =
            live.iter().filter_map(|client| client.owned()).flatten().copied().collect();
        members == live.iter().map(|client| client.member_id()).collect()
            && group.members.values().all(|member| member.epoch == group.epoch)
            && (owned == wanted || group.has_classic_target())
    }

    fn states(&mut self) -> BTreeMap<String, String> {
        let asked = self.shard.ask(5, ListGroupsRequest::default());
        let answer = self.shard.answer_to(asked);
        let Some(Response::ListGroups(response)) = answer else { panic!("{answer:?}") };
        let groups = response.groups.into_iter();
        groups.map(|it| (it.group_id.to_string(), it.group_state.to_string())).collect()
    }
}

fn client(index: usize) -> Client {
    let options = JoinOptions {
        is_classic: false,
        is_static: false,
        topics: 0,
        has_regex: false,
        is_eager: false,
        version: 0,
    };
    Client::new(Identity::new(clients_group(index), index, options))
}

fn clients_group(who: usize) -> &'static str {
    GROUPS[who % GROUPS.len()]
}

fn config(plan: &Plan) -> Config {
    Config {
        group_initial_rebalance_delay_ms: 500,
        group_max_size: 4,
        group_consumer_max_size: 5,
        group_consumer_assignment_interval_ms: plan.assignment_interval_ms,
        group_consumer_regex_refresh_interval_ms: 10_000,
        offsets_retention_ms: 60_000,
        offsets_retention_check_interval_ms: 10_000,
        ..Config::default()
    }
}
