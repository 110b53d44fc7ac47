//! File operations in flight. Each owns its buffer and its file until its completion.

use std::io;

use crate::aligned::AlignedBuf;
use crate::file::File;

pub(crate) struct DiskOp {
    pub(crate) file: File,
    pub(crate) buf: AlignedBuf,
    pub(crate) token: u64,
}

/// The operations by slot. Since a slot is freed only when its operation has completed, no
/// completion can meet a reused slot, and slots need no generation.
#[derive(Default)]
pub(crate) struct DiskOps {
    slots: Vec<Option<DiskOp>>,
    free: Vec<u32>,
}

impl DiskOps {
    pub(crate) fn insert(&mut self, op: DiskOp) -> u32 {
        match self.free.pop() {
            Some(index) => {
                self.slots[index as usize] = Some(op);
                index
            }
            None => {
                self.slots.push(Some(op));
                (self.slots.len() - 1) as u32
            }
        }
    }

    pub(crate) fn take(&mut self, index: u32) -> Option<DiskOp> {
        let op = self.slots.get_mut(index as usize)?.take()?;
        self.free.push(index);
        Some(op)
    }
}

/// Converts the result of a completion: a number of bytes, or a negated errno.
pub(crate) fn outcome(result: i32) -> io::Result<usize> {
    if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(result as usize) }
}
