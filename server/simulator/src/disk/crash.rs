//! The effects of a crash on writes that were under way or in the page cache.

use super::Disk;
use super::file::{Change, What};
use crate::coverage::{Coverage, Seen};
use crate::random::Random;

/// The ways in which a server ends without a clean stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Crash {
    /// The process is killed; the machine continues.
    Kill,
    /// The machine loses power.
    PowerLoss,
}

/// The probability of each bad outcome of a write that a crash interrupts, and whether writes are
/// direct.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CrashFaults {
    /// Only some blocks of the write reach the disk.
    pub(crate) torn: f64,
    /// One block of the write has random bytes.
    pub(crate) damaged: f64,
    /// The write goes to another, later place of the file.
    pub(crate) misdirected: f64,
    /// Whether writes in mode `Durable` bypass the page cache.
    pub(crate) direct: bool,
}

enum Fate {
    Kept,
    Lost,
    Torn,
    Damaged,
    Misdirected,
}

impl Disk {
    /// Decides by chance which of the changes that are not durable survive, and whether in whole or
    /// in part. A power loss may also take new names of files, and bring removed names back.
    pub(crate) fn crash(
        &mut self,
        how: Crash,
        faults: &CrashFaults,
        random: &mut Random,
        coverage: &mut Coverage,
    ) {
        if how == Crash::PowerLoss {
            self.forget_names(random, coverage);
        }
        let named: Vec<usize> = self.names.values().map(|inode| inode.0).collect();
        for at in named {
            let pending = std::mem::take(&mut self.files[at].pending);
            for change in pending {
                match how {
                    Crash::Kill => self.survive_kill(at, change, faults, random, coverage),
                    Crash::PowerLoss => {
                        self.survive_power_loss(at, change, faults, random, coverage);
                    }
                }
            }
            self.files[at].see_again();
        }
    }

    /// Loses some new names, and brings some removed names back.
    fn forget_names(&mut self, random: &mut Random, coverage: &mut Coverage) {
        for path in std::mem::take(&mut self.created) {
            if random.chance(0.5) {
                self.names.remove(&path);
                coverage.saw(Seen::FileLost);
            }
        }
        for (path, inode) in std::mem::take(&mut self.removed) {
            if random.chance(0.5) {
                self.names.entry(path).or_insert(inode);
                coverage.saw(Seen::FileBack);
            }
        }
    }

    /// Applies a kill to a change. If the process was notified of the end of the change, the change
    /// survives. Other changes survive in whole, in part, or not at all.
    fn survive_kill(
        &mut self,
        at: usize,
        change: Change,
        faults: &CrashFaults,
        random: &mut Random,
        coverage: &mut Coverage,
    ) {
        if change.done {
            return self.files[at].pending.push(change);
        }
        let faults = &CrashFaults { damaged: 0.0, misdirected: 0.0, ..*faults };
        for what in self.pieces(change.what, faults, random, coverage) {
            match faults.direct {
                true => what.apply(&mut self.files[at].durable),
                false => self.files[at].pending.push(Change { id: change.id, what, done: true }),
            }
        }
    }

    fn survive_power_loss(
        &mut self,
        at: usize,
        change: Change,
        faults: &CrashFaults,
        random: &mut Random,
        coverage: &mut Coverage,
    ) {
        let pieces = self.pieces(change.what, faults, random, coverage);
        pieces.iter().for_each(|what| what.apply(&mut self.files[at].durable));
    }

    /// The parts of a change that reach the file in spite of the crash.
    fn pieces(
        &self,
        what: What,
        faults: &CrashFaults,
        random: &mut Random,
        coverage: &mut Coverage,
    ) -> Vec<What> {
        let (offset, mut data) = match what {
            What::Truncate { .. } if random.chance(0.5) => return vec![what],
            What::Truncate { .. } => return Vec::new(),
            What::Write { offset, data } => (offset, data),
        };
        let block = self.block_bytes;
        let fate = fate(faults, random);
        fate.seen().into_iter().for_each(|seen| coverage.saw(seen));
        match fate {
            Fate::Kept => vec![What::Write { offset, data }],
            Fate::Lost => Vec::new(),
            Fate::Torn => torn(offset, &data, block, random),
            Fate::Damaged => {
                let at = random.below(data.len().div_ceil(block) as u64) as usize * block;
                let end = (at + block).min(data.len());
                let garbage = random.bytes(end - at);
                data[at..end].copy_from_slice(&garbage);
                vec![What::Write { offset, data }]
            }
            Fate::Misdirected => {
                let away = random.between(1, 64) * block as u64;
                vec![What::Write { offset: offset + away, data }]
            }
        }
    }
}

impl Fate {
    fn seen(&self) -> Option<Seen> {
        match self {
            Self::Kept => None,
            Self::Lost => Some(Seen::LostWrite),
            Self::Torn => Some(Seen::TornWrite),
            Self::Damaged => Some(Seen::DamagedWrite),
            Self::Misdirected => Some(Seen::MisdirectedWrite),
        }
    }
}

fn fate(faults: &CrashFaults, random: &mut Random) -> Fate {
    let CrashFaults { torn, damaged, misdirected, .. } = *faults;
    if random.chance(torn) {
        return Fate::Torn;
    }
    if random.chance(damaged) {
        return Fate::Damaged;
    }
    if random.chance(misdirected) {
        return Fate::Misdirected;
    }
    if random.chance(0.5) { Fate::Kept } else { Fate::Lost }
}

/// The parts of a torn write that reach the disk: the first blocks, the last blocks, all blocks but
/// one, or a random selection.
fn torn(offset: u64, data: &[u8], block: usize, random: &mut Random) -> Vec<What> {
    let count = data.len().div_ceil(block) as u64;
    let (kind, cut) = (random.below(4), random.below(count + 1));
    let mut keeps = |number: u64| match kind {
        0 => number < cut,
        1 => number >= cut,
        2 => number != cut,
        _ => random.chance(0.5),
    };
    let kept = data.chunks(block).enumerate().filter(|(number, _)| keeps(*number as u64));
    let write = |(number, bytes): (usize, &[u8])| What::Write {
        offset: offset + (number * block) as u64,
        data: bytes.to_vec(),
    };
    kept.map(write).collect()
}
