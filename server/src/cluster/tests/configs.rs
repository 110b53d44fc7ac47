//! Altered configs and allocated producer ids.

use super::*;
use ErrorCode::{
    InvalidConfig, InvalidRequest, InvalidTopicException, PolicyViolation, UnknownServerError,
    UnknownTopicOrPartition,
};
use muster_codec::records::{ConfigKey, ConfigValue, ProducerIdsKey, ProducerIdsValue};

#[test]
fn lists_are_appended_to_and_subtracted_from() {
    let mut controller = Controller::with_topic("t1");
    let steps = [
        (2, "compact", "delete,compact"),
        (2, "delete,compact,delete", "delete,compact"),
        (3, "delete", "compact"),
        (3, "compact,delete", ""),
    ];
    for (operation, value, after) in steps {
        let ops: &[Op] = &[("cleanup.policy", operation, Some(value))];
        assert_eq!(controller.alter(2, "t1", ops), Ok(()));
        assert_eq!(controller.value(2, "t1", "cleanup.policy"), Some(after));
    }
    assert_eq!(controller.alter(2, "t1", &[("cleanup.policy", 1, None)]), Ok(()));
    assert_eq!(controller.image.configs(2, "t1"), None);
    assert_eq!(controller.alter(2, "t1", &[("nonsense", 1, None)]), Ok(()));
}

#[test]
fn items_of_lists_are_as_they_are_written() {
    let cases = [
        ("delete", 2, " delete", "delete, delete"),
        ("delete, compact", 3, "compact", "delete, compact"),
        ("delete, compact", 3, " compact", "delete"),
        ("delete,delete", 3, "delete", "delete"),
        ("delete", 2, "compact,,", "delete,compact"),
        ("delete", 2, ",", "delete"),
        ("", 2, "", ""),
        ("delete", 3, "", "delete"),
    ];
    for (before, operation, value, after) in cases {
        let mut controller = Controller::with_topic("t1");
        assert_eq!(controller.alter(2, "t1", &[("cleanup.policy", 0, Some(before))]), Ok(()));
        let ops: &[Op] = &[("cleanup.policy", operation, Some(value))];
        assert_eq!(controller.alter(2, "t1", ops), Ok(()), "{before:?} {value:?}");
        assert_eq!(controller.value(2, "t1", "cleanup.policy"), Some(after));
    }
}

#[test]
fn nothing_is_an_item_of_a_list_too() {
    let mut controller = Controller::with_topic("t1");
    let ops: &[Op] = &[("cleanup.policy", 2, Some(""))];
    for name in ["t1", "nope"] {
        assert_eq!(controller.alter(2, name, ops).unwrap_err().0, InvalidConfig);
    }
    let ops: &[Op] = &[("log.cleanup.policy", 2, Some(""))];
    assert_eq!(controller.alter(4, "", ops).unwrap_err().0, InvalidRequest);
    let key = "leader.replication.throttled.replicas";
    for (before, after) in [("*", "*,"), ("0:1", "0:1,"), ("", "")] {
        assert_eq!(controller.alter(2, "t1", &[(key, 0, Some(before))]), Ok(()));
        assert_eq!(controller.alter(2, "t1", &[(key, 2, Some(""))]), Ok(()));
        assert_eq!(controller.value(2, "t1", key), Some(after));
    }
    let refused = controller.alter(2, "t1", &[(key, 0, Some("*,*"))]);
    assert_eq!(refused.unwrap_err().0, InvalidConfig);
}

#[test]
fn replaced_configs_return_to_their_defaults() {
    let mut controller = Controller::with_topic("t1");
    let ops: &[Op] = &[("retention.ms", 0, Some("5")), ("segment.bytes", 0, Some("1048576"))];
    assert_eq!(controller.alter(2, "t1", ops), Ok(()));
    let all = [("retention.ms", "6"), ("cleanup.policy", "compact"), ("retention.ms", "7")];
    let twice = refused(InvalidRequest, "Error due to duplicate config keys");
    assert_eq!(controller.replace(2, "t1", &all), twice);
    assert_eq!(controller.replace(2, "t1", &all[1..]), Ok(()));
    assert_eq!(controller.value(2, "t1", "retention.ms"), Some("7"));
    assert_eq!(controller.value(2, "t1", "cleanup.policy"), Some("compact"));
    assert_eq!(controller.value(2, "t1", "segment.bytes"), None);
    let refused = controller.replace(2, "t1", &[("nope", "1")]);
    assert_eq!(refused.unwrap_err().0, InvalidConfig);
    assert_eq!(controller.value(2, "t1", "retention.ms"), Some("7"), "all or nothing");
    assert_eq!(controller.replace(2, "t1", &[]), Ok(()));
    assert_eq!(controller.image.configs(2, "t1"), None);
}

#[test]
fn a_value_that_no_record_can_hold_is_refused() {
    let mut controller = Controller::with_topic("t1");
    let key = "leader.replication.throttled.replicas";
    let part = |first: u32| -> &'static str {
        (first..first + 3_000).map(|it| format!("{it:05}:1")).collect::<Vec<_>>().join(",").leak()
    };
    let (first, second) = (part(0), part(3_000));
    assert_eq!(controller.alter(2, "t1", &[(key, 0, Some(first))]), Ok(()));
    let appended = controller.alter(2, "t1", &[(key, 2, Some(second))]);
    let words = format!("The value of {key} has 47999 bytes; it may have 32767.");
    assert_eq!(appended, Err((InvalidConfig, words)));
    assert_eq!(controller.value(2, "t1", key), Some(first));
}

const NOT_IN_HOURS: &str = "Cannot update these configs dynamically: [log.retention.hours]. Set \
                            log.retention.ms instead";

#[test]
fn alterations_are_refused_with_kafkas_words() {
    let mut controller = Controller::with_topic("t1");
    let set: &[Op] = &[("retention.ms", 0, Some("10"))];
    type Case<'a> = (i8, &'a str, &'a [Op], ErrorCode, &'a str);
    let cases: &[Case<'_>] = &[
        (2, "nope", set, UnknownTopicOrPartition, "The topic 'nope' does not exist."),
        (2, "", set, InvalidRequest, "Default topic resources are not allowed."),
        (
            2,
            "a b",
            set,
            InvalidTopicException,
            "Topic name is invalid: 'a b' contains one or more characters other than ASCII \
             alphanumerics, '.', '_' and '-'",
        ),
        (
            2,
            "__consumer_offsets",
            set,
            InvalidRequest,
            "Alteration of internal topic __consumer_offsets is prohibited.",
        ),
        (
            2,
            "t1",
            &[("retention.ms", 0, None)],
            InvalidRequest,
            "Null value not supported for : retention.ms",
        ),
        (
            2,
            "t1",
            &[("retention.ms", 2, Some("1"))],
            InvalidConfig,
            "Can't APPEND to key retention.ms because its type is not LIST.",
        ),
        (
            2,
            "t1",
            &[("nonsense", 3, Some("1"))],
            InvalidConfig,
            "Can't SUBTRACT to key nonsense because its type is not LIST.",
        ),
        (2, "t1", &[("retention.ms", 9, Some("1"))], UnknownServerError, ""),
        (2, "nope", &[("nope", 0, Some("1"))], InvalidConfig, "Unknown topic config name: nope"),
        (
            2,
            "a b",
            &[("retention.ms", 3, Some("1"))],
            InvalidConfig,
            "Can't SUBTRACT to key retention.ms because its type is not LIST.",
        ),
        (
            2,
            "t1",
            &[("retention.ms", 0, Some("1")), ("retention.ms", 0, Some("2"))],
            InvalidRequest,
            "Error due to duplicate config keys",
        ),
        (
            2,
            "t1",
            &[("retention.ms", 0, Some("7")), ("nope", 0, Some("7"))],
            InvalidConfig,
            "Unknown topic config name: nope",
        ),
        (
            4,
            "",
            &[("log.retention.ms", 0, Some("x"))],
            InvalidRequest,
            "Invalid value x for configuration log.retention.ms: Not a number of type LONG",
        ),
        (4, "", &[("log.retention.hours", 0, Some("10"))], InvalidRequest, NOT_IN_HOURS),
        (
            4,
            "1",
            &[("group.max.size", 0, Some("10"))],
            InvalidRequest,
            "Cannot update these configs dynamically: [group.max.size]",
        ),
        (
            4,
            "7",
            &[("log.retention.ms", 0, Some("10"))],
            InvalidRequest,
            "Unexpected broker id, expected 0 to 1, but received 7",
        ),
        (
            4,
            "abc",
            &[("log.retention.ms", 0, Some("10"))],
            InvalidRequest,
            "Node id must be an integer, but it is: abc",
        ),
        (
            4,
            "",
            &[("log.retention.ms", 0, None)],
            InvalidRequest,
            "Null value not supported for : log.retention.ms",
        ),
        (0, "1", set, InvalidRequest, "Unknown resource type 0"),
        (99, "1", set, InvalidRequest, "Unknown resource type 99"),
    ];
    let before = controller.image.clone();
    for (resource, name, ops, error, message) in cases {
        assert_eq!(controller.alter(*resource, name, ops), refused(*error, message));
    }
    let senseless: &[Op] = &[("retention.ms", 4, Some("1"))];
    assert_eq!(
        controller.alter_all(&[(2, "t1", set), (2, "nope", senseless), (99, "1", set)], false),
        [
            refused(UnknownServerError, ""),
            refused(UnknownServerError, ""),
            refused(InvalidRequest, "Unknown resource type 99")
        ]
    );
    let twice = refused(InvalidRequest, "Each resource must appear at most once.");
    assert_eq!(
        controller.alter_all(&[(2, "t1", &[]), (2, "t1", &[])], false),
        [twice.clone(), twice.clone()]
    );
    // A broker refuses resources that are named twice; the controller never sees them.
    let unknown = refused(UnknownTopicOrPartition, "The topic 'nope' does not exist.");
    assert_eq!(
        controller.alter_all(&[(2, "t1", senseless), (2, "nope", set), (2, "t1", set)], false),
        [twice.clone(), unknown, twice]
    );
    assert_eq!(controller.image, before);
}

#[test]
fn brokers_are_altered_one_or_all() {
    let mut controller = Controller::new(&[]);
    let ops: &[Op] =
        &[("log.retention.ms", 0, Some("10")), ("log.cleanup.policy", 2, Some("compact"))];
    assert_eq!(controller.alter(4, "", ops), Ok(()));
    assert_eq!(controller.value(4, "", "log.cleanup.policy"), Some("delete,compact"));
    assert_eq!(controller.alter(4, "1", &[("log.retention.ms", 0, Some("20"))]), Ok(()));
    assert_eq!(controller.config.with_dynamic(&controller.image, 0).log_retention_ms(), 10);
    assert_eq!(controller.config.with_dynamic(&controller.image, 1).log_retention_ms(), 20);
}

#[test]
fn limits_of_a_listener_are_altered() {
    let mut controller = Controller::new(&["listener.name.in.max.connections=9"]);
    let most = "listener.name.out.max.connections";
    let alter = |controller: &mut Controller, name: &'static str, value: &'static str| {
        controller.alter(4, "", &[(name, 0, Some(value))])
    };
    assert_eq!(alter(&mut controller, most, "5"), Ok(()));
    let of = |controller: &Controller, listener| {
        let config = controller.config.with_dynamic(&controller.image, 0);
        config.of_listener(listener).max_connections
    };
    assert_eq!((of(&controller, "OUT"), of(&controller, "other")), (5, i32::MAX));
    let rule = "Invalid value 0 for configuration max.connections: Value must be at least 1";
    assert_eq!(alter(&mut controller, most, "0"), refused(InvalidRequest, rule));
    const NOT_DYNAMIC: &str = "Cannot update these configs dynamically";
    const OF_ONE: &str =
        "Cannot update these configs at default cluster level, broker id must be specified";
    let of_file = format!("{NOT_DYNAMIC}, as the server's command line sets them");
    for (name, why) in [
        ("listener.name.out.num.network.threads", NOT_DYNAMIC),
        ("listener.name.max.connections", OF_ONE),
        ("listener.name.out.num.partitions", OF_ONE),
        ("listener.name.in.max.connections", &of_file),
    ] {
        let words = format!("{why}: [{name}]");
        assert_eq!(alter(&mut controller, name, "5"), refused(InvalidRequest, &words));
    }
    assert_eq!(controller.alter(4, "", &[(most, 1, None)]), Ok(()));
    assert_eq!(of(&controller, "OUT"), i32::MAX);
}

#[test]
fn producer_ids_come_in_blocks_that_do_not_overlap() {
    let mut image = ClusterImage::default();
    for block in 0..3 {
        let (records, given) = allocate_producer_ids(&image);
        records.iter().for_each(|record| image.apply(record));
        assert_eq!(given, ProducerIdBlock { first: block * 1_000, count: 1_000 });
    }
    let last = ProducerIdsValue { next_producer_id: i64::MAX - 5 };
    let key = ProducerIdsKey {};
    image.apply(&ClusterRecord::ProducerIds(key, Some(last)));
    assert_eq!(allocate_producer_ids(&image).1.count, 0);
}

#[test]
fn a_dead_letter_queue_is_no_internal_topic() {
    let mut controller = Controller::new(&[]);
    let key = "errors.deadletterqueue.topic.name";
    let words = format!("{key}: DLQ topic name must not start with '__'");
    let refused = controller.alter(32, "g", &[(key, 0, Some("__dlq"))]);
    assert_eq!(refused, Err((InvalidConfig, words)));
    // Whether the topic exists, and has a name with the right prefix, is checked only when a dead
    // letter is to be written.
    assert_eq!(controller.alter(32, "g", &[(key, 0, Some("any"))]), Ok(()));
}

#[test]
fn group_configs_are_within_the_bounds_of_their_broker() {
    let mut controller = Controller::new(&[]);
    let session = "consumer.session.timeout.ms";
    assert_eq!(controller.alter(32, "g", &[(session, 0, Some("50000"))]), Ok(()));
    assert_eq!(controller.value(32, "g", session), Some("50000"));
    type Case<'a> = (&'a str, &'a [Op], ErrorCode, &'a str);
    let cases: &[Case<'_>] = &[
        (
            "",
            &[(session, 0, Some("50000"))],
            InvalidRequest,
            "Default group resources are not allowed.",
        ),
        (
            "g",
            &[(session, 0, Some("1"))],
            InvalidConfig,
            "consumer.session.timeout.ms must be in the range 45000 to 60000 inclusive.",
        ),
        (
            "g",
            &[("consumer.heartbeat.interval.ms", 0, Some("5000000"))],
            InvalidConfig,
            "consumer.heartbeat.interval.ms must be in the range 5000 to 15000 inclusive.",
        ),
        ("g", &[("bad.name", 0, Some("1"))], InvalidConfig, "Unknown group config name: bad.name"),
        (
            "g",
            &[("share.auto.offset.reset", 0, Some("by_duration:PT1X"))],
            InvalidConfig,
            "Invalid value by_duration:PT1X for configuration share.auto.offset.reset: Invalid \
             value `by_duration:PT1X` for configuration share.auto.offset.reset. The value must \
             be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'.",
        ),
        (
            "g",
            &[("share.isolation.level", 0, Some("foo"))],
            InvalidConfig,
            "Invalid value foo for configuration share.isolation.level: String must be one of: \
             read_committed, read_uncommitted",
        ),
    ];
    for (name, ops, error, words) in cases {
        let refused = controller.alter(32, name, ops);
        assert_eq!(refused, Err((*error, (*words).to_owned())), "{ops:?}");
    }
    let values = [
        ("latest", true),
        ("Latest", false),
        ("by_duration:PT1H", true),
        ("by_duration:pt1h", true),
        ("BY_DURATION:PT1H", false),
        ("by_duration:P1DT2H3.5S", true),
        ("by_duration:P1D", true),
        ("by_duration:P", false),
        ("by_duration:PT", false),
        ("by_duration:-PT1S", false),
        ("by_duration:PT1.5M", false),
        ("by_duration:PT1S1H", false),
    ];
    for (value, is_valid) in values {
        let altered = controller.alter(32, "g", &[("share.auto.offset.reset", 0, Some(value))]);
        assert_eq!(altered.is_ok(), is_valid, "{value}");
    }
    assert_eq!(controller.alter(32, "g", &[("share.auto.offset.reset", 1, None)]), Ok(()));
    assert_eq!(controller.alter(32, "g", &[(session, 1, None)]), Ok(()));
    assert_eq!(controller.value(32, "g", session), None);
}

/// Sets a config of a group directly in the image.
fn configure(image: &mut ClusterImage, group: String) {
    let name = "consumer.session.timeout.ms".into();
    let key = ConfigKey { resource_type: GROUP_RESOURCE, resource_name: group.into(), name };
    let value = ConfigValue { value: "50000".into() };
    image.apply(&ClusterRecord::Config(key, Some(value)));
}

#[test]
fn groups_with_configs_are_limited_in_all_and_for_each_client() {
    let mut controller = Controller::new(&[]);
    let set: &[Op] = &[("consumer.session.timeout.ms", 0, Some("50000"))];
    let share = limits::CREATOR_SHARE.burst;
    (0..limits::GROUP_CONFIGS_SHARED)
        .for_each(|n| configure(&mut controller.image, format!("g{n}")));
    (0..share).for_each(|n| assert_eq!(controller.alter(32, &format!("h{n}"), set), Ok(())));
    let words = "Clients at /10.0.0.1 have used up their share of new items (CREATOR_SHARE).";
    assert_eq!(controller.alter(32, "new", set), refused(PolicyViolation, words));
    let other: &[Op] = &[("consumer.session.timeout.ms", 0, Some("51000"))];
    assert_eq!(controller.alter(32, "h1", other), Ok(()), "it has one already");
    assert_eq!(controller.alter(32, "h1", &[("consumer.session.timeout.ms", 1, None)]), Ok(()));
    controller.host = "/10.0.0.2";
    assert_eq!(controller.alter(32, "new", set), Ok(()));

    let missing = limits::GROUP_CONFIGS_MAX - controller.image.configured_count(GROUP_RESOURCE);
    (0..missing).for_each(|n| configure(&mut controller.image, format!("i{n}")));
    let words = "100000 groups have configs, which is the most (GROUP_CONFIGS_MAX).";
    assert_eq!(controller.alter(32, "last", set), refused(PolicyViolation, words));
    assert_eq!(controller.alter(32, "i1", other), Ok(()));
}

#[test]
fn configs_of_a_group_are_short() {
    let mut controller = Controller::new(&[]);
    let long: &str = Box::leak(format!("{}1000", "0".repeat(5_000)).into_boxed_str());
    let words = "Configs of a group have at most 4096 bytes (GROUP_CONFIG_BYTES_MAX).";
    let set: &[Op] = &[("consumer.assignment.interval.ms", 0, Some(long))];
    assert_eq!(controller.alter(32, "g", set), refused(PolicyViolation, words));
}

#[test]
fn subscriptions_to_metrics_are_kept_until_their_last_config_is_removed() {
    let mut controller = Controller::new(&[]);
    let set: &[Op] =
        &[("metrics", 0, Some("org.apache.kafka.consumer.")), ("match", 0, Some("client_id=a"))];
    assert_eq!(controller.alter(16, "slow", set), Ok(()));
    // Kafka's controller does not know the types of these configs.
    let words = "Can't APPEND to key match because its type is not LIST.";
    let appended: &[Op] = &[("match", 2, Some("client_source_port=1"))];
    assert_eq!(controller.alter(16, "slow", appended), refused(InvalidConfig, words));
    assert_eq!(controller.alter(16, "", appended), refused(InvalidConfig, words));
    assert_eq!(controller.value(16, "slow", "match"), Some("client_id=a"));
    let words = "Subscription name can't be empty";
    assert_eq!(controller.alter(16, "", set), refused(InvalidRequest, words));
    let words = "Unknown client metrics configuration: nope";
    assert_eq!(
        controller.alter(16, "slow", &[("nope", 0, Some("1"))]),
        refused(InvalidRequest, words)
    );
    let words = "Illegal client matching pattern: client_id=[";
    let illegal: &[Op] = &[("match", 0, Some("client_id=["))];
    assert_eq!(controller.alter(16, "slow", illegal), refused(InvalidConfig, words));
    assert_eq!(controller.replace(16, "slow", &[("interval.ms", "100")]), Ok(()));
    assert_eq!(controller.value(16, "slow", "match"), None);
    assert_eq!(controller.alter(16, "slow", &[("interval.ms", 1, None)]), Ok(()));
    assert_eq!(controller.image.configs(16, "slow"), None);
}

#[test]
fn subscriptions_to_metrics_are_limited() {
    let mut controller = Controller::new(&[]);
    let set: &[Op] = &[("interval.ms", 0, Some("1000"))];
    for number in 0..limits::CLIENT_METRICS_MAX {
        assert_eq!(controller.alter(16, &format!("s{number}"), set), Ok(()));
    }
    let words = "There are 256 subscriptions to metrics of clients, which is the most \
                 (CLIENT_METRICS_MAX).";
    assert_eq!(controller.alter(16, "one more", set), refused(PolicyViolation, words));
    let long: &str = Box::leak("m".repeat(30_000).into_boxed_str());
    let large: &[Op] = &[("metrics", 0, Some(long))];
    assert_eq!(controller.alter(16, "s0", large), Ok(()));
    assert_eq!(controller.alter(16, "s1", large), Ok(()));
    let words = "Subscriptions to metrics of clients have at most 65536 bytes together \
                 (CLIENT_METRICS_BYTES_MAX).";
    assert_eq!(controller.alter(16, "s2", large), refused(PolicyViolation, words));
    let slow: &[Op] = &[("match", 0, Some("client_id=(a?){900}"))];
    assert_eq!(controller.alter(16, "s2", slow), Ok(()));
    assert_eq!(controller.alter(16, "s3", slow), Ok(()));
    assert_eq!(controller.alter(16, "s4", slow).unwrap_err().0, PolicyViolation);
    assert_eq!(controller.alter(16, "s2", &[("match", 1, None)]), Ok(()));
}

#[test]
fn of_the_configs_of_a_group_those_that_it_sets_are_checked() {
    let mut controller = Controller::new(&[]);
    let (session, heartbeat) = ("share.session.timeout.ms", "share.heartbeat.interval.ms");
    let mut refused = |ops: &[Op]| controller.alter(32, "g", ops).unwrap_err();
    let standbys = "streams.num.standby.replicas must be less than or equal to 2";
    let of_standbys = refused(&[("streams.num.standby.replicas", 0, Some("3"))]);
    assert_eq!(of_standbys, (InvalidConfig, standbys.to_owned()));
    let unknown = refused(&[(session, 0, Some("-1")), ("zzz", 0, Some("1"))]);
    assert_eq!(unknown, (InvalidConfig, "Unknown group config name: zzz".to_owned()));
    // The largest heartbeat interval that the broker's bounds allow equals its session timeout.
    let bounds =
        ["group.share.max.heartbeat.interval.ms=45000", "group.share.heartbeat.interval.ms=44999"];
    let mut controller = Controller::new(&bounds);
    let words = format!("{session} must be greater than {heartbeat}");
    let altered = controller.alter(32, "g", &[(heartbeat, 0, Some("45000"))]);
    assert_eq!(altered, Err((InvalidConfig, words)), "than the broker's session timeout");
    assert_eq!(controller.alter(32, "g", &[(session, 0, Some("45000"))]), Ok(()));
}
