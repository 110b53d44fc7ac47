//! The topologies of streams groups: their validation, and the number of tasks of each
//! subtopology, computed as the coordinator computes it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::checks::{bounded, known, require};
use super::file::{Group, Subtopology as Table, Topic};
use super::values::Words;
use crate::plan::{InternalTopic, StreamsPlan, Subtopology, Topology};

const THREADS: u32 = 1_000;
const SUBTOPOLOGIES: usize = 1_000;
const STANDBYS: u32 = 100;
const PARTITIONS: u32 = 100_000;

/// Validates a streams group. An error is one sentence about the first mistake.
pub(super) fn validate(group: &Group, topics: &[Topic]) -> Result<(), String> {
    let plain = group.static_members.is_none() && group.assignor.0.is_empty() && !group.regex;
    require(plain, || "a streams group has no static, assignor or regex".into())?;
    require(group.commit.is_none() && group.offset_fetch.is_none(), || {
        "members of a streams group commit no offsets: commit and offset-fetch are for others"
            .into()
    })?;
    let streams = &group.streams;
    require((1..=THREADS).contains(&streams.threads), || {
        format!("threads = {} is not from 1 to {THREADS}", streams.threads)
    })?;
    require(streams.standbys.is_none_or(|count| count <= STANDBYS), || {
        format!("standbys is more than {STANDBYS}")
    })?;
    let spans = [
        ("initial-delay", streams.initial_delay),
        ("assignment-interval", streams.assignment_interval),
        ("heartbeat-interval", streams.heartbeat_interval),
        ("session-timeout", streams.session_timeout),
    ];
    for (name, span) in spans {
        bounded(name, span)?;
        require(span.is_none_or(|span| span.0.as_millis() <= i32::MAX as u128), || {
            format!("{name} is more than the protocol allows")
        })?;
    }
    require(streams.subtopologies.len() <= SUBTOPOLOGIES, || {
        format!("it has more than {SUBTOPOLOGIES} subtopologies")
    })?;
    let read = |table: &Table| !table.sources.0.is_empty() || !table.repartitions.0.is_empty();
    require(streams.subtopologies.iter().all(read), || {
        "a subtopology reads something: sources or repartitions".into()
    })?;
    for table in &streams.subtopologies {
        require(table.partitions <= PARTITIONS, || {
            format!("partitions = {} is more than {PARTITIONS}", table.partitions)
        })?;
        known(&table.sources, "topic", topics.iter().map(|topic| topic.name.as_str()))?;
    }
    let counts = |name: &str| {
        let named = topics.iter().filter(|topic| topic.name == name);
        named.map(|topic| topic.partitions).collect()
    };
    counted(&tables(group, topics), counts).map(|_| ())
}

/// The plan of a group's streams application. `topics` takes the name of a topic table. It returns
/// the topics of the table and their partition counts.
pub(super) fn plan(
    group: &Group,
    id: &str,
    tables: &[Topic],
    topics: impl Fn(&str) -> Vec<(String, u32)>,
) -> Result<StreamsPlan, String> {
    let tables = self::tables(group, tables);
    let counts = |name: &str| topics(name).into_iter().map(|(_, count)| count).collect();
    let tasks = counted(&tables, counts)?;
    let internal = |words: &Words, suffix: &'static str, partitions: u32| {
        let names = words.0.iter().map(|name| format!("{id}-{name}-{suffix}"));
        names.map(|name| InternalTopic { name, partitions }).collect::<Vec<_>>()
    };
    let subtopologies = tables.iter().zip(tasks).map(|(table, tasks)| {
        let sources = table.sources.0.iter().flat_map(|name| topics(name));
        let sinks = internal(&table.sinks, REPARTITION, 0).into_iter();
        Subtopology {
            sources: sources.map(|(name, _)| name).collect(),
            changelogs: internal(&table.stores, CHANGELOG, 0),
            sinks: sinks.map(|sink| sink.name).collect(),
            repartitions: internal(&table.repartitions, REPARTITION, table.partitions),
            copartitioned: table.copartitioned,
            tasks,
        }
    });
    let topology = Topology { subtopologies: subtopologies.collect() };
    Ok(StreamsPlan { topology: Arc::new(topology), endpoints: group.streams.endpoints })
}

const REPARTITION: &str = "repartition";
const CHANGELOG: &str = "changelog";

/// The subtopologies of a group. If the scenario has none, one that reads all topics of the group.
fn tables(group: &Group, topics: &[Topic]) -> Vec<Table> {
    let tables = &group.streams.subtopologies;
    if !tables.is_empty() {
        return tables.clone();
    }
    let stores = Words(vec!["store".to_owned()]);
    let all = || Words(topics.iter().map(|topic| topic.name.clone()).collect());
    let sources = if group.topics.0.is_empty() { all() } else { group.topics.clone() };
    vec![Table { sources, stores, ..Table::default() }]
}

/// The number of tasks of each subtopology. `partitions` returns the partition counts of a topic
/// table.
fn counted(tables: &[Table], partitions: impl Fn(&str) -> Vec<u32>) -> Result<Vec<u32>, String> {
    let external = |table: &Table| {
        let counts = table.sources.0.iter().flat_map(|name| partitions(name));
        counts.max().unwrap_or(0)
    };
    let mut tasks: Vec<u32> = tables.iter().map(external).collect();
    let mut repartitions = BTreeMap::new();
    for _ in 0..=tables.len() {
        for (table, tasks) in tables.iter().zip(&tasks) {
            for name in &table.sinks.0 {
                let known = repartitions.entry(name.as_str()).or_insert(0);
                *known = (*known).max(*tasks);
            }
        }
        for (table, tasks) in tables.iter().zip(&mut tasks) {
            let given = |name: &String| match table.partitions {
                0 => repartitions.get(name.as_str()).copied().unwrap_or(0),
                given => given,
            };
            let read = table.repartitions.0.iter().map(given).max().unwrap_or(0);
            let forced = table.copartitioned && !table.sources.0.is_empty();
            *tasks = if forced { external(table) } else { external(table).max(read) };
        }
    }
    let unwritten = tables.iter().flat_map(|table| &table.repartitions.0);
    let mut unwritten = unwritten.filter(|name| !repartitions.contains_key(name.as_str()));
    if let Some(name) = unwritten.next() {
        return Err(format!("no subtopology writes to repartition topic {name} (sinks)"));
    }
    match tasks.iter().position(|tasks| *tasks == 0) {
        Some(at) => Err(format!("nothing says how many tasks subtopology {at} has")),
        None => Ok(tasks),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Words {
        Words(text.split_whitespace().map(ToOwned::to_owned).collect())
    }

    fn table(sources: &str, repartitions: &str, sinks: &str) -> Table {
        let (sources, repartitions) = (words(sources), words(repartitions));
        Table { sources, repartitions, sinks: words(sinks), ..Table::default() }
    }

    fn of_topics(name: &str) -> Vec<u32> {
        match name {
            "few" => vec![2],
            "many" => vec![4, 6],
            other => panic!("{other}"),
        }
    }

    #[test]
    fn tasks_follow_the_partitions_through_repartition_topics() {
        let chain = [table("", "b", ""), table("", "a", "b"), table("few many", "", "a")];
        assert_eq!(counted(&chain, of_topics), Ok(vec![6, 6, 6]));
        let given = Table { partitions: 9, ..table("few", "a", "") };
        assert_eq!(counted(&[given, table("many", "", "a")], of_topics), Ok(vec![9, 6]));
        let joined = Table { copartitioned: true, ..table("few", "a", "") };
        assert_eq!(counted(&[joined, table("many", "", "a")], of_topics), Ok(vec![2, 6]));
    }

    #[test]
    fn loops_and_topics_without_a_writer_are_mistakes() {
        let error = counted(&[table("", "a", "a")], of_topics).unwrap_err();
        assert_eq!(error, "nothing says how many tasks subtopology 0 has");
        let error = counted(&[table("few", "a", "")], of_topics).unwrap_err();
        assert_eq!(error, "no subtopology writes to repartition topic a (sinks)");
    }
}
