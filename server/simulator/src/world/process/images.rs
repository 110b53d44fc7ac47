//! Starts from crash images: after each change of the disk, and before each that takes effect at
//! once, the shard that made the change is started from every crash image of its files. The
//! recovered state is compared with the durable one, and with the changes that were acknowledged to
//! clients.

use super::StartedShard;
use crate::coverage::Seen;
use crate::disk::{Contents, Disk, Doubts, Image};
use crate::judge::bytes_of;
use crate::random::{Random, SeededIds};
use crate::world::{World, scratch};
use muster::host::Host;
use muster::shard::{load, log_directory};
use muster_storage::shard_log::ASIDE_FILE_NAME;
use muster_storage::snapshot::SNAPSHOT_ASIDE_FILE_NAME;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// The images of a run.
pub(crate) struct Images {
    /// One in this number of occasions is taken; none if it is zero.
    every: u64,
    occasions: u64,
    random: Random,
    directory: Option<Directory>,
    /// The images that were tried, by a hash of the files and of the state they are compared with.
    known: BTreeSet<u64>,
    /// The number of images that were tried.
    pub(crate) tried: u64,
}

/// A directory of the real file system, with the files of the last image.
struct Directory {
    place: TempDir,
    /// A hash of each file.
    hashes: BTreeMap<PathBuf, u64>,
}

/// The number of states that are drawn when a change of the number of shards is cut short.
const LEFTOVERS: u64 = 8;

impl Images {
    pub(crate) fn new(every: u64, random: Random) -> Self {
        let (directory, known) = (None, BTreeSet::new());
        Self { every, occasions: 0, random, directory, known, tried: 0 }
    }

    pub(super) fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    fn is_wanted(&mut self) -> bool {
        self.occasions += 1;
        self.every > 0 && self.occasions.is_multiple_of(self.every)
    }
}

impl Directory {
    fn new() -> io::Result<Self> {
        Ok(Self { place: tempfile::tempdir_in(scratch())?, hashes: BTreeMap::new() })
    }

    /// Makes the directory have exactly these files. Most are there already.
    fn put(&mut self, files: &BTreeMap<&Path, (u64, Cow<'_, [u8]>)>) -> io::Result<()> {
        let place = self.place.path();
        for gone in self.hashes.extract_if(.., |path, _| !files.contains_key(path.as_path())) {
            fs::remove_file(place.join(gone.0))?;
        }
        for (path, (hash, bytes)) in files {
            if self.hashes.insert((*path).to_owned(), *hash) != Some(*hash) {
                let path = place.join(path);
                path.parent().map_or(Ok(()), fs::create_dir_all)?;
                fs::write(path, bytes)?;
            }
        }
        Ok(())
    }
}

impl World {
    /// Starts a shard from each crash image of its files, if `file` is one of its log. `torn` is a
    /// write that may be there in part.
    pub(super) fn judge_images(&mut self, shard: u32, file: &Path, what: Seen, torn: Option<u64>) {
        let directory = log_directory(self.process_shards, shard);
        if !file.starts_with(&directory) || !self.images.is_wanted() {
            return;
        }
        // A log with a misdirected write may be refused.
        let is_damaged = self.rot.is_outstanding();
        if self.sim.count(Seen::MisdirectedWrite) > 0 || self.sim.is_violated() || is_damaged {
            return;
        }
        let doubts = self.disk.doubts(&directory);
        let (ids, coverage, before) =
            (self.ids.clone(), self.sim.coverage().clone(), self.images.tried);
        for image in doubts.images(torn, &mut self.images.random) {
            if let Err(found) = self.judge_image(shard, &directory, &doubts, &image) {
                let (what, image) = (what.text(), doubts.text(&image));
                self.sim.violate(format_args!("{what}, {}: {found}; {image}", file.display()));
                break;
            }
        }
        (self.ids, *self.sim.coverage_mut()) = (ids, coverage);
        let tried = self.images.tried - before;
        self.sim.add(what, tried);
        self.count_images_in(shard, &directory, tried);
    }

    /// Starts from states that an interrupted change of the number of shards may leave: the logs of
    /// `shards` shards count, and some of those of another number are there, whole or not.
    pub(super) fn judge_leftovers(
        &mut self,
        shards: u32,
        kept: &Contents,
        other_shards: u32,
        others: &Contents,
    ) -> Result<(), String> {
        if self.images.every == 0 {
            return Ok(());
        }
        let (ids, coverage) = (self.ids.clone(), self.sim.coverage().clone());
        for _ in 0..LEFTOVERS {
            let (mut disk, random) = (Disk::default(), &mut self.images.random);
            disk.keep_and_add_some(kept.clone(), others.clone(), other_shards, random);
            let place = tempfile::tempdir_in(scratch()).map_err(|error| error.to_string())?;
            disk.write_out(place.path()).map_err(|error| error.to_string())?;
            self.reshard_in(place.path(), shards, shards)?;
            let started = self.load_all(place.path(), shards)?;
            for (number, started) in started.iter().enumerate() {
                self.judge_start_from_image(number as u32, started)?;
            }
        }
        (self.ids, *self.sim.coverage_mut()) = (ids, coverage);
        self.images.tried += LEFTOVERS;
        self.sim.add(Seen::ImageInReshard, LEFTOVERS);
        Ok(())
    }

    /// Counts the images by all else that was under way.
    fn count_images_in(&mut self, shard: u32, directory: &Path, tried: u64) {
        let is_recovering = self.process.shards[shard as usize].is_recovering;
        let has = |name| self.disk.has(&directory.join(name));
        for (seen, is_so) in [
            (Seen::ImageInRecovery, is_recovering),
            (Seen::ImageInCompaction, has(ASIDE_FILE_NAME)),
            (Seen::ImageInSnapshot, has(SNAPSHOT_ASIDE_FILE_NAME)),
        ] {
            self.sim.add(seen, if is_so { tried } else { 0 });
        }
    }

    /// Starts from an image, unless the same was tried before.
    fn judge_image(
        &mut self,
        shard: u32,
        directory: &Path,
        doubts: &Doubts,
        image: &Image,
    ) -> Result<(), String> {
        let files = self.disk.files_in(directory, doubts, image).into_iter();
        let files: BTreeMap<_, _> =
            files.map(|(path, bytes)| (path, (xxh3_64(&bytes), bytes))).collect();
        let mut key = Xxh3::new();
        key.update(&self.judge.expected_key(shard).to_le_bytes());
        for (path, (hash, _)) in &files {
            key.update(path.as_os_str().as_encoded_bytes());
            key.update(&hash.to_le_bytes());
        }
        if !self.images.known.insert(key.digest()) {
            return Ok(());
        }
        self.images.tried += 1;
        if self.images.directory.is_none() {
            self.images.directory = Some(Directory::new().map_err(|error| error.to_string())?);
        }
        let Some(place) = self.images.directory.as_mut() else { return Ok(()) };
        place.put(&files).map_err(|error| error.to_string())?;
        let data = place.place.path().to_owned();
        let started = self.start_one(&data, shard);
        let started = started.map_err(|what| what.replace(&*data.to_string_lossy(), ""))?;
        self.judge_start_from_image(shard, &started)
    }

    /// Starts one shard, to check its recovered state.
    fn start_one(&mut self, data: &Path, shard: u32) -> Result<StartedShard, String> {
        let common = self.common(self.process_shards);
        let host = Host::new(shard, data.to_owned(), common.clone(), self.block_bytes);
        let mut loaded = load(data, &common, shard).map_err(|error| error.to_string())?;
        let records = loaded.durable_records().map(|records| bytes_of(&records));
        let records = match records {
            Some(records) => records,
            None => self.records_in(data, &common, shard, &loaded)?,
        };
        let live = || self.process.shards.first().map(|shard| shard.image.clone());
        let cluster = loaded.image().cloned().or_else(live).ok_or("shard 0 has no image")?;
        let (ids, position) = (Box::new(SeededIds(self.ids.fork())), loaded.position());
        let started = host.start(loaded, cluster, ids, self.clocks());
        let (shard, ops) = started.map_err(|error| error.to_string())?;
        Ok(StartedShard { host, shard, position, ops, records })
    }
}
