//! The lines of a stamp: `key=value`.

/// The value of a key in a stamp, which may be damaged.
///
/// # Errors
/// The key is missing.
pub fn value<'t>(text: &'t str, key: &str) -> Result<&'t str, String> {
    let of = |line: &'t str| line.strip_prefix(key)?.strip_prefix('=');
    text.lines().find_map(of).ok_or_else(|| format!("{key}= is missing"))
}
