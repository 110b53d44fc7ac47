//! Crash images: the states in which a power loss may leave the files of a directory. If a change
//! is not durable, an image may have it as a whole, in part, or not at all. If the name of a file
//! is not durable, an image may have it or not. Each such change or name is a *doubt*. Up to eight
//! doubts are tried in every combination, more doubts in a sample of combinations.

use super::file::What;
use super::{Disk, Inode};
use crate::random::Random;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The changes to the files of a directory that may or may not survive a power loss.
#[derive(Debug, Default)]
pub(crate) struct Doubts(Vec<Doubt>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Doubt {
    /// A change of a file's bytes. `len` is the number of bytes that it writes.
    Change { inode: Inode, id: u64, len: usize },
    /// The name of a new file.
    Created(PathBuf),
    /// A file that was removed.
    Removed(PathBuf, Inode),
}

/// The state of the disk after a crash: for each doubt, which part of it reached the disk.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Image(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Nothing,
    All,
    /// Some blocks of a write. The number is the size of a block, and the list shows for each block
    /// whether it is there.
    Blocks(usize, Vec<bool>),
}

/// Up to this number of doubts, every combination is tried.
const ALL_OF: usize = 8;

/// How many random combinations are tried in addition to the fixed ones. `SAMPLES`: of the doubts,
/// if there are more than `ALL_OF`. `TORN_SAMPLES`: of the blocks of a torn write.
const SAMPLES: usize = 32;
const TORN_SAMPLES: usize = 4;

/// A torn write may lack its end, its beginning, or a block. Of a long write, only about this
/// number of places are tried for each.
const PLACES: usize = 6;

/// The sizes of the blocks that devices write atomically.
const TORN_BLOCKS: [usize; 2] = [512, 4096];

impl Disk {
    /// The doubts about the files under a directory.
    pub(crate) fn doubts(&self, directory: &Path) -> Doubts {
        let is_here = |path: &Path| path.starts_with(directory);
        let mut doubts = Vec::new();
        let removed = self.removed.iter().filter(|(path, _)| is_here(path));
        let named = self.names.iter().filter(|(path, _)| is_here(path));
        let inodes = named.map(|(_, inode)| *inode).chain(removed.clone().map(|(_, it)| *it));
        for inode in inodes {
            doubts.extend(self.files[inode.0].pending.iter().map(|change| {
                let len = match &change.what {
                    What::Write { data, .. } => data.len(),
                    What::Truncate { .. } => 0,
                };
                Doubt::Change { inode, id: change.id, len }
            }));
        }
        let created = self.created.iter().filter(|path| is_here(path));
        doubts.extend(created.map(|path| Doubt::Created(path.clone())));
        doubts.extend(removed.map(|(path, inode)| Doubt::Removed(path.clone(), *inode)));
        Doubts(doubts)
    }

    /// The files under a directory in a crash image.
    pub(crate) fn files_in(
        &self,
        directory: &Path,
        doubts: &Doubts,
        image: &Image,
    ) -> BTreeMap<&Path, Cow<'_, [u8]>> {
        let is_lost = |path: &Path| {
            let found = doubts.find(image, |it| matches!(it, Doubt::Created(new) if new == path));
            found == Some(&Part::Nothing)
        };
        let is_back = |path: &Path, inode: Inode| {
            let is_it =
                |it: &Doubt| matches!(it, Doubt::Removed(of, at) if of == path && *at == inode);
            doubts.find(image, is_it) == Some(&Part::All)
        };
        let back = self.removed.iter().filter(|(path, inode)| is_back(path, *inode));
        let back = back.map(|(path, inode)| (path.as_path(), *inode));
        let named = self.names.iter().filter(|(path, _)| path.starts_with(directory));
        let named = named.map(|(path, inode)| (path.as_path(), *inode));
        // A removed file may be back after the crash. If a new file has its name, this is the new
        // file's.
        let there: BTreeMap<_, _> = back.chain(named.filter(|(path, _)| !is_lost(path))).collect();
        let bytes = |(path, inode)| (path, self.bytes_in(inode, doubts, image));
        there.into_iter().map(bytes).collect()
    }

    fn bytes_in(&self, inode: Inode, doubts: &Doubts, image: &Image) -> Cow<'_, [u8]> {
        let file = &self.files[inode.0];
        let mut bytes = Cow::Borrowed(&file.durable[..]);
        for change in &file.pending {
            let is_same = |of: Inode, id: u64| (of, id) == (inode, change.id);
            let is_it =
                |it: &Doubt| matches!(it, Doubt::Change { inode, id, .. } if is_same(*inode, *id));
            match (doubts.find(image, is_it), &change.what) {
                (Some(Part::All), what) => what.apply(bytes.to_mut()),
                (Some(Part::Blocks(block, kept)), What::Write { offset, data }) => {
                    let blocks = data.chunks(*block).zip(kept).enumerate();
                    for (number, (data, _)) in blocks.filter(|(_, (_, kept))| **kept) {
                        let offset = offset + (number * block) as u64;
                        What::Write { offset, data: data.to_vec() }.apply(bytes.to_mut());
                    }
                }
                (Some(Part::Nothing | Part::Blocks(..)) | None, _) => {}
            }
        }
        bytes
    }
}

impl Doubts {
    /// The part of a doubt that reached the disk, according to an image.
    fn find<'i>(&self, image: &'i Image, is_it: impl Fn(&Doubt) -> bool) -> Option<&'i Part> {
        assert_eq!(self.0.len(), image.0.len(), "an image of other doubts");
        self.0.iter().position(is_it).map(|at| &image.0[at])
    }

    /// The images to try. `torn` is the change that may also be there in part.
    pub(crate) fn images(&self, torn: Option<u64>, random: &mut Random) -> Vec<Image> {
        let part = |is_there| if is_there { Part::All } else { Part::Nothing };
        let image = |subset: Vec<bool>| Image(subset.into_iter().map(part).collect());
        let mut images: Vec<Image> = subsets(self.0.len(), random).into_iter().map(image).collect();
        let is_torn =
            |doubt: &Doubt| matches!(doubt, Doubt::Change { id, .. } if Some(*id) == torn);
        if let Some(at) = self.0.iter().position(is_torn)
            && let Doubt::Change { len, .. } = self.0[at]
        {
            let drawn = (0..self.0.len()).map(|_| random.chance(0.5)).collect();
            let others = [vec![true; self.0.len()], vec![false; self.0.len()], drawn];
            for part in torn_parts(len, random) {
                images.extend(others.iter().cloned().map(|others| {
                    let mut torn = image(others);
                    torn.0[at] = part.clone();
                    torn
                }));
            }
        }
        images.sort_unstable();
        images.dedup();
        images
    }

    /// An image in words.
    pub(crate) fn text(&self, image: &Image) -> String {
        let doubts = self.0.iter().zip(&image.0);
        doubts.map(|(doubt, part)| format!("{doubt:?}: {part:?}")).collect::<Vec<_>>().join("; ")
    }
}

/// The subsets of this number of things: all of them, if there are at most [`ALL_OF`] things.
/// Otherwise the empty set, the full set, each single thing, all things but one, and a sample.
fn subsets(count: usize, random: &mut Random) -> Vec<Vec<bool>> {
    if count <= ALL_OF {
        let of = |bits: usize| (0..count).map(|at| bits >> at & 1 == 1).collect();
        return (0..1 << count).map(of).collect();
    }
    let mut subsets = vec![vec![false; count], vec![true; count]];
    for alone in 0..count {
        subsets.push((0..count).map(|at| at == alone).collect());
        subsets.push((0..count).map(|at| at != alone).collect());
    }
    subsets.extend((0..SAMPLES).map(|_| (0..count).map(|_| random.chance(0.5)).collect()));
    subsets
}

/// The parts of a torn write to try; the write has `len` bytes. They are its beginnings, its ends,
/// all of its blocks but one, and a random sample of its blocks.
fn torn_parts(len: usize, random: &mut Random) -> Vec<Part> {
    let mut parts = Vec::new();
    for block in TORN_BLOCKS {
        let count = len.div_ceil(block);
        let step = count.div_ceil(PLACES).max(1);
        let places = || (0..count).step_by(step);
        let blocks = |kept: &dyn Fn(usize) -> bool| (0..count).map(kept).collect::<Vec<bool>>();
        parts.extend(places().map(|cut| Part::Blocks(block, blocks(&|at| at < cut))));
        parts.extend(places().map(|cut| Part::Blocks(block, blocks(&|at| at >= cut))));
        parts.extend(places().map(|hole| Part::Blocks(block, blocks(&|at| at != hole))));
        let drawn = |_| Part::Blocks(block, (0..count).map(|_| random.chance(0.5)).collect());
        parts.extend((0..TORN_SAMPLES).map(drawn));
    }
    let is_mixed = |kept: &[bool]| kept.contains(&true) && kept.contains(&false);
    let is_torn = |part: &Part| matches!(part, Part::Blocks(_, kept) if is_mixed(kept));
    parts.retain(is_torn);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Salt;
    use muster_storage::OpenMode;
    use std::collections::BTreeSet;

    const DIRECTORY: &str = "shards-1/0";

    /// All states of the files, each as names and bytes.
    fn states(disk: &Disk, torn: Option<u64>) -> BTreeSet<Vec<(String, Vec<u8>)>> {
        let directory = Path::new(DIRECTORY);
        let doubts = disk.doubts(directory);
        let images = doubts.images(torn, &mut Random::new(0, Salt::Images));
        let state = |image: &Image| {
            let files = disk.files_in(directory, &doubts, image).into_iter();
            let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
            files.map(|(path, bytes)| (name(path), bytes.into_owned())).collect()
        };
        images.iter().map(state).collect()
    }

    fn file(name: &str) -> PathBuf {
        Path::new(DIRECTORY).join(name)
    }

    #[test]
    fn writes_that_are_not_durable_are_there_in_every_combination() {
        let mut disk = Disk::default();
        let inode = disk.open(&file("log"), OpenMode::DURABLE);
        (0..3).for_each(|at| {
            disk.write(inode, at, &[at as u8 + 1]);
        });
        assert_eq!(states(&disk, None).len(), 8);
        assert!(states(&disk, None).contains(&vec![("log".to_owned(), vec![1, 0, 3])]));
    }

    #[test]
    fn a_write_is_torn_at_the_borders_of_blocks() {
        let mut disk = Disk::default();
        let inode = disk.open(&file("log"), OpenMode::DURABLE);
        let write = disk.write(inode, 0, &[7; 1024]);
        let found: BTreeSet<_> =
            states(&disk, Some(write)).into_iter().map(|files| files[0].1.clone()).collect();
        let second = [vec![0; 512], vec![7; 512]].concat();
        assert_eq!(found, [vec![], vec![7; 512], second, vec![7; 1024]].into());
    }

    #[test]
    fn names_that_are_not_durable_are_there_or_not() {
        let mut disk = Disk::default();
        disk.open(&file("kept"), OpenMode::DURABLE);
        disk.remove_file(&file("kept"));
        disk.open(&file("aside"), OpenMode::ASIDE);
        assert_eq!(states(&disk, None).len(), 4, "each of both is there or not");
        disk.rename(&file("aside"), &file("new"));
        let only_new = vec![("new".to_owned(), Vec::new())];
        assert_eq!(states(&disk, None), [only_new].into(), "the directory is synced");
    }

    #[test]
    fn of_many_doubts_there_is_a_sample() {
        let subsets = subsets(12, &mut Random::new(1, Salt::Images));
        assert_eq!(subsets.len(), 2 + 2 * 12 + SAMPLES);
    }
}
