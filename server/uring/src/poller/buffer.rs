//! The receive buffer, which is lent with each event.

use std::cell::Cell;
use std::fmt;
use std::io;
use std::ops::Deref;
use std::rc::Rc;

/// The most bytes that are received at once. Other limits are lower; this one is for connections
/// that send much.
pub(super) const BUFFER_BYTES: usize = 64 << 10;

/// Bytes that a connection received. Consume or copy them soon: as long as they are lent, the next
/// receive has to allocate another buffer.
pub struct ReadBuf {
    bytes: Box<[u8]>,
    len: usize,
    home: Buffer,
}

impl Deref for ReadBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Drop for ReadBuf {
    fn drop(&mut self) {
        self.home.spare.set(std::mem::take(&mut self.bytes));
    }
}

impl fmt::Debug for ReadBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReadBuf({} bytes)", self.len)
    }
}

/// The buffer of a poller. It is empty while its memory is lent.
#[derive(Clone, Default)]
pub(super) struct Buffer {
    spare: Rc<Cell<Box<[u8]>>>,
}

impl Buffer {
    /// Lends a buffer that `receive` fills with up to `most` bytes. `receive` returns the number of
    /// bytes.
    pub(super) fn fill(
        &self,
        most: usize,
        receive: impl FnOnce(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<ReadBuf> {
        let mut bytes = self.spare.take();
        if bytes.len() < most {
            bytes = vec![0; BUFFER_BYTES.max(most)].into();
        }
        let mut lent = ReadBuf { bytes, len: 0, home: self.clone() };
        lent.len = receive(&mut lent.bytes[..most])?;
        Ok(lent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_lent_again_once_it_is_back() {
        let buffer = Buffer::default();
        let fill = |byte: u8| {
            let receive = |into: &mut [u8]| {
                into[..3].fill(byte);
                Ok(3)
            };
            buffer.fill(2048, receive).unwrap()
        };
        let (first, second) = (fill(1), fill(2));
        assert_eq!((&*first, &*second), (&[1; 3][..], &[2; 3][..]));
        let address = second.as_ptr();
        drop(first);
        drop(second);
        assert_eq!(fill(3).as_ptr(), address);
        let failed = buffer.fill(10, |_| Err(io::ErrorKind::WouldBlock.into()));
        assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::WouldBlock);
        assert_eq!(fill(4).as_ptr(), address);
    }
}
