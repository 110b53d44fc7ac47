//! The files in a partition's directory.

use super::compaction::swap_files;
use crate::segment_name;

/// The segments of a partition, and the replacements of segments that were unfinished when the
/// process ended.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PartitionFiles {
    /// Base offsets and file names, in order.
    pub segments: Vec<(i64, String)>,
    pub swaps: Vec<UnfinishedSwap>,
}

/// A completed compacted segment that does not have its final name yet.
#[derive(Debug, PartialEq, Eq)]
pub struct UnfinishedSwap {
    pub base_offset: i64,
    /// The name of the file.
    pub name: String,
    /// The names of the segments that it replaces.
    pub replaced: Vec<String>,
}

/// Selects the segments among the file names of a partition's directory, and returns their base
/// offsets and names, in order. Unfinished swaps are not considered; [`PartitionFiles`] does that.
pub fn partition_files(names: impl IntoIterator<Item = String>) -> Vec<(i64, String)> {
    let numbered = |name: String| {
        let base_offset = i64::try_from(segment_name::number_of(&name)?).ok()?;
        Some((base_offset, name))
    };
    let mut files: Vec<_> = names.into_iter().filter_map(numbered).collect();
    files.sort_unstable();
    files
}

impl PartitionFiles {
    /// Sorts the files for recovery. `end_of` gets a base offset and a file name, and has to call
    /// [`segment_end`](super::segment_end) for this file.
    ///
    /// # Errors
    /// The errors of `end_of`.
    pub fn of<E>(
        names: Vec<String>,
        mut end_of: impl FnMut(i64, &str) -> Result<i64, E>,
    ) -> Result<Self, E> {
        let mut found = Self { segments: partition_files(names.clone()), swaps: Vec::new() };
        for (base_offset, name) in swap_files(names) {
            let end = end_of(base_offset, &name)?;
            let is_replaced = |it: &mut (i64, String)| (base_offset..end).contains(&it.0);
            let replaced =
                found.segments.extract_if(.., is_replaced).map(|(_, name)| name).collect();
            found.segments.push((base_offset, name.clone()));
            found.swaps.push(UnfinishedSwap { base_offset, name, replaced });
        }
        found.segments.sort_unstable();
        Ok(found)
    }
}
