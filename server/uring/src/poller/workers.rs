//! The threads that carry out a poller's file operations, because these may wait for a disk.
//!
//! There are three lanes, each with its own threads. So a write of the log waits neither for slow
//! syncs of other files nor for reads of old records. Operations that find no free thread wait in
//! order. As on a ring, the callers have to limit their number.

use std::io;
use std::sync::mpsc;
use std::thread;

use crossbeam_channel::{Receiver, Sender, unbounded};

use crate::aligned::AlignedBuf;
use crate::file::File;
use crate::ids::ConnId;
use crate::slice::Slice;
use crate::wake::Waker;
use crate::write::{self, Durability};

/// An operation. It owns its file and its buffer until it ends.
pub(super) enum Job {
    Write {
        file: File,
        offset: u64,
        buf: AlignedBuf,
        durability: Durability,
        token: u64,
    },
    Read {
        file: File,
        offset: u64,
        buf: AlignedBuf,
        token: u64,
    },
    Sync {
        file: File,
        token: u64,
    },
    /// Reads the parts of a slice.
    Slice {
        conn: ConnId,
        slice: Slice,
    },
}

/// A completed operation.
pub(super) enum Ended {
    Written { token: u64, result: io::Result<()>, buf: AlignedBuf },
    Read { token: u64, result: io::Result<()>, buf: AlignedBuf },
    Synced { token: u64, result: io::Result<()> },
    Slice { conn: ConnId, slice: Slice, result: io::Result<()> },
}

pub(super) struct Workers {
    /// Durable writes, such as writes to logs.
    durable: Sender<Job>,
    syncs: Sender<Job>,
    others: Sender<Job>,
    ended: mpsc::Receiver<Ended>,
    /// Called when an operation has ended.
    waker: Waker,
}

/// The number of threads of each lane. Durable writes have two threads: one for the log, which has
/// one write in flight, and one for another file.
const DURABLE_THREADS: usize = 2;
const SYNC_THREADS: usize = 4;
const OTHER_THREADS: usize = 4;

impl Workers {
    /// Starts the threads. They end when this value is dropped. They may run on the cores of the
    /// calling thread.
    ///
    /// # Errors
    /// A thread cannot be started, or descriptors ran out.
    pub(super) fn start() -> io::Result<Self> {
        let ((ends, ended), waker) = (mpsc::channel(), Waker::new()?);
        let lane = |name: &str, threads: usize| {
            let (jobs, waiting) = unbounded();
            (0..threads).try_for_each(|number| {
                let (waiting, ends, waker) = (waiting.clone(), ends.clone(), waker.clone());
                let name = format!("{name}-{number}");
                let work = move || work(&waiting, &ends, &waker);
                thread::Builder::new().name(name).spawn(work).map(drop)
            })?;
            io::Result::Ok(jobs)
        };
        Ok(Self {
            durable: lane("log-writes", DURABLE_THREADS)?,
            syncs: lane("syncs", SYNC_THREADS)?,
            others: lane("files", OTHER_THREADS)?,
            ended,
            waker,
        })
    }

    /// Passes a job to the next free thread of its lane.
    pub(super) fn begin(&self, job: Job) {
        let lane = match &job {
            Job::Write { durability: Durability::Durable, .. } => &self.durable,
            Job::Sync { .. } => &self.syncs,
            Job::Write { .. } | Job::Read { .. } | Job::Slice { .. } => &self.others,
        };
        // This cannot fail: the threads receive jobs as long as this value exists.
        let _ = lane.send(job);
    }

    pub(super) fn waker(&self) -> &Waker {
        &self.waker
    }

    /// The next completed job, if there is one.
    pub(super) fn next_ended(&self) -> Option<Ended> {
        self.ended.try_recv().ok()
    }
}

fn work(waiting: &Receiver<Job>, ends: &mpsc::Sender<Ended>, waker: &Waker) {
    for job in waiting {
        // This fails only if the poller was dropped.
        let _ = ends.send(job.run());
        waker.wake();
    }
}

impl Job {
    /// Carries out the job. The result does not hold the file any more.
    fn run(self) -> Ended {
        match self {
            Self::Write { file, offset, buf, durability, token } => {
                let result = write::blocking(&file, offset, &buf, durability);
                Ended::Written { token, result, buf }
            }
            Self::Read { file, offset, mut buf, token } => {
                let read = file.read_at(offset, &mut buf);
                buf.truncate(*read.as_ref().unwrap_or(&0));
                Ended::Read { token, result: read.map(drop), buf }
            }
            Self::Sync { file, token } => Ended::Synced { token, result: file.std().sync_data() },
            Self::Slice { conn, mut slice } => {
                let result = slice.read_all();
                Ended::Slice { conn, slice, result }
            }
        }
    }
}
