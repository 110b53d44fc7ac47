//! The volume of the data directory.

/// The size of a volume, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Volume {
    pub total: u64,
    /// The bytes that an unprivileged process may still use.
    pub usable: u64,
}

/// The volume of a path; None if the file system returns an error. This may wait for a disk.
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
