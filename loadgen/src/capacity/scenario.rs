//! The scenario for one size in a search for the capacity: groups form, and then work for a while.

use std::time::Duration;

use crate::report::capacity::By;
use crate::scenario::{Limits, Named, Problem, of_text};

/// The load for one size in a search. The size is the value of the field that the search increases.
#[derive(Clone, PartialEq, Debug)]
pub struct Load {
    /// `classic` or `consumer`.
    pub protocol: String,
    /// The number of members of each group.
    pub members: u64,
    pub groups: u64,
    /// The number of partitions of each group. By default one per member.
    pub partitions: Option<u64>,
    /// Commits per second, over all members.
    pub commits: Option<f64>,
    /// How long the load lasts after the groups have formed.
    pub lasts: Duration,
    /// How long the groups may take to form.
    pub forms_within: Duration,
}

/// The interval of a member's commits in seconds: the default of `auto.commit.interval.ms`.
const COMMIT_SECONDS: f64 = 5.0;

impl Load {
    pub fn of_size(&self, by: By, size: u64) -> Self {
        let mut load = self.clone();
        match by {
            By::Members => load.members = size.div_ceil(self.groups),
            By::Groups => load.groups = size,
            By::Commits => load.commits = Some(size as f64),
            By::Partitions => load.partitions = Some(size),
        }
        load
    }

    pub fn partitions(&self) -> u64 {
        self.partitions.unwrap_or(self.members)
    }

    fn toml(&self) -> String {
        let Self { protocol, members, groups, lasts, forms_within, .. } = self;
        let all = (members * groups).max(1) as f64;
        let rate = self.commits.unwrap_or(all / COMMIT_SECONDS) / all;
        let partitions = self.partitions();
        let (lasts, limit) = (lasts.as_millis(), forms_within.as_millis());
        let assignor = if protocol == "classic" { "assignor = \"cooperative-sticky\"" } else { "" };
        format!(
            r#"
description = "a step of the search for the capacity"
duration = "1day"
[[topic]]
name = "t"
partitions = {partitions}
[[group]]
name = "g"
count = {groups}
members = {members}
protocol = "{protocol}"
{assignor}
commit = {{ rate = {rate:?}, in-flight = 16 }}
[[phase]]
name = "formation"
start = {{}}
until = "stable"
limit = "{limit}ms"
[[phase]]
name = "steady"
lasts = "{lasts}ms"
"#
        )
    }
}

/// # Errors
/// The sizes exceed the limits of a scenario. The error is a sentence.
pub fn scenario(load: &Load, limits: &Limits) -> Result<Named, Problem> {
    of_text("capacity", &load.toml(), limits)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { members_per_connection: 1 };

    fn load(protocol: &str) -> Load {
        Load {
            protocol: protocol.into(),
            members: 10,
            groups: 2,
            partitions: None,
            commits: None,
            lasts: Duration::from_secs(15),
            forms_within: Duration::from_secs(60),
        }
    }

    #[test]
    fn one_part_grows_and_the_others_stay() {
        let sizes = |by| {
            let grown = load("classic").of_size(by, 101);
            (grown.members, grown.groups, grown.partitions(), grown.commits)
        };
        assert_eq!(sizes(By::Members), (51, 2, 51, None));
        assert_eq!(sizes(By::Groups), (10, 101, 10, None));
        assert_eq!(sizes(By::Commits), (10, 2, 10, Some(101.0)));
        assert_eq!(sizes(By::Partitions), (10, 2, 101, None));
    }

    #[test]
    fn each_step_is_a_valid_scenario() {
        for protocol in ["classic", "consumer"] {
            for by in [By::Members, By::Groups, By::Commits, By::Partitions] {
                for size in [1, 7, 12_800] {
                    let named = scenario(&load(protocol).of_size(by, size), &LIMITS);
                    let scenario = named.unwrap_or_else(|error| panic!("{error}")).scenario;
                    let phases = scenario.phases.iter().map(|phase| phase.name.as_str());
                    assert_eq!(Vec::from_iter(phases), ["formation", "steady"]);
                }
            }
        }
        let too_many = load("classic").of_size(By::Members, 100_000_000);
        assert!(scenario(&too_many, &LIMITS).is_err());
    }
}
