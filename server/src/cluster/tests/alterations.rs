//! Alterations of a broker's configs. `alterations.tsv` has the expected answers, which are those
//! of a broker of Kafka 4.4: to valid values, to values out of bounds, and to values of other
//! types.

use super::*;
use std::collections::BTreeSet;

const BROKER: i8 = 4;
const SET: i8 = 0;

type Values = Vec<Option<&'static str>>;

/// One line of the file.
struct Row {
    key: &'static str,
    /// The name of the resource.
    broker: &'static str,
    error: i16,
    /// The values that get this error. None: all values that no other line has for the key and
    /// broker.
    values: Option<Values>,
}

fn rows() -> (Values, Vec<Row>) {
    let text = include_str!("alterations.tsv");
    let values = |text: &'static str| serde_json::from_str::<Values>(text).unwrap();
    let all = text.lines().find(|line| line.starts_with("# [")).unwrap();
    let row = |line: &'static str| {
        let fields: Vec<_> = line.split('\t').collect();
        let [key, broker, error, of] = fields[..] else { panic!("{line}") };
        Row {
            key,
            broker: if broker == "all" { "" } else { "0" },
            error: error.parse().unwrap(),
            values: (of != "*").then(|| values(of)),
        }
    };
    let rows = text.lines().filter(|line| !line.starts_with('#')).map(row).collect();
    (values(&all[2..]), rows)
}

#[test]
fn a_value_of_a_brokers_config_is_taken_or_refused_as_in_kafka() {
    let (all, rows) = rows();
    let (mut asked, mut wrong) = (0, Vec::new());
    for row in &rows {
        let of_key = rows.iter().filter(|it| (it.key, it.broker) == (row.key, row.broker));
        let named: BTreeSet<_> = of_key.filter_map(|it| it.values.clone()).flatten().collect();
        let others = || all.iter().filter(|it| !named.contains(*it)).copied().collect();
        for value in row.values.clone().unwrap_or_else(others) {
            let mut controller = Controller::with_topic("t1");
            let ops: &[Op] = &[(row.key, SET, value)];
            let answer = controller.alter_all(&[(BROKER, row.broker, ops)], true).remove(0);
            let error = answer.as_ref().err().map_or(0, |(error, _)| error.code());
            let Row { key, broker, .. } = row;
            if error != row.error {
                wrong.push(format!("{key}={value:?} of broker {broker:?}: {answer:?}"));
            }
            asked += 1;
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert!(asked > 2_000, "{asked}");
}

#[test]
fn a_list_of_a_broker_is_appended_to_or_subtracted_from_as_in_kafka() {
    let text = include_str!("list_alterations.tsv");
    let (mut asked, mut wrong) = (0, Vec::new());
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<_> = line.split('\t').collect();
        let [key, broker, operation, error, values] = fields[..] else { panic!("{line}") };
        let broker = if broker == "all" { "" } else { "0" };
        let operation: i8 = operation.parse().unwrap();
        for value in serde_json::from_str::<Vec<Option<&'static str>>>(values).unwrap() {
            let mut controller = Controller::with_topic("t1");
            let ops: &[Op] = &[(key, operation, value)];
            let answer = controller.alter_all(&[(BROKER, broker, ops)], true).remove(0);
            let ours = answer.as_ref().err().map_or(0, |(error, _)| error.code());
            if ours.to_string() != error {
                wrong.push(format!("{key} {operation} {value:?} of {broker:?}: {answer:?}"));
            }
            asked += 1;
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert_eq!(asked, 192);
}

/// A broker of Kafka 4.4 with the same `server.properties` gives these answers.
#[test]
fn a_list_begins_with_the_own_value_or_the_default_and_not_with_that_of_the_file() {
    const APPEND: i8 = 2;
    const SUBTRACT: i8 = 3;
    const TOPIC: i8 = 2;
    let mut controller = Controller::with_topic("t1");
    controller.config = Config::load("log.cleanup.policy=compact", &[]).unwrap();
    let of_broker = "log.cleanup.policy";
    for (kind, resource, key, operation, value, after) in [
        (TOPIC, "t1", "cleanup.policy", APPEND, "delete", "delete"),
        (TOPIC, "t1", "cleanup.policy", APPEND, "compact", "delete,compact"),
        (TOPIC, "t1", "cleanup.policy", SUBTRACT, "delete", "compact"),
        (BROKER, "", of_broker, SUBTRACT, "compact", "delete"),
        (BROKER, "", of_broker, SET, "compact", "compact"),
        (BROKER, "0", of_broker, APPEND, "compact", "delete,compact"),
        (BROKER, "0", of_broker, SUBTRACT, "delete", "compact"),
    ] {
        let ops: &[Op] = &[(key, operation, Some(value))];
        assert_eq!(controller.alter(kind, resource, ops), Ok(()));
        assert_eq!(controller.value(kind, resource, key), Some(after), "{resource:?} {value}");
    }
}

#[test]
fn a_list_of_a_group_is_set_only() {
    const GROUP: i8 = 32;
    let key = "streams.rack.aware.assignment.tags";
    for (operation, name) in [(2, "APPEND"), (3, "SUBTRACT")] {
        let mut controller = Controller::new(&[]);
        assert_eq!(controller.alter(GROUP, "g", &[(key, SET, Some("a"))]), Ok(()));
        let words = format!("Can't {name} to key {key} because its type is not LIST.");
        let altered = controller.alter(GROUP, "g", &[(key, operation, Some("b"))]);
        assert_eq!(altered, Err((ErrorCode::InvalidConfig, words)));
    }
}

#[test]
fn threads_are_at_first_those_of_the_file() {
    for key in ["num.io.threads", "remote.log.reader.threads"] {
        let mut controller = Controller::with_topic("t1");
        controller.config = Config::load(&format!("{key}=40"), &[]).unwrap();
        let steps = [("81", false), ("19", false), ("80", true), ("39", false), ("40", true)];
        for (value, is_taken) in steps {
            let answer = controller.alter(BROKER, "", &[(key, SET, Some(value))]);
            assert_eq!(answer.is_ok(), is_taken, "{key}={value}: {answer:?}");
        }
    }
}

#[test]
fn any_number_of_threads_in_the_file_leaves_other_keys_alterable() {
    for threads in ["-1", "0", "9223372036854775807"] {
        let mut controller = Controller::with_topic("t1");
        let text = format!("remote.log.reader.threads={threads}");
        controller.config = Config::load(&text, &[]).unwrap();
        let answer = controller.alter(BROKER, "", &[("num.io.threads", SET, Some("9"))]);
        assert!(answer.is_ok(), "{threads}: {answer:?}");
    }
}

#[test]
fn threads_are_doubled_step_by_step() {
    for (key, steps) in [
        ("num.io.threads", &[("16", true), ("33", false), ("32", true), ("15", false)][..]),
        ("remote.log.reader.threads", &[("5", true), ("11", false), ("10", true), ("20", true)]),
    ] {
        let mut controller = Controller::with_topic("t1");
        for (value, is_taken) in steps {
            let answer = controller.alter(BROKER, "", &[(key, SET, Some(value))]);
            assert_eq!(answer.is_ok(), *is_taken, "{key}={value}: {answer:?}");
        }
        let own = controller.alter(BROKER, "0", &[(key, SET, Some("7"))]);
        let words = "value should be at least half the current value";
        assert!(own.unwrap_err().1.contains(words), "by the value of all brokers");
    }
}
