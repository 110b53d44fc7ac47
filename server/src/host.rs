//! Loads a shard at startup, and again each time it has failed, while the other shards continue. A
//! server runs each shard in a thread (`serve.rs`); the simulator runs all shards in one thread.

use crate::backup;
use crate::clock::Times;
use crate::cluster::ClusterImage;
use crate::mailbox::ToBroker;
use crate::placement::CONTROLLER;
use crate::shard::{Command, Common, Left, LoadError, Loaded, PeerEvent, Shard, load};
use muster_coordinator::Ids;
use muster_storage::FileOp;
use std::path::PathBuf;
use std::sync::Arc;

/// The number, directory and settings from which a shard is loaded.
#[derive(Debug, Clone)]
pub struct Host {
    pub number: u32,
    pub data: PathBuf,
    pub common: Common,
    pub block_bytes: u32,
    /// How often the shard was loaded again.
    pub reloads: u32,
}

impl Host {
    pub fn new(number: u32, data: PathBuf, common: Common, block_bytes: u32) -> Self {
        Self { number, data, common, block_bytes, reloads: 0 }
    }

    /// Reads the log. If recovery will cut bytes off its end, saves them first. `wall` is the wall
    /// clock's time.
    ///
    /// # Errors
    /// The log cannot be read or is damaged, or the bytes to cut off cannot be saved.
    pub fn load(&self, wall: i64) -> Result<Loaded, LoadError> {
        let loaded = load(&self.data, &self.common, self.number)?;
        loaded.keep_cut(&self.data, wall)?;
        Ok(loaded)
    }

    /// Reads the log of a failed shard again. This begins the shard's next life.
    ///
    /// # Errors
    /// The errors of [`Self::load`].
    pub fn load_again(&mut self, wall: i64) -> Result<Loaded, LoadError> {
        self.reloads += 1;
        self.common.life = self.common.life.saturating_add(1);
        self.load(wall)
    }

    /// Makes the shard at startup, with its first file operations.
    ///
    /// # Errors
    /// The directory of the partitions cannot be read.
    pub fn start(
        &self,
        loaded: Loaded,
        image: Arc<ClusterImage>,
        ids: Box<dyn Ids>,
        times: Times,
    ) -> Result<(Shard, Vec<FileOp>), LoadError> {
        loaded.into_shard(&self.data, self.block_bytes, image, ids, times)
    }

    /// Makes the shard that replaces a failed one. Also returns the commands that must be performed
    /// before its first turn. Before this call, the connections of the failed shard were closed,
    /// and its operations ended. The new shard gets the messages that have arrived since then.
    ///
    /// # Errors
    /// The errors of [`Self::start`].
    pub fn reload(
        &mut self,
        left: Left,
        mut loaded: Loaded,
        ids: Box<dyn Ids>,
        times: Times,
    ) -> Result<(Shard, Vec<Command>), LoadError> {
        let image = loaded.image_after(&left.image);
        let (mut shard, ops) = self.start(loaded, image.clone(), ids, times)?;
        shard.check_later(self.reloads);
        if backup::is_under_way(&self.data) {
            shard.give_names();
        }
        let mut commands: Vec<_> = ops.into_iter().map(Command::File).collect();
        commands.extend(left.commands);
        shard.order_certificates(&mut commands);
        for (node, session) in left.peers {
            let connected = PeerEvent::Connected { node, session };
            // Only a message can be a lie.
            let _ = shard.peer(times, connected, &mut commands);
        }
        if self.number == CONTROLLER {
            let send = |to| Command::mail(to, ToBroker::Image(image.clone()));
            commands.extend((0..self.common.placement.shards).map(send));
        }
        Ok((shard, commands))
    }
}
