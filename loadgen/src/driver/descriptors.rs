//! File descriptors. Each connection takes one, and a lack of them is reported before the run
//! starts.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors of a core besides its members' connections: poll, alarm, connections for lookups and
/// tasks.
const PER_CORE: u64 = 48;
const PER_PROCESS: u64 = 64;

/// The number of file descriptors for a run with this number of connections.
pub fn descriptors_needed(connections: usize, cores: usize) -> u64 {
    connections as u64 + cores as u64 * PER_CORE + PER_PROCESS
}

/// Raises the soft limit to the hard limit if the soft limit is below the needed number. Without a
/// hard limit, raises the soft limit to the needed number.
/// # Errors
/// The hard limit is below the needed number, or the soft limit can't be raised. The error is a
/// sentence for the user with the needed number.
pub fn ensure_descriptors(connections: usize, cores: usize) -> Result<(), String> {
    let needed = descriptors_needed(connections, cores);
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= needed) {
        return Ok(());
    }
    if limit.maximum.is_some_and(|maximum| maximum < needed) {
        return Err(format!(
            "{connections} connections need {needed} file descriptors, but the hard limit is {} \
             (ulimit -Hn): raise it, or let members share connections with \
             --members-per-connection",
            limit.maximum.unwrap_or_default()
        ));
    }
    let raised = Rlimit { current: limit.maximum.or(Some(needed)), maximum: limit.maximum };
    setrlimit(Resource::Nofile, raised).map_err(|error| {
        format!(
            "{connections} connections need {needed} file descriptors, and the limit cannot \
                 be raised: {error}"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unreachable_limit_is_reported_with_the_number_needed() {
        if getrlimit(Resource::Nofile).maximum.is_some() {
            let error = ensure_descriptors(2_000_000_000, 1).unwrap_err();
            assert!(error.contains("2000000112"), "{error}");
        }
        ensure_descriptors(1, 1).unwrap();
    }
}
