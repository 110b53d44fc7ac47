//! Starts shards from crash images (states of the disk after a power loss). After each change of a
//! shard's log on the disk, and before each change that takes effect at once, the shard is started
//! from every image of the log. The recovered state is compared with the durable state, and with
//! the changes that were acknowledged to clients.

use super::World;
use crate::coverage::Seen;
use crate::disk::{Contents, Disk, Doubts, Image, scratch};
use crate::node::Node;
use muster_server::shard::log_directory;
use muster_storage::shard_log::ASIDE_FILE_NAME;
use muster_storage::snapshot::SNAPSHOT_ASIDE_FILE_NAME;
use std::collections::BTreeMap;
use std::path::Path;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// An interrupted change of the number of shards may leave many combinations of files. The check
/// draws this number of them.
const LEFTOVERS: u64 = 8;

impl World {
    /// Starts a shard from each crash image of its files, if `file` belongs to its log. `torn` is a
    /// write that may be present in part.
    pub(super) fn judge_images(&mut self, shard: u32, file: &Path, what: Seen, torn: Option<u64>) {
        let directory = log_directory(self.node.shards_on_disk(), shard);
        if !file.starts_with(&directory) || !self.inside.images.is_wanted() {
            return;
        }
        // Startup may refuse the log if a write to it was misdirected, or if damage is outstanding.
        let is_damaged = self.inside.rot.is_outstanding();
        let is_misdirected = self.node.coverage().count(Seen::MisdirectedWrite) > 0;
        if is_misdirected || self.sim.is_violated() || is_damaged {
            return;
        }
        let doubts = self.node.disk().doubts(&directory);
        let before = self.inside.images.tried();
        for image in doubts.images(torn, self.inside.images.random()) {
            if let Err(found) = self.judge_image(shard, &directory, &doubts, &image) {
                let (what, image) = (what.text(), doubts.text(&image));
                self.sim.violate(format_args!("{what}, {}: {found}; {image}", file.display()));
                break;
            }
        }
        let tried = self.inside.images.tried() - before;
        self.sim.add(what, tried);
        self.count_images_in(shard, &directory, tried);
    }

    /// Starts shards from files that an interrupted change of the number of shards may leave: the
    /// valid logs of `shards` shards (`kept`), and some complete and incomplete logs of
    /// `other_shards` shards.
    pub(super) fn judge_leftovers(
        &mut self,
        shards: u32,
        kept: &Contents,
        other_shards: u32,
        others: &Contents,
    ) -> Result<(), String> {
        if !self.inside.images.are_wanted() {
            return Ok(());
        }
        for _ in 0..LEFTOVERS {
            let (mut disk, random) = (Disk::default(), self.inside.images.random());
            disk.keep_and_add_some(kept.clone(), others.clone(), other_shards, random);
            let place = tempfile::tempdir_in(scratch()).map_err(|error| error.to_string())?;
            disk.write_out(place.path()).map_err(|error| error.to_string())?;
            let start = |node: &mut Node| {
                node.reshard_in(place.path(), shards, shards)?;
                node.load_all(place.path(), shards)
            };
            let started = self.node.try_out(start)?;
            for (number, started) in started.iter().enumerate() {
                self.judge_start_from_image(number as u32, started)?;
            }
        }
        self.inside.images.add_tried(LEFTOVERS);
        self.sim.add(Seen::ImageInReshard, LEFTOVERS);
        Ok(())
    }

    /// Counts the images that were tried during a recovery, compaction or snapshot of the shard.
    fn count_images_in(&mut self, shard: u32, directory: &Path, tried: u64) {
        let is_recovering = self.node.shard(shard).is_recovering();
        let has = |name| self.node.disk().has(&directory.join(name));
        for (seen, is_so) in [
            (Seen::ImageInRecovery, is_recovering),
            (Seen::ImageInCompaction, has(ASIDE_FILE_NAME)),
            (Seen::ImageInSnapshot, has(SNAPSHOT_ASIDE_FILE_NAME)),
        ] {
            self.sim.add(seen, if is_so { tried } else { 0 });
        }
    }

    /// Starts from an image, unless the same image was tried before.
    fn judge_image(
        &mut self,
        shard: u32,
        directory: &Path,
        doubts: &Doubts,
        image: &Image,
    ) -> Result<(), String> {
        let files = self.node.disk().files_in(directory, doubts, image).into_iter();
        let files: BTreeMap<_, _> =
            files.map(|(path, bytes)| (path, (xxh3_64(&bytes), bytes))).collect();
        let mut key = Xxh3::new();
        key.update(&self.judge.expected_key(shard).to_le_bytes());
        for (path, (hash, _)) in &files {
            key.update(path.as_os_str().as_encoded_bytes());
            key.update(&hash.to_le_bytes());
        }
        if !self.inside.images.is_new(key.digest()) {
            return Ok(());
        }
        let data = self.inside.images.put(&files).map_err(|error| error.to_string())?;
        let started = self.node.try_out(|node| node.load_one(&data, shard));
        let started = started.map_err(|what| what.replace(&*data.to_string_lossy(), ""))?;
        self.judge_start_from_image(shard, &started)
    }
}
