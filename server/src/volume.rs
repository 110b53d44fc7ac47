//! The volume that the data directory is on.

/// Bytes of a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Volume {
    pub total: u64,
    /// The bytes that a process without privileges may still take.
    pub usable: u64,
}

/// Asks the file system for the volume of a path, which may wait for a disk; None if it cannot be
/// asked.
pub fn volume(path: &str) -> Option<Volume> {
    let it = rustix::fs::statvfs(path).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(it.f_frsize);
    Some(Volume { total: bytes(it.f_blocks), usable: bytes(it.f_bavail) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_volume_has_more_bytes_than_are_usable() {
        let found = volume("/").unwrap();
        assert!(found.total > found.usable && found.total > 1 << 20, "{found:?}");
        assert_eq!(volume("/no/such/path"), None);
    }
}
