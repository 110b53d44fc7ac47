//! The queue of lines for the writer. Only a process that ends waits for the writer.

use crossbeam_channel::{Receiver, Sender, bounded};
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

/// The maximum number of lines, and of bytes, in the queue. Further lines are dropped and counted.
pub(super) const LINES_MAX: usize = 8_192;
pub(super) const BYTES_MAX: usize = 4 << 20;

pub(super) enum Item {
    Line(Kind, Vec<u8>),
    /// Answered once all earlier lines are written.
    Flush(Sender<()>),
}

/// Whether a line is an error. This decides to which output it goes if possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Error,
    Other,
}

/// The sending end of the queue.
#[derive(Debug, Clone)]
pub(super) struct Queue {
    sender: Sender<Item>,
    counts: Arc<Counts>,
}

/// The receiving end of the queue.
pub(super) struct Waiting {
    receiver: Receiver<Item>,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    /// Bytes of the queued lines.
    bytes: AtomicUsize,
    /// Lines dropped since the writer last took the count.
    dropped: AtomicU64,
}

pub(super) fn new() -> (Queue, Waiting) {
    let (sender, receiver) = bounded(LINES_MAX);
    let counts = Arc::<Counts>::default();
    (Queue { sender, counts: counts.clone() }, Waiting { receiver, counts })
}

impl Queue {
    /// Waits up to `patience` until all lines so far are written. Returns false if some are not
    /// written by then.
    pub(super) fn flush(&self, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        let (done, is_done) = bounded(1);
        self.sender.send_deadline(Item::Flush(done), deadline).is_ok()
            && is_done.recv_deadline(deadline).is_ok()
    }

    pub(super) fn push(&self, kind: Kind, line: &[u8]) {
        let before = self.counts.bytes.fetch_add(line.len(), Relaxed);
        let fits = before.saturating_add(line.len()) <= BYTES_MAX;
        if !fits || self.sender.try_send(Item::Line(kind, line.to_vec())).is_err() {
            self.counts.bytes.fetch_sub(line.len(), Relaxed);
            self.counts.dropped.fetch_add(1, Relaxed);
        }
    }
}

impl<'q> MakeWriter<'q> for &'static Queue {
    type Writer = Lines<'q>;

    fn make_writer(&'q self) -> Lines<'q> {
        Lines { queue: self, kind: Kind::Other }
    }

    fn make_writer_for(&'q self, meta: &Metadata<'_>) -> Lines<'q> {
        let kind = if *meta.level() == Level::ERROR { Kind::Error } else { Kind::Other };
        Lines { queue: self, kind }
    }
}

/// A writer that puts lines of one kind into the queue; each call writes one line.
#[derive(Debug)]
pub(super) struct Lines<'q> {
    queue: &'q Queue,
    kind: Kind,
}

impl Write for Lines<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.queue.push(self.kind, line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Waiting {
    /// The next item, or None when all senders are gone.
    pub(super) fn next(&self) -> Option<Item> {
        let item = self.receiver.recv().ok()?;
        if let Item::Line(_, line) = &item {
            self.counts.bytes.fetch_sub(line.len(), Relaxed);
        }
        Some(item)
    }

    /// How many lines were dropped since the last call.
    pub(super) fn take_dropped(&self) -> u64 {
        self.counts.dropped.swap(0, Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(waiting: &Waiting) -> usize {
        let mut lines = 0;
        while !waiting.receiver.is_empty() {
            lines += usize::from(matches!(waiting.next(), Some(Item::Line(..))));
        }
        lines
    }

    #[test]
    fn lines_beyond_the_limit_are_dropped_and_counted() {
        let (queue, waiting) = new();
        (0..LINES_MAX + 3).for_each(|_| queue.push(Kind::Other, b"x\n"));
        assert_eq!((lines(&waiting), waiting.take_dropped()), (LINES_MAX, 3));
        assert_eq!(waiting.take_dropped(), 0, "they are counted once");
        queue.push(Kind::Other, b"x\n");
        assert_eq!((lines(&waiting), waiting.take_dropped()), (1, 0), "the queue has space again");
    }

    #[test]
    fn bytes_beyond_the_limit_are_dropped_and_counted() {
        let (queue, waiting) = new();
        let line = vec![b'x'; BYTES_MAX / 4];
        (0..6).for_each(|_| queue.push(Kind::Other, &line));
        assert_eq!((lines(&waiting), waiting.take_dropped()), (4, 2));
        (0..6).for_each(|_| queue.push(Kind::Other, &line));
        assert_eq!(
            (lines(&waiting), waiting.take_dropped()),
            (4, 2),
            "taken lines free their bytes"
        );
    }

    #[test]
    fn a_flush_does_not_wait_for_a_blocked_writer() {
        let (queue, _waiting) = new();
        assert!(!queue.flush(Duration::from_millis(10)));
        (0..LINES_MAX).for_each(|_| queue.push(Kind::Other, b"x\n"));
        assert!(!queue.flush(Duration::from_millis(10)), "the queue is full");
    }
}
