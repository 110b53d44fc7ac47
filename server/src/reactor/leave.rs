//! The work of a reactor after its shard has failed or stopped.

use super::{Completion, Io, Reactor};
use crate::files::FileError;
use crate::mailbox::ToReactor;
use crate::shard::Message;

impl<I: Io> Reactor<I> {
    /// Closes all connections of a failed shard. Until [`Self::is_busy`] returns false, the caller
    /// passes completions to [`Self::drain`]. Messages stay in the mailbox until the shard is
    /// loaded again.
    pub fn leave(&mut self, io: &mut I) {
        let open = self.connections.drain(..).flatten().map(|open| open.conn);
        open.chain(self.finishing.drain(..).map(|(_, conn)| conn)).for_each(|it| io.close(it));
        self.leave_peers(io);
        self.dirty.clear();
        self.sessions.clear();
    }

    /// Handles a completion while there is no shard. Call [`Self::drained`] after the last one.
    ///
    /// # Errors
    /// The errors of [`Self::input`].
    pub fn drain(
        &mut self,
        io: &mut I,
        completion: Completion<I::Conn, I::Data, I::Parts>,
    ) -> Result<(), FileError> {
        match completion {
            Completion::Accepted { conn, .. }
            | Completion::InputEnded { conn }
            | Completion::Broken { conn } => io.close(conn),
            Completion::Written { token, result } => {
                self.files.written(io.files(), token, result)?;
            }
            Completion::Read { token, result } => drop(self.files.read(token, result)),
            Completion::Synced { token, result } => drop(self.files.synced(token, result)?),
            Completion::Called => drop(self.files.called(io.files())?),
            Completion::PartsRead { parts, .. } => io.recycle(parts),
            Completion::NotAccepted { .. }
            | Completion::Received { .. }
            | Completion::Sent { .. }
            | Completion::Streamed { .. }
            | Completion::StreamFailed { .. }
            | Completion::Writable { .. } => {}
            Completion::Mail(Message::Reactor(ToReactor::Tls(listeners))) => self.secure(listeners),
            Completion::Mail(_) => {}
        }
        Ok(())
    }

    /// Called after each series of calls of [`Self::drain`], when no completion is left to pass on.
    pub fn drained(&mut self, io: &mut I) {
        self.files.resume(io.files());
    }

    /// Whether a file operation is under way.
    pub fn is_busy(&self) -> bool {
        self.files.is_busy()
    }

    /// Closes all files of a failed shard. No operation may be under way.
    pub fn close_files(&mut self, io: &mut I) {
        self.files.close_all(io.files());
    }
}
