//! Makes verdicts of coordinators arrive late, after the marker that ends their transaction. This
//! may occur: messages of transactions arrive in any order, and clients stop waiting for answers.

use super::Node;
use super::shard::{LateVerdict, SimShard};
use crate::coverage::Seen;
use crate::random::Random;
use muster_server::shard::{Letter, Message, ToTransactions};
use muster_transactions::message::ToSlotBody;
use std::collections::BTreeSet;

impl Node {
    /// Removes some of the verdicts from letters to a shard, and holds them back. Returns earlier
    /// verdicts that arrive now, after these letters: those for a producer whose marker is among
    /// the letters. From `verdicts_late_until` on no verdict is held back, and all earlier ones
    /// arrive.
    pub(super) fn late_verdicts(&mut self, to: u32, message: &mut Message) -> Vec<Message> {
        let Message::Transactions(ToTransactions::Letters { from, letters }) = message else {
            return Vec::new();
        };
        let now = self.now;
        let may_hold = now < self.verdicts_late_until;
        let chance = if may_hold { self.setup.late_verdict_chance } else { 0.0 };
        let Some(sim) = self.process.shard(to) else { return Vec::new() };
        let ended: BTreeSet<i64> = letters.iter().filter_map(ended_producer).collect();
        let is_due = |held: &mut LateVerdict| {
            chance == 0.0 || asking_producer(&held.1).is_some_and(|id| ended.contains(&id))
        };
        let due: Vec<_> = sim.late.extract_if(.., is_due).collect();
        sim.hold_some(*from, letters, (&mut self.mail, chance));
        self.coverage.add(Seen::LateVerdict, due.len() as u64);
        due.into_iter().map(mail).collect()
    }

    /// Sends all verdicts that are held back, and holds back no more: from now on requests must be
    /// answered in time, and a shard that gets no other mail would never get these verdicts.
    pub(crate) fn release_verdicts(&mut self) {
        self.verdicts_late_until = 0;
        for (to, number) in (0..self.process.shards.len()).zip(0..) {
            let held = std::mem::take(&mut self.process.shards[to].late);
            self.coverage.add(Seen::LateVerdict, held.len() as u64);
            held.into_iter().for_each(|held| self.deliver(number, mail(held)));
        }
    }
}

impl SimShard {
    fn hold_some(
        &mut self,
        from: u32,
        letters: &mut Vec<Letter>,
        (random, chance): (&mut Random, f64),
    ) {
        let is_late =
            |letter: &mut Letter| asking_producer(letter).is_some() && random.chance(chance);
        self.late.extend(letters.extract_if(.., is_late).map(|letter| (from, letter)));
    }
}

fn mail((from, letter): LateVerdict) -> Message {
    ToTransactions::Letters { from, letters: vec![letter] }.into()
}

/// The producer whose verdict `letter` carries. `None` for any other letter.
fn asking_producer(letter: &Letter) -> Option<i64> {
    match letter {
        Letter::ToSlot { message, .. } => match &message.body {
            ToSlotBody::Verdict(verdict) => Some(verdict.producer.id),
            _ => None,
        },
        Letter::ToCoordinator { .. } => None,
    }
}

/// The producer whose transaction is ended by the marker in `letter`. `None` for any other letter.
fn ended_producer(letter: &Letter) -> Option<i64> {
    match letter {
        Letter::ToSlot { message, .. } => match &message.body {
            ToSlotBody::Marker(marker) => Some(marker.producer.id),
            _ => None,
        },
        Letter::ToCoordinator { .. } => None,
    }
}
