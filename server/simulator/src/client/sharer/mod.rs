//! A consumer of a share group (KIP-932): a member of its group, with a share session on each shard
//! that leads one of its partitions. It accepts, releases, rejects and renews the records that it
//! has acquired. It also forgets some of them, and sometimes dies. It reports all this as
//! [`Delivery`]s, which the judge collects from all members.

mod acknowledging;
mod answers;
mod report;
mod requests;

pub(crate) use report::{Acknowledgement, Delivery, Kind, Number};

use super::transactor::{PARTITIONS, TRANSACTED};
use super::{NextRequest, Surroundings};
use crate::random::Random;
use muster_codec::{Response, Uuid};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug)]
pub(crate) struct Sharer {
    group: String,
    number: u32,
    /// How often the member has died. Each time it begins again with another member id.
    lives: u32,
    member_epoch: i32,
    topic_id: Uuid,
    assigned: BTreeSet<i32>,
    /// The shard to ask for each partition. If this shard is not the leader, the next shard is
    /// asked.
    leaders: [u32; PARTITIONS as usize],
    /// The share sessions, by shard.
    sessions: BTreeMap<u32, Session>,
    last_session: u32,
    last_acknowledgement: u32,
    /// The acquired offsets, by partition and offset, with the number of the record. None if there
    /// is no record at the offset.
    held: BTreeMap<(i32, i64), Option<Number>>,
    /// The partitions in which the server may hold records for the member that the member does not
    /// know: it has forgotten them, or an answer was lost. They stay in the member's session, so
    /// that the end of the session releases these records.
    forgotten: BTreeSet<i32>,
    doing: Doing,
    /// The acknowledgements of the request under way.
    under_way: Vec<Acknowledgement>,
    reports: Vec<Delivery>,
    /// Whether the run is at rest, without faults and new records: the member acknowledges
    /// everything until nothing is left.
    is_resting: bool,
    /// The partitions without a lag, as the member has found while the run is at rest.
    done: BTreeSet<i32>,
    /// The partitions that have no start offset yet, because nothing was acknowledged there.
    unstarted: BTreeSet<i32>,
    is_drained: bool,
    /// Whether the last heartbeat was not answered. The lost answer may have had an assignment. To
    /// get it again, the next heartbeat names the topics.
    is_unsure: bool,
}

#[derive(Debug, Clone, Default)]
struct Session {
    number: u32,
    epoch: i32,
    partitions: BTreeSet<i32>,
}

/// The request under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    Join,
    Heartbeat,
    Leave,
    Fetch {
        shard: u32,
    },
    Acknowledge {
        shard: u32,
        ends: bool,
    },
    /// Renews locks only.
    Renew {
        shard: u32,
    },
    Describe,
}

impl Sharer {
    pub(crate) fn new(group: String, number: u32) -> Self {
        Self {
            group,
            number,
            lives: 0,
            member_epoch: 0,
            topic_id: Uuid::default(),
            assigned: BTreeSet::new(),
            leaders: [0; PARTITIONS as usize],
            sessions: BTreeMap::new(),
            last_session: 0,
            last_acknowledgement: 0,
            held: BTreeMap::new(),
            forgotten: BTreeSet::new(),
            doing: Doing::Join,
            under_way: Vec::new(),
            reports: vec![Delivery::Began],
            is_resting: false,
            done: BTreeSet::new(),
            unstarted: BTreeSet::new(),
            is_drained: false,
            is_unsure: false,
        }
    }

    pub(crate) fn group(&self) -> &str {
        &self.group
    }

    /// The partitions that the group has finished, as the member has found at rest.
    pub(crate) fn done(&self) -> impl Iterator<Item = i32> {
        self.done.iter().copied()
    }

    /// The partitions in which the group had acknowledged nothing when the run was at rest.
    pub(crate) fn unstarted(&self) -> impl Iterator<Item = i32> {
        self.unstarted.iter().copied()
    }

    /// Ends the member, because its group has finished all records.
    pub(crate) fn finish(&mut self) {
        self.is_drained = true;
    }

    /// Whether the member's group has finished all records.
    pub(crate) fn is_drained(&self) -> bool {
        self.is_drained
    }

    /// The reports since the last call.
    pub(crate) fn take_reports(&mut self) -> Vec<Delivery> {
        std::mem::take(&mut self.reports)
    }

    pub(super) fn next_request(&mut self, around: &mut Surroundings<'_>) -> NextRequest {
        self.is_resting = around.is_resting;
        if around.is_chaos && around.random.chance(0.01) {
            self.die();
            around.hangs_up = true;
        }
        if around.is_chaos && around.random.chance(0.03) {
            self.forget_some(around.random);
        }
        self.doing = self.choose(around);
        let (shard, version, request) = self.request(around);
        NextRequest { shard, version, request }
    }

    /// Notes that the connection to a shard was lost, and with it the session there.
    pub(super) fn lost(&mut self, shard: u32) {
        self.end_session(shard, false);
    }

    /// # Errors
    /// A member may not get this answer.
    pub(super) fn answered(&mut self, response: Option<&Response<'_>>) -> Result<(), String> {
        let Some(response) = response else {
            self.is_unsure |= self.doing == Doing::Heartbeat;
            self.unanswered();
            return Ok(());
        };
        match response {
            Response::ShareGroupHeartbeat(body) => self.heartbeat_answered(body),
            Response::ShareFetch(body) => self.fetched(body),
            Response::ShareAcknowledge(body) => self.acknowledged(body),
            Response::DescribeShareGroupOffsets(body) => self.described(body),
            other => Err(format!("{other:?} is no answer to {:?}", self.doing)),
        }
    }

    fn member_id(&self) -> String {
        format!("{}-{}-{}", self.group, self.number, self.lives)
    }

    /// Ends the member with everything that it holds. It comes back as another member.
    fn die(&mut self) {
        let shards: Vec<u32> = self.sessions.keys().copied().collect();
        shards.into_iter().for_each(|shard| self.end_session(shard, false));
        self.held.clear();
        self.lives += 1;
        self.forget_membership();
    }

    fn forget_membership(&mut self) {
        self.member_epoch = 0;
        self.assigned.clear();
    }

    /// Ends the session with a shard, and reports this. The server releases the records of the
    /// session's partitions, so the member forgets those that it held.
    fn end_session(&mut self, shard: u32, closed: bool) {
        let Some(session) = self.sessions.remove(&shard) else { return };
        self.reports.push(Delivery::SessionEnded { session: session.number, closed });
        for partition in session.partitions {
            self.held.retain(|(of, _), _| *of != partition);
            self.forgotten.remove(&partition);
        }
    }

    /// Forgets some held offsets, like a slow member whose locks end before it acknowledges.
    fn forget_some(&mut self, random: &mut Random) {
        let forgotten = self.held.extract_if(.., |_, _| random.chance(0.5));
        self.forgotten.extend(forgotten.map(|((partition, _), _)| partition));
    }

    fn choose(&self, around: &mut Surroundings<'_>) -> Doing {
        let random = &mut *around.random;
        if self.member_epoch == 0 {
            return Doing::Join;
        }
        if around.is_chaos && random.chance(0.01) {
            return Doing::Leave;
        }
        if self.is_resting && random.chance(0.1) {
            return Doing::Describe;
        }
        let Some(partition) = self.some_partition(random.below(60) as usize) else {
            return Doing::Heartbeat;
        };
        let shard = self.leader(partition, around.placement.shards);
        let has_session = self.sessions.contains_key(&shard);
        let holds = has_session && !self.held.is_empty();
        match random.below(12) {
            0..=2 => Doing::Heartbeat,
            3..=5 if holds => Doing::Acknowledge { shard, ends: random.chance(0.05) },
            6 if holds && around.is_chaos => Doing::Renew { shard },
            7 if around.is_chaos => Doing::Describe,
            _ => Doing::Fetch { shard },
        }
    }

    /// A partition that is assigned to the member, or of which the member still holds records.
    fn some_partition(&self, number: usize) -> Option<i32> {
        let held = self.held.keys().map(|(partition, _)| *partition);
        let all: BTreeSet<i32> = self.assigned.iter().copied().chain(held).collect();
        all.iter().nth(number % all.len().max(1)).copied()
    }

    fn leader(&self, partition: i32, shards: u32) -> u32 {
        self.leaders[partition as usize] % shards
    }
}

/// The configs of the groups: they read committed records, from the first record on.
pub(crate) const CONFIGS: [(&str, &str); 2] =
    [("share.auto.offset.reset", "earliest"), ("share.isolation.level", "read_committed")];

/// The topic that the groups consume.
pub(crate) const TOPIC: &str = TRANSACTED;
