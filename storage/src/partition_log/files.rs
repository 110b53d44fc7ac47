//! The files in the directory of a partition.

use super::compaction::swap_files;
use crate::segment_name;

/// The segments of a partition, and the swaps that a stop of the process has left unfinished.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PartitionFiles {
    /// Base offsets and names, in order.
    pub segments: Vec<(i64, String)>,
    pub swaps: Vec<UnfinishedSwap>,
}

/// A compacted segment that is complete, but has not got its final name.
#[derive(Debug, PartialEq, Eq)]
pub struct UnfinishedSwap {
    pub base_offset: i64,
    /// The name of the file.
    pub name: String,
    /// The segments that it stands for.
    pub replaced: Vec<String>,
}

/// The segments among the files of a partition's directory, in order: base offset and name. Those
/// of unfinished swaps are not among them: [`PartitionFiles`].
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
    /// The files as recovery has to see them; `end_of` is
    /// [`segment_end`](super::segment_end) of a base offset and name.
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
