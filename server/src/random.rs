//! Random ids from the operating system's random numbers.

use muster_codec::Uuid;
use muster_coordinator::Ids;
use std::io;

/// Generates random ids. Each read of random numbers suffices for a few hundred ids.
#[derive(Debug)]
pub struct RandomIds {
    pool: Box<[u8; POOL_BYTES]>,
    used: usize,
}

const POOL_BYTES: usize = 4096;

impl RandomIds {
    /// # Errors
    /// The system returns no random numbers.
    pub fn new() -> io::Result<Self> {
        let mut ids = Self { pool: Box::new([0; POOL_BYTES]), used: 0 };
        ids.refill()?;
        Ok(ids)
    }

    fn refill(&mut self) -> io::Result<()> {
        getrandom::fill(&mut *self.pool).map_err(io::Error::other)?;
        self.used = 0;
        Ok(())
    }
}

impl Ids for RandomIds {
    /// # Panics
    /// If the system stops returning random numbers. Linux does not do this.
    fn next_id(&mut self) -> Uuid {
        if self.used + 16 > POOL_BYTES {
            self.refill().unwrap_or_else(|error| panic!("no random numbers: {error}"));
        }
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&self.pool[self.used..self.used + 16]);
        self.used += 16;
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        Uuid(bytes)
    }
}
