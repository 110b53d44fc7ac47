//! Damages copies of shard logs after a clean stop, while no server runs. Only the ends in the
//! stamp reveal the damage. A startup from such a copy must refuse the log.

use super::World;
use crate::coverage::Seen;
use crate::disk::{Disk, copied};
use crate::node::Node;
use muster_server::shard::log_directory;
use muster_storage::layout::Block;
use std::fs;
use std::path::{Path, PathBuf};

/// The probability that a startup after a clean stop is also tried with a damaged log.
const JUDGED_CHANCE: f64 = 0.3;

/// Blocks begin at multiples of this number.
const BLOCK_STEP: usize = 512;

#[derive(Debug, Clone, Copy)]
enum Damage {
    /// The log of a shard is missing.
    Missing,
    /// The first 512 bytes of the last block of the log are zeros.
    LastBlockGone,
    /// The last block of the log has a flipped bit.
    LastBlockRotten,
}

impl World {
    /// Damages a copy of the directory from which the server is about to start. A startup from the
    /// copy must be refused.
    pub(super) fn judge_refusals(&mut self, path: &Path) -> Result<(), String> {
        if self.inside.rot.is_outstanding() {
            return Ok(());
        }
        if !self.node.ends_are_known() || !self.inside.images.random().chance(JUDGED_CHANCE) {
            return Ok(());
        }
        let all = [Damage::Missing, Damage::LastBlockGone, Damage::LastBlockRotten];
        let random = self.inside.images.random();
        let damage = random.pick(&all);
        let shard = random.below(u64::from(self.node.shards_on_disk())) as u32;
        let copy = copied(path).map_err(|error| error.to_string())?;
        let directory = copy.path().join(log_directory(self.node.shards_on_disk(), shard));
        if !do_damage(&directory, damage).map_err(|error| error.to_string())? {
            return Ok(());
        }
        let start = |node: &mut Node| node.load_all(copy.path(), node.shards_on_disk()).is_ok();
        let is_taken = self.node.try_out(start);
        match is_taken {
            true => {
                self.sim.violate(format_args!("a start takes {damage:?} of shard {shard}'s log"))
            }
            false => self.sim.saw(Seen::DamageRefused),
        }
        Ok(())
    }
}

/// Damages a log; returns false if it has no block that could be damaged.
fn do_damage(directory: &Path, damage: Damage) -> std::io::Result<bool> {
    if let Damage::Missing = damage {
        return fs::remove_dir_all(directory).map(|()| true);
    }
    let Some((path, at)) = last_block(directory)? else { return Ok(false) };
    let mut bytes = fs::read(&path)?;
    match damage {
        Damage::LastBlockRotten => bytes[at + 20] ^= 1,
        Damage::LastBlockGone | Damage::Missing => bytes[at..at + BLOCK_STEP].fill(0),
    }
    fs::write(path, bytes).map(|()| true)
}

/// The block with the last operation of a log.
fn last_block(directory: &Path) -> std::io::Result<Option<(PathBuf, usize)>> {
    let mut last = None;
    for (path, bytes) in Disk::contents_under(directory)? {
        for at in (0..bytes.len()).step_by(BLOCK_STEP) {
            let Ok(block) = Block::read(&bytes[at..]) else { continue };
            let position = block.header.last_position();
            if last.as_ref().is_none_or(|(before, _, _)| position > *before) {
                last = Some((position, directory.join(&path), at));
            }
        }
    }
    Ok(last.map(|(_, path, at)| (path, at)))
}
