//! The overrides of a scenario file on the command line: sizes by name, and any key by its path.

use toml::{Table, Value};

use super::assignors::classic_assignors;
use super::checks::is_of_servers;

/// Overrides. A field that is `None` or empty leaves the file as it is.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Overrides {
    /// The number of members of each group. Groups with `protocol = "manual"` are left as they are:
    /// they have one client.
    pub members: Option<u32>,
    /// The number of groups of each group table.
    pub groups: Option<u32>,
    /// The number of producers of each producer table.
    pub producers: Option<u32>,
    /// The number of partitions of each topic.
    pub partitions: Option<u32>,
    /// The number of topics of each topic table.
    pub topics: Option<u32>,
    /// The protocol of each group with members: `classic`, `consumer` or `streams`.
    pub protocol: Option<String>,
    /// The assignors of each group, the preferred one first. A group without members, or whose
    /// protocol supports none of them, keeps its own.
    pub assignor: Vec<String>,
    /// The rate of each load, in requests per second.
    pub rate: Option<f64>,
    /// The number of requests in flight of each load.
    pub in_flight: Option<u32>,
    /// Settings of the form `path=value`.
    pub set: Vec<String>,
}

const LOADS: [&str; 5] = ["commit", "offset-fetch", "fetch", "heartbeat", "produce"];
/// The loads that can have several requests in flight. A producer has one transaction in flight.
const DEEP_LOADS: [&str; 3] = ["commit", "offset-fetch", "heartbeat"];

impl Overrides {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Applies the overrides to a scenario file. An error is one sentence about the option that
    /// can't be applied.
    pub(super) fn apply(&self, file: &mut Table) -> Result<(), String> {
        if let Some(protocol) = &self.protocol {
            each(file, "group", &with_members, "--protocol", |group| {
                set_protocol(group, protocol)
            })?;
        }
        if !self.assignor.is_empty() {
            let known = |group: &Table| with_members(group) && !self.known_to(group).is_empty();
            each(file, "group", &known, "--assignor", |group| {
                let names = self.known_to(group).into_iter().map(Value::String).collect();
                group.insert("assignor".into(), Value::Array(names));
            })?;
        }
        self.apply_sizes(file)?;
        self.apply_loads(file)?;
        self.set.iter().try_for_each(|setting| set(file, setting))
    }

    /// The assignors of the command line that the group's protocol supports. If it supports none,
    /// the group keeps its own assignors.
    fn known_to(&self, group: &Table) -> Vec<String> {
        let is_consumer = group.get("protocol").and_then(Value::as_str) == Some("consumer");
        let known = |name: &&String| {
            if is_consumer {
                is_of_servers(name)
            } else {
                classic_assignors(&[(*name).clone()]).is_ok()
            }
        };
        self.assignor.iter().filter(known).cloned().collect()
    }

    fn apply_sizes(&self, file: &mut Table) -> Result<(), String> {
        let mut put =
            |what: Option<u32>, tables, of: &dyn Fn(&Table) -> bool, key: &str, option| {
                let Some(what) = what else { return Ok(()) };
                each(file, tables, of, option, |table| {
                    table.insert(key.into(), Value::Integer(what.into()));
                })
            };
        put(self.members, "group", &with_members, "members", "--members")?;
        put(self.groups, "group", &any, "count", "--groups")?;
        put(self.producers, "producer", &any, "count", "--producers")?;
        put(self.partitions, "topic", &any, "partitions", "--partitions")?;
        put(self.topics, "topic", &any, "count", "--topics")
    }

    fn apply_loads(&self, file: &mut Table) -> Result<(), String> {
        if let Some(rate) = self.rate {
            let changed = each_load(file, &LOADS, &mut |load| {
                load.remove("every");
                load.insert("rate".into(), Value::Float(rate));
            });
            some(changed, "--rate", "load")?;
        }
        if let Some(in_flight) = self.in_flight {
            let changed = each_load(file, &DEEP_LOADS, &mut |load| {
                load.insert("in-flight".into(), Value::Integer(in_flight.into()));
            });
            some(changed, "--in-flight", "load")?;
        }
        Ok(())
    }
}

fn any(_: &Table) -> bool {
    true
}

fn with_members(group: &Table) -> bool {
    group.get("protocol").and_then(Value::as_str) != Some("manual")
}

/// Sets the protocol. Removes the assignor, which belongs to the previous protocol.
fn set_protocol(group: &mut Table, protocol: &str) {
    let before = group.insert("protocol".into(), Value::String(protocol.into()));
    if before.as_ref().and_then(Value::as_str) != Some(protocol) {
        group.remove("assignor");
    }
}

fn each(
    file: &mut Table,
    tables: &str,
    of: &dyn Fn(&Table) -> bool,
    option: &str,
    mut change: impl FnMut(&mut Table),
) -> Result<(), String> {
    let tables_in_file = file.get_mut(tables).and_then(Value::as_array_mut);
    let mut changed = 0;
    for table in tables_in_file.into_iter().flatten().filter_map(Value::as_table_mut) {
        if of(table) {
            change(table);
            changed += 1;
        }
    }
    some(changed, option, tables)
}

fn some(changed: usize, option: &str, what: &str) -> Result<(), String> {
    match changed {
        0 => Err(format!("{option} is for a {what}, and the scenario has none to change")),
        _ => Ok(()),
    }
}

/// Changes the loads in groups, producers and the `work` of phases. Returns how many were changed.
fn each_load(file: &mut Table, names: &[&str], change: &mut dyn FnMut(&mut Table)) -> usize {
    let mut changed = 0;
    for tables in ["group", "producer", "phase"] {
        let tables = file.get_mut(tables).and_then(Value::as_array_mut);
        for table in tables.into_iter().flatten().filter_map(Value::as_table_mut) {
            changed += loads_of(table, names, change);
            if let Some(work) = table.get_mut("work").and_then(Value::as_table_mut) {
                changed += loads_of(work, names, change);
            }
        }
    }
    changed
}

fn loads_of(table: &mut Table, names: &[&str], change: &mut dyn FnMut(&mut Table)) -> usize {
    let mut changed = 0;
    for name in names {
        if let Some(load) = table.get_mut(*name).and_then(Value::as_table_mut) {
            change(load);
            changed += 1;
        }
    }
    changed
}

/// Applies a setting: `group.NAME.key=value`, `phase.NAME.crash.members="10%"`,
/// `topic.*.partitions=3`, `replication=3`.
fn set(file: &mut Table, setting: &str) -> Result<(), String> {
    let Some((path, value)) = setting.split_once('=') else {
        return Err(format!("--set {setting} lacks a value: write path=value"));
    };
    let path: Vec<&str> = path.trim().split('.').collect();
    let changed = set_in(file, &path, &read(value.trim()));
    match changed {
        0 => Err(format!("--set {setting} changes nothing: there is no such table")),
        _ => Ok(()),
    }
}

/// Reads a TOML value. Any other text is a string.
fn read(text: &str) -> Value {
    let parsed = toml::from_str::<Table>(&format!("value = {text}"));
    let value = parsed.ok().and_then(|mut table| table.remove("value"));
    value.unwrap_or_else(|| Value::String(text.into()))
}

/// Sets the value at a path. Returns the number of tables that were changed.
fn set_in(table: &mut Table, path: &[&str], value: &Value) -> usize {
    match path {
        [] | [""] => 0,
        [key] => {
            table.insert((*key).into(), value.clone());
            1
        }
        [key, rest @ ..] => match table.get_mut(*key) {
            Some(Value::Table(inner)) => set_in(inner, rest, value),
            Some(Value::Array(tables)) => set_in_some(tables, rest, value),
            Some(_) => 0,
            // `crash.members` in a phase without `crash` adds the action, which is then validated
            // as usual.
            None if rest.len() == 1 => {
                let inner = Table::from_iter([(rest[0].to_owned(), value.clone())]);
                table.insert((*key).into(), Value::Table(inner));
                1
            }
            None => 0,
        },
    }
}

fn set_in_some(tables: &mut [Value], path: &[&str], value: &Value) -> usize {
    let [which, rest @ ..] = path else { return 0 };
    let mut changed = 0;
    for table in tables.iter_mut().filter_map(Value::as_table_mut) {
        let name = table.get("name").and_then(Value::as_str);
        if *which == "*" || name == Some(*which) {
            changed += set_in(table, rest, value);
        }
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "
        replication = 1
        [[topic]]
        name = 'a'
        [[group]]
        name = 'x'
        protocol = 'classic'
        assignor = 'range'
        commit = { every = '5s' }
        [[group]]
        name = 'y'
        protocol = 'manual'
        [[phase]]
        name = 'p'
        work = { offset-fetch = { in-flight = 2 } }
    ";

    fn after(overrides: &Overrides) -> Result<String, String> {
        let mut table = FILE.parse::<Table>().unwrap();
        overrides.apply(&mut table)?;
        Ok(table.to_string())
    }

    fn set_to(setting: &str) -> Result<String, String> {
        after(&Overrides { set: vec![setting.into()], ..Overrides::default() })
    }

    #[test]
    fn sizes_change_all_tables_of_their_kind() {
        let text = after(&Overrides {
            members: Some(7),
            groups: Some(3),
            partitions: Some(12),
            topics: Some(2),
            ..Overrides::default()
        });
        let table = text.unwrap().parse::<Table>().unwrap();
        let groups = table["group"].as_array().unwrap();
        assert_eq!(groups[0]["members"].as_integer(), Some(7));
        assert_eq!(groups[1].get("members"), None, "a manual group keeps its one client");
        assert!(groups.iter().all(|group| group["count"].as_integer() == Some(3)));
        assert_eq!(table["topic"][0]["partitions"].as_integer(), Some(12));
        assert_eq!(table["topic"][0]["count"].as_integer(), Some(2));
    }

    #[test]
    fn another_protocol_removes_the_assignor() {
        let overrides = Overrides { protocol: Some("consumer".into()), ..Overrides::default() };
        let table = after(&overrides).unwrap().parse::<Table>().unwrap();
        assert_eq!(table["group"][0]["protocol"].as_str(), Some("consumer"));
        assert_eq!(table["group"][0].get("assignor"), None);
        assert_eq!(table["group"][1]["protocol"].as_str(), Some("manual"));
    }

    #[test]
    fn rate_and_in_flight_change_all_loads() {
        let overrides = Overrides { rate: Some(2.5), in_flight: Some(9), ..Overrides::default() };
        let table = after(&overrides).unwrap().parse::<Table>().unwrap();
        let (commit, fetch) =
            (&table["group"][0]["commit"], &table["phase"][0]["work"]["offset-fetch"]);
        for load in [commit, fetch] {
            assert_eq!(load["rate"].as_float(), Some(2.5));
            assert_eq!(load["in-flight"].as_integer(), Some(9));
            assert_eq!(load.get("every"), None);
        }
    }

    #[test]
    fn any_key_is_set_by_its_path() {
        assert!(set_to("replication=3").unwrap().contains("replication = 3"));
        assert!(set_to("group.y.name=z").unwrap().contains("name = \"z\""));
        assert!(set_to("group.*.session-timeout=10s").unwrap().contains("\"10s\""));
        assert!(set_to("phase.p.crash.members='10%'").unwrap().contains("10%"));
        for wrong in ["replication", "group.q.count=1", "nothing.here.at.all=1", "=1"] {
            assert!(set_to(wrong).unwrap_err().contains(wrong), "{wrong}");
        }
    }

    #[test]
    fn an_option_without_effect_is_an_error() {
        let mut table = "[[topic]]\nname = 'a'".parse::<Table>().unwrap();
        let overrides = Overrides { rate: Some(1.0), ..Overrides::default() };
        let error = overrides.apply(&mut table).unwrap_err();
        assert_eq!(error, "--rate is for a load, and the scenario has none to change");
    }
}
