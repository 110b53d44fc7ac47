//! The disk in memory. Reads, writes and syncs take effect when the caller ends them.

use crate::Memory;
use crate::sockets::Conn;
use muster::files::{Descriptor, FileError, FileIo, PartsTo};
use muster::reactor::Completion;
use muster_storage::{FileToken, OpenMode};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use test_disk::SparseFile;

/// Buffers that are kept for later writes.
const SPARE_MAX: usize = 16;

/// The files by name.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    files: BTreeMap<PathBuf, File>,
    spare: Vec<Vec<u8>>,
}

/// A file. It can be used even after it was removed.
#[derive(Debug, Clone, Default)]
pub(crate) struct File(Rc<RefCell<SparseFile>>);

/// An operation that has begun.
pub(crate) enum Operation {
    Write { file: File, mode: OpenMode, offset: u64, data: Vec<u8>, token: FileToken },
    Read { file: File, offset: u64, len: u32, token: FileToken },
    Sync { token: FileToken },
    Send { conn: Conn, parts: Vec<u8> },
    Writable(Conn),
}

impl Memory {
    pub(crate) fn end_operation(&mut self) -> bool {
        let Some(operation) = self.begun.pop_front() else { return false };
        let done = match operation {
            Operation::Write { file, mode, offset, data, token } => {
                file.0.borrow_mut().write(offset, &data, mode);
                self.disk.recycle(data);
                Completion::Written { token, result: Ok(()) }
            }
            Operation::Read { file, offset, len, token } => {
                let result = Ok(file.0.borrow().read(offset, len));
                Completion::Read { token, result }
            }
            Operation::Sync { token } => Completion::Synced { token, result: Ok(()) },
            Operation::Send { conn, parts } => {
                let Some(socket) = self.sockets.get_mut(conn) else { return true };
                socket.received.extend_from_slice(&parts);
                let sent = parts.len();
                self.disk.recycle(parts);
                Completion::Streamed { conn, sent }
            }
            Operation::Writable(conn) => Completion::Writable { conn },
        };
        self.came.push_back(done);
        true
    }
}

impl FileIo for Memory {
    type File = File;
    type Conn = Conn;

    fn open(&mut self, path: &Path, _: OpenMode) -> Result<File, FileError> {
        Ok(self.disk.files.entry(path.to_owned()).or_default().clone())
    }

    fn write(&mut self, file: &File, mode: OpenMode, offset: u64, data: &[u8], token: FileToken) {
        let mut copied = self.disk.buffer();
        copied.extend_from_slice(data);
        let (file, data) = (file.clone(), copied);
        self.begun.push_back(Operation::Write { file, mode, offset, data, token });
    }

    fn read(&mut self, file: &File, offset: u64, len: u32, token: FileToken) {
        self.begun.push_back(Operation::Read { file: file.clone(), offset, len, token });
    }

    fn sync(&mut self, _: &File, token: FileToken) {
        self.begun.push_back(Operation::Sync { token });
    }

    fn truncate(&mut self, file: &File, len: u64) -> Result<(), FileError> {
        file.0.borrow_mut().truncate(len);
        Ok(())
    }

    fn rename(&mut self, from: &Path, to: &Path) -> Result<(), FileError> {
        let file = self.disk.files.remove(from).expect("a file to rename");
        self.disk.files.insert(to.to_owned(), file);
        Ok(())
    }

    fn remove_file(&mut self, path: &Path) -> Result<(), FileError> {
        self.disk.files.remove(path);
        Ok(())
    }

    fn remove_dir(&mut self, path: &Path) -> Result<(), FileError> {
        self.disk.files.retain(|file, _| !file.starts_with(path));
        Ok(())
    }

    /// Removes the files, as nothing reads the trash.
    fn move_dir(&mut self, from: &Path, _: &Path) {
        self.disk.files.retain(|file, _| !file.starts_with(from));
    }

    fn put_bytes(&mut self, bytes: Vec<u8>) {
        self.parts.extend_from_slice(&bytes);
    }

    fn put_file(&mut self, file: &File, offset: u64, len: u32) {
        let end = self.parts.len() + len as usize;
        file.0.borrow().read_into(offset, len, &mut self.parts);
        assert_eq!(self.parts.len(), end, "the whole part is in the file");
    }

    fn send(&mut self, to: PartsTo<Conn>) {
        let parts = std::mem::replace(&mut self.parts, self.disk.buffer());
        match to {
            PartsTo::Socket(conn) => self.begun.push_back(Operation::Send { conn, parts }),
            // No listener has TLS.
            PartsTo::Reactor(_) | PartsTo::Nowhere => {}
        }
    }
}

impl Descriptor for File {
    fn is_in_use(&self) -> bool {
        false
    }
}

impl Disk {
    /// An empty buffer.
    fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// Keeps a buffer for later, as a ring does.
    fn recycle(&mut self, mut buffer: Vec<u8>) {
        buffer.clear();
        if self.spare.len() < SPARE_MAX {
            self.spare.push(buffer);
        }
    }
}
