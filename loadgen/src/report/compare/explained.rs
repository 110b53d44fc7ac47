//! Figures that a known difference of configs determines. Their ratio says nothing about a cluster.

use super::{Figure, Runs};
use crate::report::disruptions::kind;
use crate::report::model::{Phase, Report};

/// How long a classic group waits for more members when it forms. Every wait of its members at that
/// time includes this delay.
const FORMATION: &str = "group.initial.rebalance.delay.ms";
const CLASSIC: &str = "classic";
/// How long the coordinator takes to notice the loss of a member.
const SESSION: &str = "group.consumer.session.timeout.ms";
/// How soon members learn of a rebalance.
const HEARTBEAT: &str = "group.consumer.heartbeat.interval.ms";
/// Stands for the session timeouts of the groups, if they differ. Classic members set them, and
/// some brokers do not report those of consumer groups as a config.
const OF_GROUPS: &str = "the groups' configuration";

impl Runs {
    /// Marks the figures that a difference of configs explains.
    pub(super) fn explain(&self, figures: &mut [Figure]) {
        let names: Vec<String> = self.differing();
        let formations = self.phases_with("formation");
        let crashes = self.phases_with("crashed");
        for figure in figures {
            let is_of = |phases: &[String]| {
                let name = figure.name.strip_prefix("phase ").map(|it| it.trim_end());
                name.is_some_and(|name| phases.iter().any(|phase| phase == name))
            };
            let waits =
                figure.name.starts_with("pause ") || figure.name == "unowned partition-seconds";
            let forms = self.is_of_classic_formation(&figure.name);
            let decides = |config: &str| match config {
                FORMATION => forms || self.has(CLASSIC) && (waits || is_of(&formations)),
                SESSION | OF_GROUPS => {
                    figure.name.starts_with("rebalance, crashed") || is_of(&crashes)
                }
                HEARTBEAT => figure.name.starts_with("rebalance, "),
                _ => false,
            };
            figure.explained = names.iter().find(|config| decides(config)).cloned();
        }
    }

    /// Whether the figure includes the delay with which classic groups form. If a run also has
    /// groups of other kinds, only the figures that name a classic group include it.
    fn is_of_classic_formation(&self, figure: &str) -> bool {
        if figure.starts_with("join ") || figure.starts_with("sync ") {
            return true;
        }
        let Some(of) = figure.strip_prefix("rebalance, formation") else { return false };
        // Producers and readers have no sessions, so they do not count.
        let all = self.each().iter().flat_map(|(_, report)| &report.run.group_configs);
        let groups = || all.clone().filter(|group| group.session_timeout > 0.0);
        let mut named =
            groups().filter(|group| !of.contains('(') || of.contains(&format!("({})", group.name)));
        self.has(CLASSIC) && named.all(|group| group.protocol == CLASSIC)
    }

    fn has(&self, protocol: &str) -> bool {
        let mut groups = self.each().iter().flat_map(|(_, report)| &report.run.group_configs);
        groups.any(|group| group.protocol == protocol)
    }

    /// The configs in which the runs differ.
    fn differing(&self) -> Vec<String> {
        let differs = |of: &dyn Fn(&Report) -> Option<String>| {
            let mut values = self.each().iter().map(|(_, report)| of(report));
            let first = values.next().flatten();
            first.is_some() && values.any(|value| value.is_some() && value != first)
        };
        let keys = [FORMATION, SESSION, HEARTBEAT].into_iter();
        let of_brokers =
            keys.filter(|key| differs(&|report| report.run.configs.get(*key).cloned()));
        let sessions = |report: &Report| {
            let all = report.run.group_configs.iter().map(|group| group.session_timeout);
            Some(format!("{:?}", Vec::from_iter(all)))
        };
        let of_groups = [OF_GROUPS].into_iter().filter(|_| differs(&sessions));
        of_brokers.chain(of_groups).map(str::to_owned).collect()
    }

    /// The names of the phases in which a rebalance of this kind began.
    fn phases_with(&self, trigger: &str) -> Vec<String> {
        let of_report = |report: &Report| -> Vec<String> {
            let begun = report.rebalances.iter().filter(|it| kind(&it.trigger) == trigger);
            let within = |phase: &&Phase| {
                begun.clone().any(|it| (phase.began..phase.ended).contains(&it.began))
            };
            report.phases.iter().filter(within).map(|phase| phase.name.clone()).collect()
        };
        self.each().iter().flat_map(|(_, report)| of_report(report)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    /// Compares two runs, one of which is ten times slower. Returns each figure, its explanation,
    /// and whether it is coloured.
    fn coloured(second: &str, billing: &str) -> Vec<(String, Option<String>, bool)> {
        let run = |factor, delay: &str| {
            let mut report = sample::report_slower(factor, delay);
            report.run.group_configs[1].protocol = billing.into();
            report.run.configs = [(FORMATION.to_owned(), delay.to_owned())].into();
            (delay.to_owned(), report)
        };
        let runs = Runs::of(vec![run(1.0, "0"), run(10.0, second)]);
        let figures = runs.figures().into_iter();
        figures
            .map(|it| (it.name.clone(), it.explained.clone(), it.better(1, 1.1).is_some()))
            .collect()
    }

    #[test]
    fn a_ratio_that_a_difference_of_configs_explains_has_no_colour() {
        let figures = coloured("3000", CLASSIC);
        let of = |name: &str| figures.iter().find(|(it, ..)| it.starts_with(name)).unwrap();
        for waits in ["rebalance, formation (billing)", "pause p50", "join p50"] {
            let (name, explained, has_colour) = of(waits);
            assert_eq!((explained.as_deref(), *has_colour), (Some(FORMATION), false), "{name}");
        }
        for other in ["commit p50", "heartbeat p99"] {
            let (name, explained, has_colour) = of(other);
            assert_eq!((explained, *has_colour), (&None, true), "{name}");
        }
        assert!(coloured("0", CLASSIC).iter().all(|(_, explained, _)| explained.is_none()));
        // Consumer groups do not have this delay.
        let mixed = coloured("3000", "consumer");
        let explained = |name: &str| mixed.iter().find(|it| it.0 == name).unwrap().1.is_some();
        assert!(explained("rebalance, formation (orders)"));
        assert!(!explained("rebalance, formation (billing)"));
    }
}
