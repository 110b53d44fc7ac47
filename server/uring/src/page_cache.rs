//! Checks whether a part of a file is in the page cache: then the kernel can send it without the
//! disk.
//!
//! There are two system calls for that. cachestat(2) is fast, but it also counts pages that are
//! still being read from the disk. Such pages are likely if a page was missing a moment ago. In
//! that case mincore(2) is called, too, which reports the state of each page. Kernels before Linux
//! 6.5 have no cachestat, so mincore is always used there.

use std::io;
use std::os::fd::AsRawFd;
use std::ptr;

use crate::aligned::ALIGNMENT;

/// The number of the system call cachestat(2), on all architectures.
const SYS_CACHESTAT: libc::c_long = 451;

/// How many checks go page by page after a check that has found a missing page. They cover more
/// bytes than the kernel reads ahead.
const CLOSE_CHECKS: u32 = 64;

/// The number of pages that one call of mincore(2) reports.
const PAGES_PER_CALL: usize = 256;

/// The least size of a map. It is large, so that a growing file need not be mapped again each time.
const MAP_BYTES_MIN: u64 = 64 << 20;

/// The state of the checks for one file.
#[derive(Debug, Default)]
pub(crate) struct PageCache {
    /// The number of further checks that have to go page by page.
    close_checks: u32,
    /// Created on first use.
    map: Option<Map>,
}

/// An address range that is mapped to a file from its beginning, and may extend past its end. It
/// cannot be read; it only serves to query the page cache.
#[derive(Debug)]
struct Map {
    address: usize,
    bytes: u64,
}

impl PageCache {
    /// Whether all of this part was in the page cache a moment ago. Pages that are still being read
    /// from the disk do not count. False if this is unknown.
    pub(crate) fn holds(&mut self, file: &impl AsRawFd, offset: u64, len: u32) -> bool {
        let from = offset - offset % page_bytes();
        let end = offset + u64::from(len);
        self.has(file, from, end)
    }

    /// Whether the cache has all pages from `from`, the start of a page, to `end`.
    fn has(&mut self, file: &impl AsRawFd, from: u64, end: u64) -> bool {
        let has_all = match cached_pages(file, from, end) {
            Ok(pages) if pages < (end - from).div_ceil(page_bytes()) => false,
            Ok(_) if self.close_checks == 0 => return true,
            _ => self.has_read_in(file, from, end).unwrap_or(false),
        };
        self.close_checks =
            if has_all { self.close_checks.saturating_sub(1) } else { CLOSE_CHECKS };
        has_all
    }

    fn has_read_in(&mut self, file: &impl AsRawFd, from: u64, end: u64) -> io::Result<bool> {
        let map = match self.map.take_if(|map| end <= map.bytes) {
            Some(map) => map,
            None => Map::new(file, end)?,
        };
        Ok(self.map.insert(map).has_pages(from, end))
    }
}

/// The number of pages in the cache, including pages that are still being read in.
fn cached_pages(file: &impl AsRawFd, from: u64, end: u64) -> io::Result<u64> {
    let (range, mut counts) = ([from, end - from], [0_u64; 5]);
    // SAFETY: the call's structs consist of two and five such numbers. Its flags are 0.
    let result = unsafe {
        let (range, counts) = (range.as_ptr(), counts.as_mut_ptr());
        libc::syscall(SYS_CACHESTAT, file.as_raw_fd(), range, counts, 0)
    };
    if result == 0 { Ok(counts[0]) } else { Err(io::Error::last_os_error()) }
}

impl Map {
    /// Creates a map of at least `bytes`.
    fn new(file: &impl AsRawFd, bytes: u64) -> io::Result<Self> {
        let bytes = bytes.max(MAP_BYTES_MIN).next_power_of_two();
        let (access, kind) = (libc::PROT_NONE, libc::MAP_SHARED);
        // SAFETY: this is a new map at an address chosen by the kernel, and it cannot be accessed.
        let start = unsafe {
            libc::mmap(ptr::null_mut(), bytes as usize, access, kind, file.as_raw_fd(), 0)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { address: start.expose_provenance(), bytes })
    }

    /// Whether the cache has all pages of the map from `from`, the start of a page, to `end`.
    fn has_pages(&self, mut from: u64, end: u64) -> bool {
        let mut pages = [0_u8; PAGES_PER_CALL];
        while from < end {
            let bytes = (end - from).min(PAGES_PER_CALL as u64 * page_bytes());
            let address = ptr::with_exposed_provenance_mut(self.address + from as usize);
            // SAFETY: the addresses are within the map, and there is a byte for each page.
            let result = unsafe { libc::mincore(address, bytes as usize, pages.as_mut_ptr()) };
            let pages = &pages[..bytes.div_ceil(page_bytes()) as usize];
            if result < 0 || pages.iter().any(|page| page & 1 == 0) {
                return false;
            }
            from += bytes;
        }
        true
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        let address = ptr::with_exposed_provenance_mut(self.address);
        // SAFETY: the map was created with this size, and no pointer into it exists.
        unsafe { libc::munmap(address, self.bytes as usize) };
    }
}

/// The page size of this machine, in bytes.
fn page_bytes() -> u64 {
    // SAFETY: the call takes a number.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(bytes).unwrap_or(ALIGNMENT as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::File;
    use std::os::unix::fs::FileExt;

    /// Checks that both system calls give the same answer, and returns it.
    fn is_there(file: &File, offset: u64, len: u64) -> bool {
        let (from, end) = (offset - offset % page_bytes(), offset + len);
        let pages = cached_pages(file.std(), from, end);
        let mut page_cache = PageCache::default();
        let is_there = page_cache.has_read_in(file.std(), from, end).unwrap();
        // Before Linux 6.5 only the second call exists.
        assert!(
            pages.is_err() || (pages.unwrap() == (end - from).div_ceil(page_bytes())) == is_there
        );
        assert_eq!(file.is_cached(offset, len as u32), is_there);
        is_there
    }

    #[test]
    fn what_was_written_is_cached_and_a_hole_or_what_is_past_the_end_is_not() {
        let file = File::from_std(tempfile::tempfile().unwrap());
        file.std().set_len(5 << 20).unwrap();
        file.std().write_all_at(&[7; 100_000], 2 << 20).unwrap();
        let (written, hole, end) = (2 << 20, 1 << 20, 5 << 20);
        assert!(is_there(&file, written, 100_000));
        assert!(is_there(&file, written + 99_999, 1));
        assert!(!is_there(&file, written - 1, 2));
        assert!(!is_there(&file, hole, 1));
        assert!(!is_there(&file, end, 1));
    }

    #[test]
    fn a_file_that_grew_past_its_map_is_mapped_again() {
        let (file, mut page_cache) =
            (File::from_std(tempfile::tempfile().unwrap()), PageCache::default());
        for offset in [0, MAP_BYTES_MIN / 2, MAP_BYTES_MIN, 5 * MAP_BYTES_MIN] {
            let mut has = || page_cache.has_read_in(file.std(), offset, offset + 5000).unwrap();
            assert!(!has());
            file.std().write_all_at(&[7; 5000], offset).unwrap();
            assert!(has());
        }
    }

    #[test]
    fn where_something_was_missing_the_next_checks_are_close() {
        let (file, mut page_cache) =
            (File::from_std(tempfile::tempfile().unwrap()), PageCache::default());
        file.std().set_len(1 << 20).unwrap();
        file.std().write_all_at(&[7; 8192], 0).unwrap();
        assert!(!page_cache.has(file.std(), 1 << 19, (1 << 19) + 1));
        let has_cachestat = cached_pages(file.std(), 0, 1).is_ok();
        assert_eq!(page_cache.map.is_none(), has_cachestat);
        for left in (0..CLOSE_CHECKS).rev() {
            assert!(page_cache.has(file.std(), 0, 8192));
            assert_eq!((page_cache.close_checks, page_cache.map.is_some()), (left, true));
        }
        assert!(page_cache.has(file.std(), 0, 8192));
    }
}
