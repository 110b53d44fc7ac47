//! A slice of an answer consists of parts of files and of bytes between them. It is sent to a
//! connection, or read into memory to be encrypted for the connection. It starts when all of its
//! files are open.

use super::lane::{Lane, Waiting};
use super::{FileError, FileIo, Files, PartsTo, WaitingSlice, open_file};
use crate::net::Part;
use muster_storage::FileId;

/// A slice that is not sent.
pub(super) struct GivenUp<C> {
    pub(super) to: PartsTo<C>,
    /// The files that were kept open for the slice.
    pub(super) kept: Vec<FileId>,
}

impl<I: FileIo> Files<I> {
    /// Sends, reads or drops a slice, as `to` says. If one of its files is still being opened, the
    /// slice waits for that. Other slices do not wait for this one.
    ///
    /// # Errors
    /// The errors of [`Self::perform`].
    pub fn send_parts(
        &mut self,
        io: &mut I,
        parts: Vec<Part>,
        to: PartsTo<I::Conn>,
    ) -> Result<(), FileError> {
        let is_readable = |file| self.lanes.get(&file).is_some_and(Lane::is_readable);
        if parts.iter().filter_map(Part::file).all(is_readable) {
            return self.start_slice(io, parts, to);
        }
        let number = self.next_slice;
        self.next_slice += 1;
        let mut missing = Vec::new();
        for file in files_of(&parts) {
            let lane = self.lane_mut(file)?;
            if lane.is_readable() {
                lane.keep();
            } else {
                lane.wait(Waiting::Slice(number));
                missing.push(file);
            }
        }
        let again = missing.clone();
        self.slices.insert(number, WaitingSlice { parts, to, missing });
        again.into_iter().for_each(|file| self.open_if_missing(io, file));
        Ok(())
    }

    /// Call this when `file`, which a waiting slice needs, is open. Keeps the file open for the
    /// slice. If no other file is missing, starts the slice, and returns the files that it no
    /// longer needs.
    pub(super) fn start_if_whole(
        &mut self,
        io: &mut I,
        number: u64,
        file: FileId,
    ) -> Result<Vec<FileId>, FileError> {
        // There is no such slice if it was given up because another file could not be opened.
        let Some(slice) = self.slices.get_mut(&number) else { return Ok(Vec::new()) };
        slice.missing.retain(|missing| *missing != file);
        let is_whole = slice.missing.is_empty();
        self.lane_mut(file)?.keep();
        if !is_whole {
            return Ok(Vec::new());
        }
        let Some(WaitingSlice { parts, to, .. }) = self.slices.remove(&number) else {
            return Ok(Vec::new());
        };
        let files = files_of(&parts);
        self.start_slice(io, parts, to)?;
        for file in &files {
            self.lane_mut(*file)?.release();
        }
        Ok(files)
    }

    /// Gives a slice up, as one of its files cannot be opened. None if it was given up before.
    pub(super) fn give_up_slice(
        &mut self,
        number: u64,
    ) -> Result<Option<GivenUp<I::Conn>>, FileError> {
        let Some(slice) = self.slices.remove(&number) else { return Ok(None) };
        let mut kept = files_of(&slice.parts);
        kept.retain(|file| !slice.missing.contains(file));
        for file in &kept {
            self.lane_mut(*file)?.release();
        }
        Ok(Some(GivenUp { to: slice.to, kept }))
    }

    fn start_slice(
        &mut self,
        io: &mut I,
        parts: Vec<Part>,
        to: PartsTo<I::Conn>,
    ) -> Result<(), FileError> {
        for part in parts {
            match part {
                Part::Bytes(bytes) => io.put_bytes(bytes),
                Part::File { file, offset, len } => {
                    io.put_file(open_file(file, self.lane(file)?)?, offset, len);
                }
            }
        }
        if let PartsTo::Socket(conn) | PartsTo::Reactor(conn) = to {
            self.sending.push((conn, self.now));
        }
        io.send(to);
        Ok(())
    }
}

/// The distinct files of a slice.
fn files_of(parts: &[Part]) -> Vec<FileId> {
    let mut files: Vec<FileId> = parts.iter().filter_map(Part::file).collect();
    files.sort_unstable();
    files.dedup();
    files
}
