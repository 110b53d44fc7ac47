//! The threads that carry out the file operations of a poller, as these may wait for a disk.
//!
//! Each of three lanes has threads of its own, so that a write of the log waits neither for slow
//! syncs of other files nor for reads of old records. Operations that find no free thread wait in
//! order; how many there are is limited by those who request them, as on a ring.

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

/// An operation. It owns what it needs until it has ended.
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

/// The end of an operation.
pub(super) enum Ended {
    Written { token: u64, result: io::Result<()>, buf: AlignedBuf },
    Read { token: u64, result: io::Result<()>, buf: AlignedBuf },
    Synced { token: u64, result: io::Result<()> },
    Slice { conn: ConnId, slice: Slice, result: io::Result<()> },
}

pub(super) struct Workers {
    /// Writes of logs, which are durable when they have ended.
    durable: Sender<Job>,
    syncs: Sender<Job>,
    others: Sender<Job>,
    ended: mpsc::Receiver<Ended>,
    /// Wakes when an operation has ended.
    waker: Waker,
}

/// The threads of a lane. A log has one write in flight, and beside it one more file is written.
const DURABLE_THREADS: usize = 2;
const SYNC_THREADS: usize = 4;
const OTHER_THREADS: usize = 4;

impl Workers {
    /// Starts the threads, which end when this is dropped. They may run where the calling thread
    /// may.
    ///
    /// # Errors
    /// No thread can be started, or descriptors are lacking.
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

    /// Gives a job to the next free thread of its lane.
    pub(super) fn begin(&self, job: Job) {
        let lane = match &job {
            Job::Write { durability: Durability::Durable, .. } => &self.durable,
            Job::Sync { .. } => &self.syncs,
            Job::Write { .. } | Job::Read { .. } | Job::Slice { .. } => &self.others,
        };
        // The threads receive jobs as long as this exists.
        let _ = lane.send(job);
    }

    pub(super) fn waker(&self) -> &Waker {
        &self.waker
    }

    /// The next job that has ended.
    pub(super) fn next_ended(&self) -> Option<Ended> {
        self.ended.try_recv().ok()
    }
}

fn work(waiting: &Receiver<Job>, ends: &mpsc::Sender<Ended>, waker: &Waker) {
    for job in waiting {
        // Fails only if the poller has been dropped.
        let _ = ends.send(job.run());
        waker.wake();
    }
}

impl Job {
    /// The file is no longer in use when this returns.
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
