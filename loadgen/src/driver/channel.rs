//! One request after the other on one connection: for handshakes, and for muster-load's own
//! requests.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time;

use super::transport::{Buffers, Outbox, Transport};
use crate::wire::{self, Call, Frames, Header, Malformed, Unwritable};

pub(super) struct Channel {
    transport: Transport,
    buffers: Rc<RefCell<Buffers>>,
    client_id: Arc<str>,
    timeout: Duration,
    correlation: i32,
    frames: Frames,
    arrived: VecDeque<Vec<u8>>,
}

/// Why a call has no answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum CallError {
    #[error("the other side closed the connection")]
    Closed,
    #[error("{0}")]
    Broken(#[from] io::Error),
    #[error("no answer within {}", humantime::format_duration(*.0))]
    TimedOut(Duration),
    #[error("the answer cannot be read: {0}")]
    Malformed(#[from] Malformed),
    #[error("the request cannot be written: {0}")]
    Unwritable(#[from] Unwritable),
}

impl CallError {
    /// Whether the other side ended the connection, by closing or by resetting it.
    pub(super) fn is_hang_up(&self) -> bool {
        use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset};
        match self {
            Self::Closed => true,
            Self::Broken(error) => {
                matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset)
            }
            Self::TimedOut(_) | Self::Malformed(_) | Self::Unwritable(_) => false,
        }
    }
}

impl Channel {
    pub(super) fn new(
        transport: Transport,
        buffers: Rc<RefCell<Buffers>>,
        client_id: Arc<str>,
        timeout: Duration,
    ) -> Self {
        Self {
            transport,
            buffers,
            client_id,
            timeout,
            correlation: 0,
            frames: Frames::default(),
            arrived: VecDeque::new(),
        }
    }

    /// May be called only while no request is in flight.
    pub(super) fn into_transport(self) -> Transport {
        self.transport
    }

    /// Sends `request`, waits for its answer, and returns the result of `read`.
    /// # Errors
    /// The call failed. The channel can no longer be used.
    pub(super) async fn call<R: Call, T>(
        &mut self,
        version: i16,
        request: &R,
        read: impl FnOnce(R::Response<'_>) -> T,
    ) -> Result<T, CallError> {
        let frame = self.exchange(version, request).await?;
        Ok(read(wire::read::<R>(version, &frame)?))
    }

    /// Calls like [`Self::call`], and returns the answer without decoding it.
    pub(super) async fn exchange<R: Call>(
        &mut self,
        version: i16,
        request: &R,
    ) -> Result<Vec<u8>, CallError> {
        self.correlation = self.correlation.wrapping_add(1);
        let (correlation, timeout) = (self.correlation, self.timeout);
        let mut out = Outbox::default();
        let header = Header { version, correlation, client_id: &self.client_id };
        wire::write(out.queue(), &header, request)?;
        let answer = poll_fn(|cx| self.poll_exchange(cx, &mut out));
        let answered = time::timeout(timeout, answer).await;
        let frame = answered.map_err(|_| CallError::TimedOut(timeout))??;
        match wire::correlation(&frame)? {
            got if got == correlation => Ok(frame),
            got => Err(Malformed::Correlation { expected: correlation, got }.into()),
        }
    }

    fn poll_exchange(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut Outbox,
    ) -> Poll<Result<Vec<u8>, CallError>> {
        loop {
            ready!(self.transport.poll_write(cx, out))?;
            if let Some(frame) = self.arrived.pop_front() {
                return Poll::Ready(Ok(frame));
            }
            let mut buffers = self.buffers.borrow_mut();
            let (bytes, _) = ready!(self.transport.poll_read(cx, &mut buffers))?;
            if bytes.is_empty() {
                return Poll::Ready(Err(CallError::Closed));
            }
            let arrived = &mut self.arrived;
            self.frames.feed::<CallError>(bytes, |frame| {
                arrived.push_back(frame.to_vec());
                Ok(())
            })?;
        }
    }
}
