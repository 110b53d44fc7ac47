//! The disk in memory. Reads, writes and syncs take effect when the caller ends them.

use crate::Memory;
use crate::sockets::Conn;
use muster::files::{Call, Descriptor, FileError, FileIo, PartsTo};
use muster::reactor::Completion;
use muster_storage::{FileToken, OpenMode};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
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
    /// The ends of calls that are not taken yet, each with the file that it opened.
    called: VecDeque<Option<File>>,
}

/// A file. It can be used even after it was removed.
#[derive(Debug, Clone, Default)]
pub(crate) struct File(Rc<RefCell<SparseFile>>);

/// An operation that has begun.
pub(crate) enum Operation {
    Write { file: File, mode: OpenMode, offset: u64, data: Vec<u8>, token: FileToken },
    Read { file: File, offset: u64, len: u32, token: FileToken },
    Sync { token: FileToken },
    Call(Call<File>),
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
            Operation::Call(call) => {
                let opened = self.disk.make(call);
                self.disk.called.push_back(opened);
                Completion::Called
            }
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

    fn open_at_once(&mut self, path: &Path, _: OpenMode) -> Option<File> {
        self.disk.files.get(path).cloned()
    }

    fn call(&mut self, call: Call<File>) {
        self.begun.push_back(Operation::Call(call));
    }

    fn ended(&mut self) -> Option<Result<Option<File>, FileError>> {
        self.disk.called.pop_front().map(Ok)
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
    /// A call takes effect; returns the file that it opened.
    fn make(&mut self, call: Call<File>) -> Option<File> {
        match call {
            Call::Open { path, .. } => return Some(self.files.entry(path).or_default().clone()),
            Call::Truncate { file, len } => file.0.borrow_mut().truncate(len),
            Call::Rename { from, to } => {
                let file = self.files.remove(&from).expect("a file to rename");
                self.files.insert(to, file);
            }
            Call::RemoveFile { path } => drop(self.files.remove(&path)),
            // Nothing reads the trash.
            Call::RemoveDir { path } | Call::MoveDir { from: path, .. } => {
                self.files.retain(|file, _| !file.starts_with(&path));
            }
            Call::Close { file } => drop(file),
        }
        None
    }

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
