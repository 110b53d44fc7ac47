//! `clean`: deletes the topics and groups that dead runs left behind.

use std::io::{BufRead, Write};
use std::sync::Arc;
use std::time::{Duration, Instant};

use loadgen::driver::command::{Command, Leftovers, Task, TaskOutcome};
use loadgen::driver::{self, Driver};
use loadgen::plan::GroupIndex;
use loadgen::scenario::PREFIX;

use crate::args::Clean;
use crate::{Verdict, print, run};

/// How long to wait for a task.
const PATIENCE: Duration = Duration::from_secs(120);

/// # Errors
/// The error is a sentence for the user.
pub(crate) fn clean(wanted: &Clean) -> Result<Verdict, String> {
    let mut driver = driver::start(run::target(&wanted.cluster, 1)?)?;
    let prefix = wanted.prefix.clone().unwrap_or_else(|| PREFIX.to_owned());
    if prefix.is_empty() {
        return Err("an empty --prefix would be all topics and groups".into());
    }
    let task = Task::FindLeftovers { prefix: prefix.clone().into() };
    let TaskOutcome::Leftovers(found) = carry_out(&mut driver, 0, task)? else {
        return Err("the search for topics and groups returned an unexpected result".into());
    };
    let (left, in_use) = apart(found, &prefix);
    print(&listed(&left, &in_use, &prefix))?;
    if left.topics.is_empty() && left.groups.is_empty() || wanted.dry_run {
        return Ok(Verdict::Good);
    }
    if !(wanted.yes || is_agreed()?) {
        print("Nothing was deleted.\n")?;
        return Ok(Verdict::Good);
    }
    delete(&mut driver, left)
}

/// Separates the topics and groups of dead runs from those of runs that still have groups with
/// members. Returns the first, and the names of the latter runs.
fn apart(found: Leftovers, prefix: &str) -> (Leftovers, Vec<String>) {
    let run = |name: &Arc<str>| {
        let rest = name.strip_prefix(prefix).unwrap_or(name);
        rest.split('-').next().unwrap_or(rest).to_owned()
    };
    let busy = found.groups.iter().filter(|(_, is_empty)| !is_empty);
    let mut in_use: Vec<String> = busy.map(|(name, _)| run(name)).collect();
    in_use.dedup();
    let is_left = |name: &Arc<str>| !in_use.contains(&run(name));
    let topics = found.topics.into_iter().filter(is_left).collect();
    let groups = found.groups.into_iter().filter(|(name, _)| is_left(name)).collect();
    (Leftovers { topics, groups }, in_use)
}

fn listed(left: &Leftovers, in_use: &[String], prefix: &str) -> String {
    let mut text = String::new();
    let groups = left.groups.iter().map(|(name, _)| ("group", name));
    let topics = left.topics.iter().map(|name| ("topic", name));
    for (kind, name) in groups.chain(topics) {
        text += &format!("{kind}  {}\n", name.escape_default());
    }
    for run in in_use {
        let run = run.escape_default();
        text += &format!("Groups of {prefix}{run} have members: what it made stays.\n");
    }
    let (groups, topics) = (left.groups.len(), left.topics.len());
    text + &format!("{groups} groups and {topics} topics of dead runs ({prefix}*)\n")
}

fn is_agreed() -> Result<bool, String> {
    print("Delete them? [y/N] ")?;
    std::io::stdout().flush().map_err(|error| error.to_string())?;
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    read.map_err(|error| format!("the answer can't be read: {error}"))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Deletes groups first. If the deletion of a group fails, for example because the group has got
/// members meanwhile, all topics stay.
fn delete(driver: &mut Driver, left: Leftovers) -> Result<Verdict, String> {
    let mut failures = Vec::new();
    let mut number = 1;
    for (id, _) in left.groups {
        let task = Task::DeleteGroup { group: GroupIndex(0), id };
        failures.extend(carry_out(driver, number, task).err());
        number += 1;
    }
    if failures.is_empty() && !left.topics.is_empty() {
        let task = Task::DeleteTopics { topics: left.topics };
        failures.extend(carry_out(driver, number, task).err());
    }
    match failures.first() {
        Some(first) if failures.len() > 1 => {
            Err(format!("{first}; and {} more could not be deleted", failures.len() - 1))
        }
        Some(first) => Err(first.clone()),
        None => {
            print("Deleted.\n")?;
            Ok(Verdict::Good)
        }
    }
}

fn carry_out(driver: &mut Driver, number: u64, task: Task) -> Result<TaskOutcome, String> {
    driver.send(0, Command::Task { id: number, task });
    let until = Instant::now() + PATIENCE;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(format!("no answer within {} s", PATIENCE.as_secs()));
        }
        let Some(report) = driver.receive(left) else { continue };
        if let Some((_, result)) = report.done.into_iter().find(|(id, _)| *id == number) {
            return result.map_err(|error| error.to_string());
        }
        if let Some(Err(why)) = report.ended {
            return Err(why);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_to_a_run_with_members_stays() {
        let found = Leftovers {
            topics: ["p-dead-t", "p-live-t"].map(Arc::from).into(),
            groups: [("p-dead-g", true), ("p-live-g", false), ("p-live-h", true)]
                .map(|(name, is_empty)| (Arc::from(name), is_empty))
                .into(),
        };
        let (left, in_use) = apart(found, "p-");
        assert_eq!(in_use, ["live"]);
        let shown = listed(&left, &in_use, "p-");
        let expected = "group  p-dead-g\ntopic  p-dead-t\nGroups of p-live have members: what it \
                        made stays.\n1 groups and 1 topics of dead runs (p-*)\n";
        assert_eq!(shown, expected);
    }
}
