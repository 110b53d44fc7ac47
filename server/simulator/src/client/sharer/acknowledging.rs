//! The acknowledgements of a consumer of a share group.

use super::{Acknowledgement, Delivery, Kind, Number, Sharer};
use crate::random::Random;
use muster_codec::messages::AcknowledgementBatch;

/// Divisor and remainder. A record with such a number is one that no consumer can process.
const POISON: (i64, i64) = (13, 5);

impl Sharer {
    /// Chooses some of the held offsets of a partition in a session, and notes the choice.
    pub(super) fn choose_some(
        &mut self,
        (session, partition): (u32, i32),
        renews: bool,
        is_chaos: bool,
        random: &mut Random,
    ) -> Vec<AcknowledgementBatch> {
        let share = if is_chaos { random.pick(&[0.3, 0.9, 1.0]) } else { 1.0 };
        let held = self.held.range((partition, i64::MIN)..=(partition, i64::MAX));
        let mut chosen = Vec::new();
        for ((_, offset), number) in held {
            if random.chance(share) {
                let kind = if renews { Kind::Renew } else { kind(*number, is_chaos, random) };
                let (id, offset, number) = (self.last_acknowledgement, *offset, *number);
                self.last_acknowledgement += 1;
                let it = Acknowledgement { id, session, partition, offset, number, kind };
                chosen.push(it);
            }
        }
        for it in &chosen {
            self.held.remove(&(partition, it.offset));
            self.reports.push(Delivery::Acknowledging(*it));
        }
        let batches = in_batches(&chosen);
        self.under_way.extend(chosen);
        batches
    }

    /// Notes that the pending acknowledgements of a partition were answered.
    pub(super) fn acknowledgements_answered(&mut self, partition: i32, is_done: bool) {
        let of = self.under_way.extract_if(.., |it| it.partition == partition);
        for it in of.collect::<Vec<_>>() {
            if is_done && it.kind == Kind::Renew {
                self.held.insert((partition, it.offset), it.number);
            }
            if is_done {
                self.reports.push(Delivery::Acknowledged(it));
            } else {
                self.unknown(it);
            }
        }
    }

    /// Notes that the acknowledgements under way will not be answered.
    pub(super) fn acknowledgements_lost(&mut self) {
        std::mem::take(&mut self.under_way).into_iter().for_each(|it| self.unknown(it));
    }

    fn unknown(&mut self, it: Acknowledgement) {
        self.forgotten.insert(it.partition);
        self.reports.push(Delivery::Unknown(it));
    }
}

fn kind(number: Option<Number>, is_chaos: bool, random: &mut Random) -> Kind {
    let Some(number) = number else { return Kind::Gap };
    if number.number % POISON.0 == POISON.1 {
        return Kind::Release;
    }
    match random.below(20) {
        0..=2 if is_chaos => Kind::Release,
        3 if is_chaos => Kind::Reject,
        _ => Kind::Accept,
    }
}

/// Puts consecutive offsets into one batch, with a type for each offset if the types differ.
fn in_batches(chosen: &[Acknowledgement]) -> Vec<AcknowledgementBatch> {
    let runs = chosen.chunk_by(|a, b| b.offset == a.offset + 1);
    let batch = |run: &[Acknowledgement]| {
        let mut acknowledge_types: Vec<i8> = run.iter().map(|it| it.kind as i8).collect();
        if acknowledge_types.iter().all(|it| *it == acknowledge_types[0]) {
            acknowledge_types.truncate(1);
        }
        AcknowledgementBatch {
            first_offset: run[0].offset,
            last_offset: run[run.len() - 1].offset,
            acknowledge_types,
        }
    };
    runs.map(batch).collect()
}
