//! The task of a connection. It sends the bytes that its owner has queued, in one write, and passes
//! each frame that arrives to the owner.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use super::transport::{Buffers, Outbox, Transport};
use crate::time::Time;
use crate::wire::{Frames, Malformed};

/// The maximum number of reads in a turn, before other connections have their turns.
const READS_MAX: usize = 16;

/// The state that the task shares with the connection's owner.
#[derive(Default)]
pub(super) struct Line {
    out: Outbox,
    waker: Option<Waker>,
    end: Option<End>,
}

/// How the owner ends a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    Close,
    /// Resets the connection, as if the process were killed.
    Abort,
}

/// Why a connection ended.
#[derive(Debug)]
pub(super) enum Ended {
    ByOwner,
    ByPeer,
    Broken(io::Error),
    Malformed(Malformed),
}

/// When bytes were read, and how long the last of them had waited, if known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ReadAt {
    pub(super) now: Time,
    pub(super) waited: Option<Duration>,
}

/// An owner of numbered connections. A number is not reused until the connection's task has ended.
pub(super) trait Owner {
    fn line(&mut self, at: usize) -> &mut Line;

    fn now(&self) -> Time;

    /// Called when all queued bytes of a connection were passed to the system. The last write began
    /// at `began`.
    fn written(&mut self, at: usize, began: Time);

    /// Called when a turn of a connection's task, which began at `began`, has ended.
    fn turn_ended(&mut self, began: Time);

    /// Handles a frame, which is passed without its length.
    /// # Errors
    /// The frame is not the expected answer. The connection ends then.
    fn frame(&mut self, at: usize, frame: &[u8], read: ReadAt) -> Result<(), Malformed>;
}

impl Line {
    /// The buffer to which frames are appended. Call [`Self::wake`] afterwards.
    pub(super) fn queue(&mut self) -> &mut Vec<u8> {
        self.out.queue()
    }

    /// The number of unsent bytes.
    pub(super) fn backlog(&self) -> usize {
        self.out.unsent().len()
    }

    pub(super) fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    pub(super) fn end(&mut self, how: End) {
        self.end = Some(how);
        self.wake();
    }
}

/// Runs the connection until it ends.
pub(super) async fn serve<O: Owner>(
    owner: &RefCell<O>,
    at: usize,
    mut transport: Transport,
    buffers: &RefCell<Buffers>,
) -> Ended {
    let mut frames = Frames::default();
    let turn = |cx: &mut Context<'_>| {
        let (owner, buffers) = (&mut *owner.borrow_mut(), &mut *buffers.borrow_mut());
        let began = owner.now();
        let polled = poll(owner, at, &mut transport, &mut frames, buffers, cx);
        owner.turn_ended(began);
        polled
    };
    poll_fn(turn).await
}

fn poll<O: Owner>(
    owner: &mut O,
    at: usize,
    transport: &mut Transport,
    frames: &mut Frames,
    buffers: &mut Buffers,
    cx: &mut Context<'_>,
) -> Poll<Ended> {
    for _ in 0..READS_MAX {
        if let Some(end) = owner.line(at).end {
            return Poll::Ready(hang_up(transport, end));
        }
        if let Err(error) = write(owner, at, transport, cx) {
            return Poll::Ready(Ended::Broken(error));
        }
        match transport.poll_read(cx, buffers) {
            Poll::Ready(Ok(([], _))) => return Poll::Ready(Ended::ByPeer),
            Poll::Ready(Ok((bytes, waited))) => {
                let read = ReadAt { now: owner.now(), waited };
                if let Err(error) = frames.feed(bytes, |frame| owner.frame(at, frame, read)) {
                    return Poll::Ready(Ended::Malformed(error));
                }
            }
            Poll::Ready(Err(error)) => return Poll::Ready(Ended::Broken(error)),
            Poll::Pending => {
                owner.line(at).waker = Some(cx.waker().clone());
                return Poll::Pending;
            }
        }
    }
    cx.waker().wake_by_ref();
    Poll::Pending
}

/// Writes queued requests, as many as the system takes.
fn write<O: Owner>(
    owner: &mut O,
    at: usize,
    transport: &mut Transport,
    cx: &mut Context<'_>,
) -> io::Result<()> {
    let began = owner.now();
    let out = &mut owner.line(at).out;
    let has_some = !out.is_empty();
    match transport.poll_write(cx, out) {
        Poll::Ready(Err(error)) => return Err(error),
        Poll::Ready(Ok(())) if has_some => owner.written(at, began),
        Poll::Ready(Ok(())) | Poll::Pending => {}
    }
    Ok(())
}

fn hang_up(transport: &Transport, end: End) -> Ended {
    match end {
        End::Abort => transport.abort_on_close().map_or_else(Ended::Broken, |()| Ended::ByOwner),
        End::Close => Ended::ByOwner,
    }
}
