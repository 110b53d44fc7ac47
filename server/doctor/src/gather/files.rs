//! Reads files of /proc and /sys that contain a single value.

use super::below;
use crate::Facts;
use std::fs;
use std::path::{Path, PathBuf};

/// The value in a file. If the file lists choices, the one in brackets. For an empty mask, 0.
pub(super) fn value(file: &Path) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let words: Vec<&str> = text.split_whitespace().collect();
    let chosen = words.iter().find_map(|it| it.strip_prefix('[')?.strip_suffix(']'));
    let value = chosen.map_or_else(|| words.join(" "), str::to_owned);
    let is_empty_mask = value.contains('0') && value.chars().all(|it| matches!(it, '0' | ','));
    Some(if is_empty_mask { "0".to_owned() } else { value })
}

/// Adds a knob that is set in several files: one fact for each of these files that exists.
pub(super) fn add_knob(facts: &mut Facts, name: &str, files: impl IntoIterator<Item = PathBuf>) {
    for file in files {
        if let Some(value) = value(&file) {
            facts.set_file(name, &file.to_string_lossy(), &value);
        }
    }
}

pub(super) fn add_sysctl(facts: &mut Facts, root: &Path, name: &str) {
    let file = below(root, &format!("/proc/sys/{}", name.replace('.', "/")));
    add_knob(facts, name, [file]);
}

/// The entries of a folder with this name prefix, sorted.
pub(super) fn entries(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let is_one = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix))
    };
    let found = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<_> = found.map(|entry| entry.path()).filter(is_one).collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_of_a_file_is_the_chosen_one_without_blanks() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("f");
        let cases = [
            ("128\n", "128"),
            ("always [madvise] never\n", "madvise"),
            ("00000000,00000000\n", "0"),
            ("0\n", "0"),
            ("32\t60\n", "32 60"),
            ("\n", ""),
        ];
        for (text, expected) in cases {
            fs::write(&file, text).unwrap();
            assert_eq!(value(&file).as_deref(), Some(expected), "{text:?}");
        }
        assert_eq!(value(&folder.path().join("none")), None);
    }
}
