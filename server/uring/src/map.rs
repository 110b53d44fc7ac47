//! A file that is read as if it were memory.

use memmap2::Mmap;
use std::fs::File;
use std::io;
use std::path::Path;

/// The bytes of a file, which the kernel reads when they are looked at.
///
/// The file is not to be changed while it is mapped: files that are mapped get their names when they
/// are whole, and others take their place by name. One that somebody cuts short all the same ends
/// the process (SIGBUS) when what is gone is looked at.
#[derive(Debug)]
pub struct MappedFile {
    map: Mmap,
}

impl MappedFile {
    /// # Errors
    /// The file is not there, is empty, or cannot be mapped.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        if file.metadata()?.len() == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // SAFETY: nobody who keeps to the rule above writes to the file. Who does not may change
        // bytes, of which each is valid, or cut the file, for which the kernel ends the process.
        let map = unsafe { Mmap::map(&file)? };
        Ok(Self { map })
    }
}

impl AsRef<[u8]> for MappedFile {
    fn as_ref(&self) -> &[u8] {
        &self.map
    }
}
