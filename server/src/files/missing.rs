//! Files that must exist but cannot be opened, for example because they were removed. The
//! operations that wait for such a file fail, and the next operation on it tries to open it again.
//! Also handles renames of files that no longer exist.

use super::calls::Purpose;
use super::lane::Waiting;
use super::slices::GivenUp;
use super::{Call, CallDone, CallEnd, FileError, FileIo, Files, PartsTo};
use muster_storage::{FileDone, FileId, FileToken};

impl<I: FileIo> Files<I> {
    /// A file could not be opened: fails the operations that wait for it.
    pub(super) fn not_opened(
        &mut self,
        io: &mut I,
        file: FileId,
        error: &std::io::Error,
        ends: &mut Vec<CallEnd<I::Conn>>,
    ) -> Result<(), FileError> {
        let lane = self.lane_mut(file)?;
        let reason = format!("could not open {}: {error}", lane.path().display());
        let mut free = vec![file];
        for waiting in lane.not_opened() {
            match waiting {
                Waiting::Op { op, .. } => ends.extend(op.without_file(&reason).map(CallEnd::Done)),
                Waiting::Slice(number) => {
                    let Some(given_up) = self.give_up_slice(number)? else { continue };
                    let GivenUp { to, kept } = given_up;
                    free.extend(kept);
                    if let PartsTo::Socket(conn) | PartsTo::Reactor(conn) = to {
                        ends.push(CallEnd::NotSent { conn, reason: reason.clone() });
                    }
                }
            }
        }
        self.start_waiting(io, free)
    }

    /// Tries to open a missing file again, for an operation that was added.
    pub(super) fn open_if_missing(&mut self, io: &mut I, file: FileId) {
        let Some(lane) = self.lanes.get_mut(&file).filter(|lane| lane.is_missing()) else { return };
        lane.open_again();
        let (path, mode) = (lane.path().clone(), lane.mode());
        self.push_call(io, Purpose::Open(file), Call::Open { path, mode });
    }

    /// The completion of a rename, if it has one.
    pub(super) fn renamed(
        token: Option<FileToken>,
        done: CallDone<I::File>,
    ) -> Result<Option<FileDone>, FileError> {
        let CallDone::NotRenamed { from, error } = done else {
            return Ok(token.map(|token| FileDone::Renamed { token }));
        };
        let reason = format!("could not rename {}: {error}", from.display());
        match token {
            Some(token) => Ok(Some(FileDone::Lost { token, reason })),
            None => Err(FileError(reason)),
        }
    }
}
