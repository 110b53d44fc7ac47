//! Crash images: all the states, or as many as tell something, in which the loss of power may leave
//! the disk while one write is under way.

use super::file::{File, What};
use super::{Disk, Inode};
use std::fs;
use std::io;
use std::path::Path;

/// A state of the disk: which blocks of the write are on it, and whether other writes are.
#[derive(Debug, Clone)]
pub(crate) struct Image {
    inode: Inode,
    write: u64,
    blocks: Vec<bool>,
    others: bool,
}

/// Beginnings, ends and holes of a long write are taken at so many places.
const PLACES: usize = 6;

impl Disk {
    /// The states around a write that is under way.
    pub(crate) fn images(&self, inode: Inode, write: u64) -> Vec<Image> {
        let pending = &self.files[inode.0].pending;
        let Some(change) = pending.iter().find(|change| change.id == write) else {
            return Vec::new();
        };
        let What::Write { data, .. } = &change.what else { return Vec::new() };
        let count = data.len().div_ceil(self.block_bytes);
        let is_alone = self.files.iter().map(|file| file.pending.len()).sum::<usize>() == 1;
        let others: &[bool] = if is_alone { &[true] } else { &[true, false] };
        let image = |(blocks, others)| Image { inode, write, blocks, others };
        let all = parts(count).into_iter();
        all.flat_map(|blocks| others.iter().map(move |it| (blocks.clone(), *it)))
            .map(image)
            .collect()
    }

    /// Writes the files of an image under a directory.
    ///
    /// # Errors
    /// The real file system refuses.
    pub(crate) fn write_image(&self, image: &Image, directory: &Path) -> io::Result<()> {
        for (name, inode) in &self.names {
            let path = directory.join(name);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::write(path, self.bytes_in(image, *inode, &self.files[inode.0]))?;
        }
        Ok(())
    }

    fn bytes_in(&self, image: &Image, inode: Inode, file: &File) -> Vec<u8> {
        let mut bytes = file.durable.clone();
        for change in &file.pending {
            match &change.what {
                What::Write { offset, data }
                    if (inode, change.id) == (image.inode, image.write) =>
                {
                    let blocks = data.chunks(self.block_bytes).enumerate();
                    for (number, block) in blocks.filter(|(number, _)| image.blocks[*number]) {
                        let offset = offset + (number * self.block_bytes) as u64;
                        What::Write { offset, data: block.to_vec() }.apply(&mut bytes);
                    }
                }
                what if image.others => what.apply(&mut bytes),
                _ => {}
            }
        }
        bytes
    }
}

/// Which blocks of `count` are written: beginnings, ends, and all but one.
fn parts(count: usize) -> Vec<Vec<bool>> {
    let step = count.div_ceil(PLACES).max(1);
    let places = || (0..=count).step_by(step);
    let part = |keeps: &dyn Fn(usize) -> bool| (0..count).map(keeps).collect::<Vec<bool>>();
    let beginnings = places().map(|cut| part(&|block| block < cut));
    let ends = places().map(|cut| part(&|block| block >= cut));
    let holes = places().map(|hole| part(&|block| block != hole));
    let mut parts: Vec<_> = beginnings.chain(ends).chain(holes).collect();
    parts.sort_unstable();
    parts.dedup();
    parts
}
