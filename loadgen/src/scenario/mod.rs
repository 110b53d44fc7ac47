//! Scenarios: built-in ones and files, their validation, and the conductor that turns them into
//! commands.

mod agenda;
mod assignors;
mod cause;
mod change;
mod changes;
mod checks;
mod churn;
mod clients;
mod conductor;
mod dry_run;
mod file;
mod gap;
mod library;
mod members;
mod orders;
mod overrides;
mod phase;
mod problem;
mod producers;
mod ramp;
mod rolling;
mod run_plan;
mod run_state;
mod shares;
mod spread;
mod streams;
mod tasks;
mod validate;
mod values;
mod wind_down;

use muster_codec::ApiKey;
use serde::Deserialize;

pub use cause::Cause;
pub use checks::{Limits, SPAN};
pub use conductor::{Conductor, Place};
pub use file::{Group, Scenario};
pub use library::{BUILT_IN, BuiltIn, built_in};
pub use orders::{Orders, Settings, Status, Trigger};
pub use overrides::Overrides;
pub use problem::Problem;
pub use run_plan::{PREFIX, RunPlan};

use self::run_plan::HEARTBEAT_INTERVAL;
use self::values::Span;
use crate::driver::command::{Cluster, GroupTimes};
use crate::member::Versions;

/// A valid scenario with its name.
#[derive(Clone, PartialEq, Debug)]
pub struct Named {
    pub name: String,
    pub scenario: Scenario,
}

/// Loads a scenario, and applies the overrides of the command line. `source` is the name of a
/// built-in scenario or of a file.
pub fn load(source: &str, overrides: &Overrides, limits: &Limits) -> Result<Named, Problem> {
    let (name, text) = text_of(source)?;
    let scenario = parse(&name, &text, overrides)?;
    validate::validate(&scenario, limits).map_err(|what| Problem(format!("{name}: {what}")))?;
    Ok(Named { name, scenario })
}

/// A scenario whose text muster-load itself made.
pub fn of_text(name: &str, text: &str, limits: &Limits) -> Result<Named, Problem> {
    let scenario = parse(name, text, &Overrides::default())?;
    validate::validate(&scenario, limits).map_err(|what| Problem(format!("{name}: {what}")))?;
    Ok(Named { name: name.to_owned(), scenario })
}

/// For each protocol of a group, the API that the cluster must offer. An element has the protocol,
/// the API of its first request, this API's name in error messages, and the option that chooses
/// another protocol.
const NEEDS: [(file::Protocol, ApiKey, &str, &str); 4] = [
    (
        file::Protocol::Streams,
        ApiKey::StreamsGroupHeartbeat,
        "StreamsGroupHeartbeat (KIP-1071)",
        "--protocol consumer",
    ),
    (
        file::Protocol::Share,
        ApiKey::ShareGroupHeartbeat,
        "ShareGroupHeartbeat (KIP-932)",
        "--protocol consumer",
    ),
    (
        file::Protocol::Consumer,
        ApiKey::ConsumerGroupHeartbeat,
        "ConsumerGroupHeartbeat (KIP-848)",
        "--protocol classic",
    ),
    (file::Protocol::Classic, ApiKey::JoinGroup, "JoinGroup", "--protocol consumer"),
];

impl Named {
    /// Adapts the scenario to the cluster: removes optional groups whose protocol the cluster does
    /// not offer, and chooses transaction versions. Returns one sentence for each protocol whose
    /// groups were removed.
    pub fn fit(&mut self, versions: &Versions) -> Result<Vec<String>, Problem> {
        let mut notes = Vec::new();
        for (protocol, api, offer, instead) in NEEDS {
            if versions.of(api).is_none() {
                notes.extend(self.leave_out(protocol, offer, instead)?);
            }
        }
        self.check_changes(versions)?;
        self.choose_transactions(versions)?;
        if self.scenario.groups.is_empty() {
            Err(Problem(format!("no group is left to run: {}", notes.join(", "))))
        } else {
            Ok(notes)
        }
    }

    /// Checks that the cluster also supports the protocols to which phases move members.
    fn check_changes(&self, versions: &Versions) -> Result<(), Problem> {
        for phase in &self.scenario.phases {
            let protocol = phase.change.as_ref().and_then(|change| change.protocol);
            let mut needs = NEEDS.iter().filter(|(of, ..)| Some(*of) == protocol);
            if let Some((_, _, offer, _)) = needs.find(|(_, api, ..)| versions.of(*api).is_none()) {
                let name = &phase.name;
                return Err(Problem(format!(
                    "the cluster does not offer {offer}, which the change of phase {name} needs"
                )));
            }
        }
        Ok(())
    }

    /// Chooses the transaction version of producers whose table does not name it.
    fn choose_transactions(&mut self, versions: &Versions) -> Result<(), Problem> {
        let newest = if versions.transactions >= 2 { 2 } else { 1 };
        let has_ids = versions.of(ApiKey::InitProducerId).is_some();
        for producer in self.scenario.groups.iter_mut().filter_map(|it| it.producer.as_mut()) {
            let name = &producer.name;
            if (producer.transactional || producer.idempotent) && !has_ids {
                return Err(Problem(format!(
                    "the cluster does not offer InitProducerId, which producer {name} needs"
                )));
            }
            let version = *producer.transaction_version.get_or_insert(newest);
            if producer.transactional && version > newest {
                return Err(Problem(format!(
                    "the cluster has not finalized transaction.version 2, which producer {name} \
                     asks for with transaction-version"
                )));
            }
        }
        Ok(())
    }

    /// Gives consumer groups and streams groups the timeouts that the cluster reported, unless the
    /// group's table sets them as configs. Returns a sentence if the cluster reported no session
    /// timeout, or another one than the scenario assumed.
    pub fn adopt_times(&mut self, cluster: &Cluster) -> Vec<String> {
        let kinds = [
            (file::Protocol::Consumer, cluster.consumer_times),
            (file::Protocol::Streams, cluster.streams_times),
        ];
        self.scenario.consumer_times = cluster.consumer_times;
        kinds.into_iter().filter_map(|(kind, times)| self.adopt(kind, times)).collect()
    }

    fn adopt(&mut self, kind: file::Protocol, reported: Option<GroupTimes>) -> Option<String> {
        let groups = self.scenario.groups.iter_mut();
        let mut groups: Vec<_> = groups.filter(|group| group.protocol == kind).collect();
        let first = groups.first()?;
        let (name, assumed) = (first.name.clone(), first.session_timeout);
        let (session, kind) = (assumed.0, kind.name());
        let times = reported.unwrap_or(GroupTimes {
            session_timeout: session,
            heartbeat_interval: HEARTBEAT_INTERVAL,
        });
        for group in &mut groups {
            let own = &group.streams;
            group.heartbeat_interval = Span(times.heartbeat_interval);
            if reported.is_some() {
                group.session_timeout = Span(times.session_timeout);
            }
            // The group's own configs.
            let (session, heartbeat) = (own.session_timeout, own.heartbeat_interval);
            group.session_timeout = session.unwrap_or(group.session_timeout);
            group.heartbeat_interval = heartbeat.unwrap_or(group.heartbeat_interval);
        }
        let session = Span(times.session_timeout);
        match reported {
            None => Some(format!(
                "the cluster does not report group.{kind}.session.timeout.ms: the checks assume \
                 group {name}'s session-timeout, {assumed}"
            )),
            Some(_) if session != assumed => Some(format!(
                "{kind} groups have a session timeout of {session} by the cluster's \
                 configuration, and not {assumed}"
            )),
            Some(_) => None,
        }
    }

    fn leave_out(
        &mut self,
        protocol: file::Protocol,
        offer: &str,
        instead: &str,
    ) -> Result<Option<String>, Problem> {
        let needs = |group: &&Group| group.protocol == protocol;
        let all = &mut self.scenario.groups;
        if let Some(group) = all.iter().find(|group| needs(group) && !group.optional) {
            return Err(Problem(format!(
                "the cluster does not offer {offer}, which group {} needs; {instead} avoids it",
                group.name
            )));
        }
        let left_out = all.iter().filter(needs).map(|group| group.name.as_str());
        let left_out: Vec<&str> = left_out.collect();
        if left_out.is_empty() {
            return Ok(None);
        }
        let note = format!("without {}: the cluster does not offer {offer}", left_out.join(", "));
        all.retain(|group| !needs(&group));
        let all = &self.scenario.groups;
        self.scenario.clients.retain(|client| all.iter().any(|group| group.name == client.group));
        Ok(Some(note))
    }
}

fn text_of(source: &str) -> Result<(String, String), Problem> {
    if let Some(built_in) = built_in(source) {
        return Ok((built_in.name.to_owned(), built_in.toml.to_owned()));
    }
    let path = std::path::Path::new(source);
    if !path.exists() && !source.contains(['/', '.']) {
        return Err(Problem(format!(
            "no scenario is called {source}, and there is no such file; --list shows what there is"
        )));
    }
    let text = std::fs::read_to_string(path)
        .map_err(|error| Problem(format!("{source} can't be read: {error}")))?;
    let stem = path.file_stem().unwrap_or(path.as_os_str());
    Ok((stem.to_string_lossy().into_owned(), text))
}

/// Parses the text without the overrides first: an error in it can name its line and column.
fn parse(name: &str, text: &str, overrides: &Overrides) -> Result<Scenario, Problem> {
    let written: Scenario = toml::from_str(text).map_err(|error| at_line(name, text, &error))?;
    if overrides.is_empty() {
        return Ok(written.with_producers());
    }
    let mut table: toml::Table =
        toml::from_str(text).map_err(|error| at_line(name, text, &error))?;
    overrides.apply(&mut table).map_err(|what| Problem(format!("{name}: {what}")))?;
    let changed = Scenario::deserialize(table).map_err(|error| {
        let what = error.message().trim_end().replace('\n', " ");
        Problem(format!("{name}, changed by the command line: {what}"))
    })?;
    Ok(changed.with_producers())
}

fn at_line(name: &str, text: &str, error: &toml::de::Error) -> Problem {
    let what = error.message().trim_end().replace('\n', ", ");
    let Some(span) = error.span() else { return Problem(format!("{name}: {what}")) };
    let before = text.get(..span.start).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|&c| c != '\n').count() + 1;
    Problem(format!("{name}, line {line}, column {column}: {what}"))
}

#[cfg(test)]
mod tests;
