//! Committed and fetched offsets: each partition's [`Register`], and the rule
//! `fenced-commit-accepted`.
//!
//! The rule concerns two commits of the same partition. The first, of the newer owner, was
//! acknowledged. The second was sent after that and has an older epoch. The coordinator must refuse
//! the second.
//!
//! - Classic group: the coordinator accepts commits of the current generation only. The newer
//!   generation was already current when the first commit was acknowledged.
//! - Consumer group: epochs of members may differ, so the rule applies only while the sender of the
//!   second commit believes that it owns the partition. The newer owner got the partition in a
//!   newer epoch, so the coordinator has taken it from the sender. The sender did not give it up,
//!   so the coordinator has removed the sender from the group. (If the partition had been assigned
//!   to the sender again, the sender would have a newer epoch.) If the sender's lease shows that it
//!   was not removed, the partition has two owners, which is another rule.
//!
//! The epochs of a group without members may begin with the first again. So only commits of one
//! incarnation are compared.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::found::Found;
use super::group::{Facts, deletion};
use super::register::{NO_OFFSET, Register, Source, Write};
use crate::event::{Event, EventKind};
use crate::history::Kind;
use crate::plan::{MemberIndex, Partition};
use crate::time::Time;

#[derive(Default)]
pub(super) struct Commits {
    partitions: HashMap<Partition, Committed>,
    in_flight: BTreeMap<(MemberIndex, u32), InFlight>,
    deleted: Option<Write>,
}

#[derive(Default)]
struct Committed {
    register: Register,
    newest: Option<Newest>,
}

/// The acknowledged commit with the newest epoch. If several have this epoch, the first.
#[derive(Clone, Copy)]
struct Newest {
    member: MemberIndex,
    id: u32,
    epoch: i32,
    incarnation: u32,
    offset: i64,
    sent: Time,
    at: Time,
}

struct InFlight {
    sent: Time,
    epoch: i32,
    offsets: Arc<[(Partition, i64)]>,
    /// Whether the member owned all partitions of the commit when it sent the commit.
    held: bool,
    incarnation: u32,
}

impl Commits {
    pub(super) fn sent(
        &mut self,
        event: &Event,
        id: u32,
        epoch: i32,
        offsets: &Arc<[(Partition, i64)]>,
        held: bool,
        facts: &Facts,
    ) {
        let (member, sent) = (event.member, event.at);
        for (partition, value) in offsets.iter() {
            let of = Source::Commit { member, id, epoch };
            let write = Write { of, value: *value, sent, at: Time::MAX, followed_by: None };
            self.committed(*partition).register.write(write);
        }
        let (offsets, incarnation) = (offsets.clone(), facts.incarnation);
        let in_flight = InFlight { sent, epoch, offsets, held, incarnation };
        self.in_flight.insert((member, id), in_flight);
    }

    /// Handles the answer to a commit. `sender_until` is the time until which the sender is
    /// certainly a member.
    pub(super) fn answered(
        &mut self,
        event: &Event,
        id: u32,
        refused: &[(Partition, i16)],
        sender_until: Time,
        facts: &Facts,
        found: &mut Found,
    ) {
        let member = event.member;
        let Some(commit) = self.in_flight.remove(&(member, id)) else { return };
        // The earliest time from which the coordinator must refuse the commit if there is a newer
        // owner. A consumer that believes it owns all that it commits is certainly a member until
        // its lease ends. `MAX` means that the rule does not apply.
        let may_be_fenced_by = match facts.group.protocol {
            Kind::Classic => Time::ZERO,
            Kind::Consumer if commit.held => sender_until,
            Kind::Consumer
            | Kind::Manual
            | Kind::Producer
            | Kind::Reader
            | Kind::Share
            | Kind::Streams
            | Kind::Migrating => Time::MAX,
        };
        let refused: HashMap<_, _> = refused.iter().copied().collect();
        for (partition, offset) in commit.offsets.iter() {
            let committed = self.partitions.entry(*partition).or_default();
            match refused.get(partition) {
                None => {
                    let certainly = event.at + facts.group.clock_error;
                    committed.register.answered(member, id, certainly);
                    let this = commit.acknowledged(event, id, *offset);
                    committed.judge(this, may_be_fenced_by, *partition, facts, found);
                }
                Some(error) if has_no_effect(*error) => committed.register.refused(member, id),
                Some(_) => committed.register.unanswered(member, id),
            }
        }
    }

    pub(super) fn unknown(&mut self, member: MemberIndex, id: u32) {
        let Some(commit) = self.in_flight.remove(&(member, id)) else { return };
        for (partition, _) in commit.offsets.iter() {
            self.committed(*partition).register.unanswered(member, id);
        }
    }

    /// Called when the member has ended: its commits in flight will never be answered.
    pub(super) fn ended(&mut self, member: MemberIndex) {
        let ids: Vec<u32> = self
            .in_flight
            .range((member, 0)..=(member, u32::MAX))
            .map(|((_, id), _)| *id)
            .collect();
        for id in ids {
            self.unknown(member, id);
        }
    }

    pub(super) fn fetched(
        &mut self,
        event: &Event,
        sent: Time,
        offsets: &[(Partition, i64)],
        facts: &Facts,
        found: &mut Found,
    ) {
        for (partition, value) in offsets {
            let register = &self.committed(*partition).register;
            if let Some(last) = register.read(*value, sent, event.at + facts.group.clock_error) {
                report_lost(event, sent, *partition, *value, last, facts, found);
            }
        }
    }

    pub(super) fn deleted(&mut self, sent: Time, at: Time) {
        let write = Write { of: Source::Deletion, value: NO_OFFSET, sent, at, followed_by: None };
        for committed in self.partitions.values_mut() {
            committed.register.write(write);
        }
        self.deleted = Some(write);
    }

    fn committed(&mut self, partition: Partition) -> &mut Committed {
        self.partitions.entry(partition).or_insert_with(|| {
            let mut committed = Committed::default();
            self.deleted.into_iter().for_each(|write| committed.register.write(write));
            committed
        })
    }
}

impl InFlight {
    fn acknowledged(&self, event: &Event, id: u32, offset: i64) -> Newest {
        Newest {
            member: event.member,
            id,
            epoch: self.epoch,
            incarnation: self.incarnation,
            offset,
            sent: self.sent,
            at: event.at,
        }
    }
}

impl Committed {
    fn judge(
        &mut self,
        this: Newest,
        may_be_fenced_by: Time,
        partition: Partition,
        facts: &Facts,
        found: &mut Found,
    ) {
        let newer = |newest: &Newest| {
            newest.incarnation == this.incarnation
                && newest.incarnation == facts.incarnation
                && newest.epoch > this.epoch
                && newest.member != this.member
                && newest.at + facts.group.clock_error < this.sent
        };
        match self.newest {
            Some(newest) if newer(&newest) && may_be_fenced_by <= newest.at => {
                report_fenced(this, newest, partition, facts, found);
            }
            Some(newest)
                if newest.epoch >= this.epoch && newest.incarnation == this.incarnation => {}
            Some(_) | None => self.newest = Some(this),
        }
    }
}

/// Whether a coordinator answers this error before it writes anything. Other errors (not
/// coordinator, timeouts) may come after the write.
fn has_no_effect(error: i16) -> bool {
    const UNKNOWN_TOPIC_OR_PARTITION: i16 = 3;
    const OFFSET_METADATA_TOO_LARGE: i16 = 12;
    const ILLEGAL_GENERATION: i16 = 22;
    const INVALID_GROUP_ID: i16 = 24;
    const UNKNOWN_MEMBER_ID: i16 = 25;
    const REBALANCE_IN_PROGRESS: i16 = 27;
    const TOPIC_AUTHORIZATION_FAILED: i16 = 29;
    const GROUP_AUTHORIZATION_FAILED: i16 = 30;
    const UNSUPPORTED_VERSION: i16 = 35;
    const GROUP_ID_NOT_FOUND: i16 = 69;
    const FENCED_INSTANCE_ID: i16 = 82;
    const UNKNOWN_TOPIC_ID: i16 = 100;
    const FENCED_MEMBER_EPOCH: i16 = 110;
    const STALE_MEMBER_EPOCH: i16 = 113;
    matches!(
        error,
        UNKNOWN_TOPIC_OR_PARTITION
            | OFFSET_METADATA_TOO_LARGE
            | ILLEGAL_GENERATION
            | INVALID_GROUP_ID
            | UNKNOWN_MEMBER_ID
            | REBALANCE_IN_PROGRESS
            | TOPIC_AUTHORIZATION_FAILED
            | GROUP_AUTHORIZATION_FAILED
            | UNSUPPORTED_VERSION
            | GROUP_ID_NOT_FOUND
            | FENCED_INSTANCE_ID
            | UNKNOWN_TOPIC_ID
            | FENCED_MEMBER_EPOCH
            | STALE_MEMBER_EPOCH
    )
}

fn report_fenced(
    this: Newest,
    newest: Newest,
    partition: Partition,
    facts: &Facts,
    found: &mut Found,
) {
    found.add("fenced-commit-accepted", this.at, &facts.group.id, || {
        let what = format!(
            "member {} committed partition {} of topic {} with epoch {}, and was accepted, after a \
             commit of member {} with epoch {} had been acknowledged",
            this.member.0,
            partition.number,
            partition.topic.0,
            this.epoch,
            newest.member.0,
            newest.epoch
        );
        let events = [newest, this].into_iter().flat_map(|commit| commit.events(partition, facts));
        (what, events.collect())
    });
}

impl Newest {
    fn events(&self, partition: Partition, facts: &Facts) -> [Event; 2] {
        let write = Write {
            of: Source::Commit { member: self.member, id: self.id, epoch: self.epoch },
            value: self.offset,
            sent: self.sent,
            at: self.at,
            followed_by: None,
        };
        let answered = EventKind::CommitAnswered { id: self.id, refused: Arc::from([]) };
        let group = facts.group.index;
        [
            write.event(partition, facts),
            Event { at: self.at, group, member: self.member, kind: answered },
        ]
    }
}

impl Write {
    fn event(&self, partition: Partition, facts: &Facts) -> Event {
        match self.of {
            Source::Commit { member, id, epoch } | Source::Unanswered { member, id, epoch } => {
                let offsets = Arc::from([(partition, self.value)]);
                let kind = EventKind::CommitSent { id, epoch, offsets };
                Event { at: self.sent, group: facts.group.index, member, kind }
            }
            Source::Deletion => deletion(facts, self.sent, self.at),
        }
    }
}

fn report_lost(
    event: &Event,
    sent: Time,
    partition: Partition,
    value: i64,
    last: Write,
    facts: &Facts,
    found: &mut Found,
) {
    let (rule, after) = match last.of {
        Source::Deletion => ("deleted-group-came-back", "the group was deleted".to_owned()),
        Source::Commit { .. } | Source::Unanswered { .. } => {
            ("commit-lost", format!("{} was committed and acknowledged", last.value))
        }
    };
    found.add(rule, event.at, &facts.group.id, || {
        let what = format!(
            "partition {} of topic {} was read as {value}, after {after}",
            partition.number, partition.topic.0
        );
        let kind = EventKind::Fetched { sent, offsets: Arc::from([(partition, value)]) };
        let read = Event { kind, ..event.clone() };
        let answered = match last.of {
            Source::Commit { member, id, .. } => Some(Event {
                at: last.at,
                group: facts.group.index,
                member,
                kind: EventKind::CommitAnswered { id, refused: Arc::from([]) },
            }),
            Source::Unanswered { .. } | Source::Deletion => None,
        };
        (
            what,
            [Some(last.event(partition, facts)), answered, Some(read)]
                .into_iter()
                .flatten()
                .collect(),
        )
    });
}
