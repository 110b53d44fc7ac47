//! Creates the clients of a run, once its topics exist.

use crate::client::{
    Admin, Book, COMPACTED, Committer, Converter, Granter, Hostile, Limiter, Meddler, Producer,
    Raw, Reader, STREAMED, Several, Sharer, SimMember, TRANSACTED, TRANSACTED_PARTITIONS,
    TopicPlan, Transactor, User, new_members,
};
use crate::event::TimedEvent;
use crate::world::{CHECK_EVERY, Machine, Phase, World};
use loadgen::plan::Protocol;
use std::collections::BTreeSet;

/// A topic that never exists.
const ABSENT: &str = "absent";

/// The number of groups of a client that names several groups in a request.
const GROUPS_OF_SEVERAL: u32 = 5;

/// The number of consumers in a share group.
const SHARERS_OF_GROUP: u32 = 3;

impl<M: Machine> World<M> {
    pub(in crate::world) fn topic_plans(&mut self) -> Vec<TopicPlan> {
        let count = self.clients.cast_random.between(1, 4);
        let partitions_max = if self.profile.is_crowd() { 40 } else { 9 };
        let topic = |number| TopicPlan {
            name: format!("topic-{number}"),
            partitions: self.clients.cast_random.between(1, partitions_max) as i32,
            configs: &[],
        };
        let mut topics: Vec<_> = (0..count).map(topic).collect();
        let is_compacted = self.clients.cast_random.chance(0.5);
        topics.push(TopicPlan {
            name: TRANSACTED.to_owned(),
            partitions: TRANSACTED_PARTITIONS,
            configs: if is_compacted { &COMPACTED } else { &[] },
        });
        topics.extend(STREAMED.map(|name| {
            let (name, partitions) = (name.to_owned(), 2);
            TopicPlan { name, partitions, configs: &[] }
        }));
        topics
    }

    /// Called when the topics exist: all other clients start, and faults begin.
    pub(crate) fn topics_created(&mut self) {
        if self.phase != Phase::CreatingTopics {
            return;
        }
        // The image may still be on its way to some shards.
        let Some(mut found) = self.node.topics() else { return self.arm_client(0) };
        // Other clients must not use the topics of transactions and of streams groups.
        let is_left = |name: &str| name == TRANSACTED || STREAMED.contains(&name);
        found.retain(|topic| !is_left(&topic.name));
        let topics: Vec<(String, i32)> =
            found.iter().map(|it| (it.name.to_string(), it.partitions.cast_signed())).collect();
        found.into_iter().for_each(|topic| _ = self.clients.topics.learn(topic));
        self.phase = Phase::Chaos(self.sim.now() + self.profile.chaos);
        let clients = self.profile.clients.clone();
        let random = &mut self.clients.cast_random;
        let (groups, members) = new_members(&clients, &self.clients.topics, M::HAS_STREAMS, random);
        self.judge.expect_groups(groups);
        let share_groups = clients.sharers.div_ceil(SHARERS_OF_GROUP);
        self.judge.expect_share_groups(
            (0..share_groups).map(share_group),
            self.config.group_share_delivery_count_limit as i16,
            TRANSACTED_PARTITIONS,
        );
        self.clients.members = members;
        let deletes_in_parts = self.profile.sizes.cut_bytes.is_some();
        let committer = |number| {
            let topics = topics.iter().take(1 + number as usize % 2).cloned().collect();
            Committer::new(format!("committer-{number}"), topics, deletes_in_parts)
        };
        let several = |number| {
            let topics: Vec<_> = topics.iter().take(1).cloned().collect();
            let book = |at| {
                Committer::new(format!("several-{number}-{at}"), topics.clone(), deletes_in_parts)
            };
            Raw::Several(Several::new((0..GROUPS_OF_SEVERAL).map(book).collect()))
        };
        let raws = (0..clients.committers).map(committer).map(Raw::Committer);
        let raws = raws.chain((0..clients.several).map(several));
        let converted = topics.first().cloned();
        let converter = |number| Some(Raw::Converter(Converter::new(number, converted.clone()?)));
        let raws = raws.chain((0..clients.converters).filter_map(converter));
        let raws = raws.chain((0..clients.admins).map(|number| Raw::Admin(Admin::new(number))));
        let partitions = u64::from(self.profile.offsets_partitions);
        let random = &mut self.clients.cast_random;
        let readers: Vec<_> = (0..clients.readers)
            .map(|_| Raw::Reader(Reader::new(random.below(partitions) as u32)))
            .collect();
        let raws = raws.chain(readers);
        let first = topics.iter().take(1).map(|(name, _)| name.clone());
        let produced: Vec<String> = first.chain(Admin::topics_of(0)).collect();
        let producer = |_| Raw::Producer(Producer::new(produced.clone()));
        let raws = raws.chain((0..clients.producers).map(producer));
        let transactor = |number| {
            let id = format!("transactor-{}", number / 2);
            Raw::Transactor(Box::new(Transactor::new(id, number % 4 > 0)))
        };
        let raws = raws.chain((0..clients.transactors).map(transactor));
        let sharer = |number| {
            let group = share_group(number / SHARERS_OF_GROUP);
            Raw::Sharer(Box::new(Sharer::new(group, number)))
        };
        let raws = raws.chain((0..clients.sharers).map(sharer));
        let first = topics.iter().take(1).map(|(name, _)| name.clone());
        let asked = first.chain(Admin::topics_of(0).take(1)).chain([ABSENT.to_owned()]);
        let asked: Vec<String> = asked.collect();
        let granters = u32::from(clients.users > 0);
        let granter = |_| Raw::Granter(Granter::new(asked.clone()));
        let raws = raws.chain((0..granters).map(granter));
        let limiters = (0..clients.limiters).map(|_| Raw::Limiter(Limiter::new()));
        let raws = raws.chain(limiters);
        let user = |number| Raw::User(User::new(number, asked.clone()));
        let raws = raws.chain((0..clients.users).map(user));
        let streams: Vec<u32> = streams_groups(&self.clients.members).into_iter().collect();
        let meddlers = clients.meddlers * u32::from(!streams.is_empty());
        let meddler = |_| Raw::Meddler(Meddler::new(streams.iter().copied()));
        let raws = raws.chain((0..meddlers).map(meddler));
        let raws = raws.chain((0..clients.hostile).map(|_| Raw::Hostile(Hostile)));
        self.judge.note_book(self.sim.now(), Book::default());
        let first = self.clients.add(raws);
        (first..self.clients.raws.len() as u32).for_each(|client| self.arm_client(client));
        for member in 0..clients.members {
            if self.clients.cast_random.chance(0.8) {
                self.start_member(member);
            }
        }
        self.sim.after(CHECK_EVERY, TimedEvent::Check);
        self.sim.after(clients.churn_every, TimedEvent::Churn);
        M::plan_faults(self);
    }

    /// The share groups of the run.
    pub(in crate::world) fn share_groups(&self) -> Vec<String> {
        (0..self.profile.clients.sharers.div_ceil(SHARERS_OF_GROUP)).map(share_group).collect()
    }

    /// Wakes the raw clients that still have work at rest: those of share groups.
    pub(in crate::world) fn wake_sharers(&mut self) {
        for client in 0..self.clients.raws.len() as u32 {
            if self.clients.raws[client as usize].raw.is_busy_at_rest() {
                self.arm_client(client);
            }
        }
    }
}

/// The numbers of the streams groups.
fn streams_groups(members: &[SimMember]) -> BTreeSet<u32> {
    let plans = members.iter().map(|sim| &sim.member.plan().group);
    let streams = plans.filter(|group| matches!(group.protocol, Protocol::Streams(_)));
    streams.map(|group| group.index.0).collect()
}

fn share_group(number: u32) -> String {
    format!("sharers-{number}")
}
