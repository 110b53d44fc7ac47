//! The machine on which the reactor works, in memory. File operations, and sends of data from
//! files, take effect only when the caller completes them. Other data is sent at once.

use crate::disk::{Disk, File};
use crate::sockets::{Conn, Sockets};
use muster_server::clock::Times;
use muster_server::files::{Call, CallDone, FileError, FileIo, PartsTo};
use muster_server::reactor::{Completion, Io, Share};
use muster_server::shard::{CertificateOrder, Command, Message, Shard};
use muster_server::telemetry::{Push, Receiver};
use muster_storage::{FileToken, OpenMode};
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

type Done = Completion<Conn, Vec<u8>, Vec<u8>>;

/// The machine's state.
pub(crate) struct Memory {
    pub(crate) times: Times,
    /// The completions that the next turn handles, in order.
    pub(crate) came: VecDeque<Done>,
    pub(crate) sockets: Sockets,
    pub(crate) disk: Disk,
    /// Operations on disk and sockets that have begun and are not completed.
    pub(crate) begun: VecDeque<Operation>,
    /// The bytes that were put together for the next send of file data.
    pub(crate) parts: Vec<u8>,
    /// The receiver of client metrics (KIP-714). In a real server, it has a thread of its own.
    pub(crate) telemetry: Receiver,
}

/// An operation that has begun and is not completed.
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
                let done = self.disk.make(call);
                self.disk.called.push_back(done);
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

    pub(crate) fn receive(&mut self, conn: Conn, data: &[u8]) {
        match self.sockets.get_mut(conn) {
            Some(socket) if socket.is_paused => socket.held.extend_from_slice(data),
            Some(_) => self.came.push_back(Completion::Received { conn, data: data.to_vec() }),
            None => {}
        }
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

    fn ended(&mut self) -> Option<Result<CallDone<File>, FileError>> {
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
            // Parts are sent to the reactor only for connections with TLS. No listener here has
            // TLS.
            PartsTo::Reactor(_) | PartsTo::Nowhere => {}
        }
    }
}

impl Io for Memory {
    type Conn = Conn;
    type Data = Vec<u8>;
    type Parts = Vec<u8>;
    type Files = Self;

    fn files(&mut self) -> &mut Self {
        self
    }

    fn times(&self) -> Times {
        self.times
    }

    fn next_completion(&mut self) -> Option<Done> {
        self.came.pop_front()
    }

    /// Returns None: all completions are in `came`, in the order in which they occurred.
    fn next_other(&mut self) -> Option<Done> {
        None
    }

    fn has_others(&self) -> bool {
        false
    }

    fn unread_since(&self) -> Option<i64> {
        None
    }

    /// No time passes within a turn.
    fn is_late(&mut self, _: i64) -> bool {
        false
    }

    fn begin(&mut self, _: Share) {}

    fn is_over(&mut self) -> bool {
        false
    }

    fn work(&mut self, shard: &mut Shard, times: Times, commands: &mut Vec<Command>) {
        shard.work(times, &mut || false, commands);
    }

    fn slot(&self, conn: Conn) -> usize {
        conn.slot as usize
    }

    fn peer(&self, conn: Conn) -> Option<SocketAddr> {
        let address = SocketAddr::new(Ipv4Addr::new(1, 2, 3, 4).into(), 1);
        self.sockets.get(conn).map(|_| address)
    }

    fn is_full(&self) -> bool {
        false
    }

    fn connections_max(&self) -> Option<usize> {
        None
    }

    fn send(&mut self, conn: Conn, output: &mut Vec<u8>) {
        if let Some(socket) = self.sockets.get_mut(conn) {
            socket.unsent += output.len();
            socket.received.extend_from_slice(output);
        }
        output.clear();
    }

    fn unsent(&self, conn: Conn) -> usize {
        self.sockets.get(conn).map_or(0, |socket| socket.unsent)
    }

    fn recycle(&mut self, _: Vec<u8>) {}

    /// Does nothing: the order of completions, and so of clients, is that of the caller's calls.
    fn put_first(&mut self, _: Conn, _: bool) {}

    fn pause_receive(&mut self, conn: Conn) {
        if let Some(socket) = self.sockets.get_mut(conn) {
            socket.is_paused = true;
        }
    }

    fn resume_receive(&mut self, conn: Conn) {
        let Some(socket) = self.sockets.get_mut(conn) else { return };
        socket.is_paused = false;
        let data = std::mem::take(&mut socket.held);
        if !data.is_empty() {
            self.came.push_back(Completion::Received { conn, data });
        }
    }

    fn await_writable(&mut self, conn: Conn) {
        self.begun.push_back(Operation::Writable(conn));
    }

    /// Closes the connection at once. It need not wait for output, because [`Io::send`] sends at
    /// once.
    fn finish(&mut self, conn: Conn) {
        self.sockets.remove(conn);
    }

    fn close(&mut self, conn: Conn) {
        self.sockets.remove(conn);
    }

    fn mail(&mut self, to: u32, message: Message) {
        assert_eq!(to, 0, "there is one shard");
        self.came.push_back(Completion::Mail(message));
    }

    /// Does nothing: no listener here has TLS.
    fn order_certificates(&mut self, _: CertificateOrder) {}

    fn pass_push(&mut self, push: Push) {
        let (outcome, _) = self.telemetry.take(self.times.now, &push);
        self.came.push_back(Completion::Mail(Message::Pushed(outcome)));
    }
}
