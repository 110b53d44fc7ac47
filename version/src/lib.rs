//! The text of `--version`: release, commit, target and features of this build.
#![forbid(unsafe_code)]

#[cfg(test)]
mod commit;

macro_rules! with_target {
    ($($features:literal)?) => {
        concat!(env!("MUSTER_VERSION"), "\ntarget: ", env!("MUSTER_TARGET") $(, $features)?)
    };
}

/// The release and the commit: `0.1.0 (commit 0123456789ab)`.
pub const VERSION: &str = env!("MUSTER_VERSION");

/// [`VERSION`], with the target on a second line.
pub const WITH_TARGET: &str = with_target!();

/// [`WITH_TARGET`], with the features of the server on a third line.
pub const WITH_FEATURES: &str = if muster_faults::ARE_BUILT_IN {
    with_target!("\nfeatures: injected-faults")
} else {
    with_target!("\nfeatures: none")
};
