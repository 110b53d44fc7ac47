//! Reads files with keys and certificates, and names them in errors.

use crate::error::LoadError;
use crate::limits::FILE_BYTES_MAX;
use muster_config_text::pem::{Section, sections};
use std::io::Read;
use std::path::Path;

pub(crate) fn place(config: &str, path: &Path) -> String {
    format!("{config}={}", path.display())
}

/// Reads a file of limited length.
pub(crate) fn read(config: &str, path: &Path) -> Result<Vec<u8>, LoadError> {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path);
    let read = file.and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes));
    match read {
        Err(error) => Err(LoadError::new(place(config, path), error)),
        Ok(length) if length as u64 > FILE_BYTES_MAX => {
            Err(LoadError::new(place(config, path), "it is too long for a key store"))
        }
        Ok(_) => Ok(bytes),
    }
}

pub(crate) fn text(bytes: Vec<u8>, place: &str) -> Result<String, LoadError> {
    String::from_utf8(bytes).map_err(|_| LoadError::new(place, "it is not PEM, but binary"))
}

pub(crate) fn pem_sections(text: &str, place: &str) -> Result<Vec<Section>, LoadError> {
    let all = sections(text).map_err(|reason| LoadError::new(place, reason))?;
    if all.is_empty() { Err(LoadError::new(place, "it is not PEM")) } else { Ok(all) }
}
