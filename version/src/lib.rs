//! The text of `--version`: release, commit, target and features of this build.
#![forbid(unsafe_code)]

#[cfg(test)]
mod commit;

/// The release and the commit: `0.1.0 (commit 0123456789ab)`.
pub const VERSION: &str = env!("MUSTER_VERSION");

/// The same, and the target on a second line.
pub const WITH_TARGET: &str = concat!(env!("MUSTER_VERSION"), "\ntarget: ", env!("MUSTER_TARGET"));

/// The same, and the features of the server on a third line.
pub const WITH_FEATURES: &str = if muster_faults::ARE_BUILT_IN {
    concat!(
        env!("MUSTER_VERSION"),
        "\ntarget: ",
        env!("MUSTER_TARGET"),
        "\nfeatures: injected-faults"
    )
} else {
    concat!(env!("MUSTER_VERSION"), "\ntarget: ", env!("MUSTER_TARGET"), "\nfeatures: none")
};
