//! The checksums of an index's pages. Checking the file once, when it is opened, is not enough: it
//! is mapped, so the kernel may read bytes from the disk again later, and they may be damaged then.

use alloc::vec::Vec;
use core::ops::Range;

/// The size of a page: small, so that verifying one entry is cheap. The checksum of each page takes
/// 4 bytes of memory.
pub const PAGE_BYTES: usize = 512;

/// The size of a checksum in the file.
pub const SUM_BYTES: usize = 4;

/// The CRC-32C of each page of an index.
#[derive(Debug, Default)]
pub struct Pages(Vec<u32>);

impl Pages {
    /// Computes the page checksums of `bytes`; None if the checksum of all bytes is not `crc`.
    /// Reads each byte only once, so that the page checksums belong to the same bytes that `crc`
    /// has verified.
    pub fn of(bytes: &[u8], crc: u32) -> Option<Self> {
        let (mut pages, mut whole) = (Vec::with_capacity(bytes.len().div_ceil(PAGE_BYTES)), 0);
        for bytes in bytes.chunks(PAGE_BYTES) {
            let mut page = [0; PAGE_BYTES];
            let page = &mut page[..bytes.len()];
            page.copy_from_slice(bytes);
            whole = crc32c::crc32c_append(whole, page);
            pages.push(crc32c::crc32c(page));
        }
        (whole == crc).then_some(Self(pages))
    }

    /// Reads page checksums from a file, where they are stored one after the other.
    pub fn read(sums: &[u8]) -> Self {
        let (sums, _) = sums.as_chunks::<SUM_BYTES>();
        Self(sums.iter().copied().map(u32::from_be_bytes).collect())
    }

    /// The bytes of `range`; None if the bytes of a page in it no longer match the page's checksum.
    pub fn get<'b>(&self, bytes: &'b [u8], range: Range<usize>) -> Option<&'b [u8]> {
        let wanted = bytes.get(range.clone())?;
        let pages = range.start / PAGE_BYTES..range.end.div_ceil(PAGE_BYTES);
        let from = bytes.get(pages.start * PAGE_BYTES..)?;
        let mut checked = from.chunks(PAGE_BYTES).zip(self.0.get(pages)?);
        checked.all(|(page, crc)| crc32c::crc32c(page) == *crc).then_some(wanted)
    }
}

/// Computes page checksums of bytes that arrive piece by piece.
#[derive(Debug, Default)]
pub struct PageSums {
    sums: Vec<u32>,
    /// The number of bytes added so far.
    len: usize,
}

impl PageSums {
    /// Adds the next piece.
    pub fn add(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let in_page = self.len % PAGE_BYTES;
            if in_page == 0 {
                self.sums.push(0);
            }
            let (now, later) = bytes.split_at(bytes.len().min(PAGE_BYTES - in_page));
            if let Some(sum) = self.sums.last_mut() {
                *sum = crc32c::crc32c_append(*sum, now);
            }
            self.len += now.len();
            bytes = later;
        }
    }

    /// Encodes the checksums as [`Pages::read`] reads them.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.sums.iter().flat_map(|sum| sum.to_be_bytes()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_of_a_file_are_those_of_its_bytes() {
        let bytes: Vec<u8> = (0..3 * PAGE_BYTES + 77).map(|at| (at % 251) as u8).collect();
        let mut sums = PageSums::default();
        bytes.chunks(100).for_each(|bytes| sums.add(bytes));
        let pages = Pages::read(&sums.to_bytes());
        assert_eq!(pages.get(&bytes, 0..bytes.len()), Some(&bytes[..]));
        let mut changed = bytes.clone();
        changed[bytes.len() - 1] ^= 1;
        assert_eq!(pages.get(&changed, 0..bytes.len()), None);
        assert!(pages.get(&changed, 0..3 * PAGE_BYTES).is_some());
        assert_eq!(Pages::read(&[]).get(&bytes, 0..1), None, "a checksum is missing");
    }

    #[test]
    fn changed_bytes_are_not_returned() {
        let bytes: Vec<u8> = (0..4 * PAGE_BYTES + 9).map(|at| (at % 251) as u8).collect();
        assert!(Pages::of(&bytes, 7).is_none());
        let pages = Pages::of(&bytes, crc32c::crc32c(&bytes)).unwrap();
        let end = bytes.len();
        assert_eq!(pages.get(&bytes, 500..1_200), Some(&bytes[500..1_200]));
        assert_eq!(pages.get(&bytes, end - 3..end), Some(&bytes[end - 3..]));
        assert_eq!(pages.get(&bytes, end - 3..end + 1), None);
        for at in 0..end {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            let is_touched = (0..3).contains(&(at / PAGE_BYTES));
            assert_eq!(pages.get(&changed, 511..1_025).is_none(), is_touched, "byte {at}");
        }
    }
}
