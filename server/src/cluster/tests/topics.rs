//! Creating and deleting topics, and adding partitions.

use super::*;
use ErrorCode::{
    InvalidConfig, InvalidPartitions, InvalidReplicaAssignment, InvalidReplicationFactor,
    InvalidRequest, InvalidTopicException, PolicyViolation, TopicAlreadyExists,
    TopicDeletionDisabled, UnknownTopicId, UnknownTopicOrPartition,
};
use muster_coordinator::Topics;

#[test]
fn a_topic_gets_the_defaults_and_its_own_configs() {
    let mut controller = Controller::new(&["num.partitions=3", "log.retention.ms=9"]);
    let configs = [("retention.ms", Some(" 5 ")), ("cleanup.policy", Some(" compact, delete "))];
    let result = controller.create(&with_configs(&configs)).unwrap();
    assert_eq!((result.num_partitions, result.replication_factor), (3, 1));
    assert_eq!(controller.image.topic_by_id(result.topic_id).unwrap().partitions, 3);
    assert_eq!(controller.value(2, "c", "retention.ms"), Some(" 5 "), "as it came");
    let configs = result.configs.unwrap();
    assert!(configs.is_sorted_by(|a, b| a.name < b.name));
    let config = |name: &str| {
        let config = configs.iter().find(|config| config.name == name).unwrap();
        (config.value.as_deref().unwrap().to_owned(), config.config_source)
    };
    assert_eq!(config("cleanup.policy"), (" compact, delete ".to_owned(), 1));
    assert_eq!(config("retention.ms"), (" 5 ".to_owned(), 1));
    assert_eq!(config("max.message.bytes"), ("1048588".to_owned(), 5));
    let result = controller.create(&topic("d")).unwrap();
    let configs = result.configs.unwrap();
    let retention = configs.iter().find(|config| config.name == "retention.ms").unwrap();
    assert_eq!((retention.value.as_deref(), retention.config_source), (Some("9"), 4));
}

#[test]
fn a_change_with_a_timeout_of_zero_is_not_made() {
    let mut controller = Controller::with_topic("t1");
    let before = controller.image.clone();
    let late = ErrorCode::RequestTimedOut.code();
    for timeout_ms in [0, -1, i32::MIN] {
        let topics = ["a", "t1", "b", "b"].map(topic).to_vec();
        let request = CreateTopicsRequest { topics, timeout_ms, ..Default::default() };
        let created = controller.create_topics(&request, 7);
        let is_late =
            created.topics.iter().all(|it| it.error_code == late && it.error_message.is_none());
        assert!(is_late && created.topics.len() == 4, "{created:?}");
        let topic_names = vec!["t1".into(), "nope".into(), "nope".into()];
        let request = DeleteTopicsRequest { topic_names, timeout_ms, ..Default::default() };
        let deleted =
            controller.decide(|view, _| delete_topics(view, Wall(0), &mut free(), 5, &request));
        let late_ones = deleted.responses.iter().filter(|it| it.error_code == late);
        assert_eq!(late_ones.count(), 3, "an answer for each, also of the same: {deleted:?}");
        let grown = |name| CreatePartitionsTopic { name, count: 3, assignments: None };
        let topics = ["t1", "t2", "t2"].map(|name| grown(name.into())).to_vec();
        let request = CreatePartitionsRequest { topics, timeout_ms, validate_only: false };
        let grown = controller.decide(|view, _| create_partitions(view, &mut free(), &request));
        assert_eq!(grown.results.iter().filter(|it| it.error_code == late).count(), 3);
    }
    assert_eq!(controller.image.topic("t1"), before.topic("t1"));
    let topics = vec![topic("b"), topic("b")];
    let request = CreateTopicsRequest { topics, timeout_ms: 0, ..Default::default() };
    let created = &controller.create_topics(&request, 7).topics[0];
    assert_eq!(code(created.error_code), InvalidRequest, "there is nothing to do");
}

#[test]
fn topics_are_refused_with_kafkas_words() {
    let partitions = |num_partitions| CreatableTopic { num_partitions, ..topic("c") };
    let replicas = |replication_factor| CreatableTopic { replication_factor, ..topic("c") };
    let not_positive = "Number of partitions was set to an invalid non-positive value.";
    let excessive = "Excessively large number of partitions per request.";
    let factor = "Replication factor must be larger than 0, or -1 to use the default value.";
    let assigned = with_assignment(&[(0, &[1])]);
    let cases = [
        (topic("t1"), TopicAlreadyExists, "Topic 't1' already exists."),
        (
            topic("__consumer_offsets"),
            TopicAlreadyExists,
            "Topic '__consumer_offsets' already exists.",
        ),
        (
            topic("__cluster_metadata"),
            InvalidRequest,
            "Creation of internal topic __cluster_metadata is prohibited.",
        ),
        (
            topic(""),
            InvalidTopicException,
            "Topic name is invalid: the empty string is not allowed",
        ),
        (partitions(0), InvalidPartitions, not_positive),
        (partitions(-2), InvalidPartitions, not_positive),
        (partitions(10_001), PolicyViolation, excessive),
        (partitions(i32::MAX), PolicyViolation, excessive),
        (replicas(0), InvalidReplicationFactor, factor),
        (replicas(-2), InvalidReplicationFactor, factor),
        (
            replicas(2),
            InvalidReplicationFactor,
            "Unable to replicate the partition 2 time(s): muster keeps one replica of each \
             partition, whatever the number of brokers.",
        ),
        (
            replicas(i16::MAX),
            InvalidReplicationFactor,
            "Unable to replicate the partition 32767 time(s): muster keeps one replica of each \
             partition, whatever the number of brokers.",
        ),
        (CreatableTopic { num_partitions: 0, ..replicas(3) }, InvalidPartitions, not_positive),
        (
            CreatableTopic { replication_factor: 1, ..assigned.clone() },
            InvalidRequest,
            "A manual partition assignment was specified, but replication factor was not set to \
             -1.",
        ),
        (
            CreatableTopic { num_partitions: 1, ..assigned },
            InvalidRequest,
            "A manual partition assignment was specified, but numPartitions was not set to -1.",
        ),
        (
            with_assignment(&[(0, &[7])]),
            InvalidReplicaAssignment,
            "The manual partition assignment includes broker 7, but no such broker is registered.",
        ),
        (
            with_assignment(&[(1, &[1])]),
            InvalidReplicaAssignment,
            "partitions should be a consecutive 0-based integer sequence",
        ),
        (
            with_assignment(&[(0, &[1]), (0, &[1])]),
            InvalidReplicaAssignment,
            "Found multiple manual partition assignments for partition 0",
        ),
        (
            with_assignment(&[(0, &[])]),
            InvalidReplicaAssignment,
            "The manual partition assignment includes an empty replica list.",
        ),
        (
            with_assignment(&[(0, &[1, 1])]),
            InvalidReplicaAssignment,
            "The manual partition assignment includes the broker 1 more than once.",
        ),
        (
            with_assignment(&[(0, &[1, 0])]),
            InvalidReplicaAssignment,
            "The manual partition assignment includes 2 replicas: muster keeps one replica of each \
             partition, whatever the number of brokers.",
        ),
        (with_configs(&[("nope", Some("1"))]), InvalidConfig, "Unknown topic config name: nope"),
        (
            CreatableTopic {
                num_partitions: 0,
                replication_factor: 3,
                ..with_configs(&[("nope", Some("1"))])
            },
            InvalidConfig,
            "Unknown topic config name: nope",
        ),
        (
            with_configs(&[("retention.ms", None)]),
            InvalidConfig,
            "Null value not supported for topic configs: retention.ms",
        ),
        (
            with_configs(&[("retention.ms", Some("x"))]),
            InvalidConfig,
            "Invalid value x for configuration retention.ms: Not a number of type LONG",
        ),
    ];
    let mut controller = Controller::with_topic("t1");
    let before = controller.image.clone();
    for (topic, error, message) in cases {
        assert_eq!(controller.create(&topic), refused(error, message));
    }
    assert_eq!(controller.image, before);
}

#[test]
fn topics_of_one_request_are_judged_together() {
    let mut controller = Controller::new(&[]);
    let results = controller.create_all(vec![topic("a"), topic("a"), topic("b")]);
    let errors: Vec<_> = results
        .iter()
        .map(|result| (&*result.name, code(result.error_code), text(&result.error_message)))
        .collect();
    assert_eq!(
        errors,
        [
            ("a", InvalidRequest, "Duplicate topic name.".to_owned()),
            ("b", ErrorCode::None, String::new()),
        ]
    );
    let large = |name| CreatableTopic { num_partitions: 9_000, ..topic(name) };
    let results = controller.create_all(vec![large("d"), large("e")]);
    let policy = PolicyViolation.code();
    assert!(results.iter().all(|result| result.error_code == policy));
}

#[test]
fn a_topic_collides_with_topics_of_earlier_requests_only() {
    let mut controller = Controller::new(&[]);
    let both = controller.create_all(vec![topic("p.q"), topic("p_q")]);
    assert!(both.iter().all(|result| result.error_code == 0), "{both:?}");
    controller.create(&topic("r.s")).unwrap();
    let words = "Topic 'r_s' collides with existing topic: r.s";
    assert_eq!(controller.create(&topic("r_s")), refused(InvalidTopicException, words));
    let words = "Topic 'p.q' already exists.";
    assert_eq!(controller.create(&topic("p.q")), refused(TopicAlreadyExists, words));
}

#[test]
fn a_cluster_does_not_grow_without_end() {
    let mut controller = Controller::new(&[]);
    let large = |name| CreatableTopic { num_partitions: 10_000, ..topic(name) };
    let names: Vec<String> = (0..31).map(|n| format!("t{n}")).collect();
    let (last, rest) = names.split_last().unwrap();
    rest.iter().for_each(|name| assert!(controller.create(&large(name)).is_ok()));
    assert_eq!(controller.image.partition_count(), limits::PARTITIONS_MAX);
    let words = "There are 300000 partitions of at most 300000 (PARTITIONS_MAX).";
    assert_eq!(controller.create(&topic(last)), refused(PolicyViolation, words));
    assert_eq!(controller.grow(10_001, None), refused(PolicyViolation, words));
}

/// `count` topic names, as a client may send them in Metadata.
fn named(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{prefix}{number}")).collect()
}

#[test]
fn topics_by_name_are_limited_for_each_client() {
    let mut controller = Controller::new(&[]);
    let plenty = named("plenty", limits::AUTO_TOPICS_SHARED - controller.image.topic_count());
    assert_eq!(controller.auto_create("/10.0.0.1", &plenty), None, "below the limit");
    let share = limits::CREATOR_SHARE.burst as usize;
    let why = controller.auto_create("/10.0.0.1", &named("more", 1)).unwrap();
    assert!(why.starts_with("Clients at /10.0.0.1 have used up their share"), "{why}");
    assert!(controller.auto_create("/10.0.0.2", &named("other", 2 * share)).is_some());
    assert_eq!(controller.image.topic_count(), limits::AUTO_TOPICS_SHARED + share);

    for host in 1..100 {
        controller.auto_create(&format!("/10.0.1.{host}"), &named(&format!("h{host}-"), 2 * share));
    }
    assert_eq!(controller.image.topic_count(), limits::AUTO_TOPICS_MAX);
    let why = controller.auto_create("/10.0.0.3", &named("last", 1)).unwrap();
    assert!(why.contains("are created by CreateTopics only"), "{why}");
    assert!(controller.create(&topic("on-purpose")).is_ok());
}

#[test]
fn an_exceeded_limit_is_named() {
    let mut controller = Controller::with_topic("t1");
    let words = "A topic has at most 20000 partitions (PARTITIONS_PER_TOPIC_MAX).";
    for count in [10_000, 20_000] {
        assert_eq!(controller.grow(count, None), Ok(()));
    }
    assert_eq!(controller.grow(20_001, None), refused(PolicyViolation, words));
    let count = limits::TOPICS_MAX - controller.image.topic_count();
    named("t-", count).iter().zip(0..).for_each(|(name, number)| controller.put(name, number));
    let words = "There are 100000 topics, which is the most (TOPICS_MAX).";
    assert_eq!(controller.create(&topic("last")), refused(PolicyViolation, words));
}

#[test]
fn validation_alone_changes_nothing() {
    let mut controller = Controller::with_topic("t1");
    let before = controller.image.clone();
    let request =
        CreateTopicsRequest { topics: vec![topic("a")], validate_only: true, ..Default::default() };
    let response = controller.create_topics(&request, 4);
    assert_eq!((response.topics[0].error_code, &response.topics[0].configs), (0, &None));
    let topics = vec![CreatePartitionsTopic { name: "t1".into(), count: 3, assignments: None }];
    let request = CreatePartitionsRequest { topics, timeout_ms: 1, validate_only: true };
    let response = controller.decide(|view, _| create_partitions(view, &mut free(), &request));
    assert_eq!(response.results[0].error_code, 0);
    let ops: &[Op] = &[("retention.ms", 0, Some("5"))];
    assert_eq!(controller.alter_all(&[(2, "t1", ops)], true), [Ok(())]);
    assert_eq!(controller.image, before);
}

#[test]
fn automatic_creation_skips_invalid_names() {
    let mut controller = Controller::with_topic("t1");
    let names = ["t1", "a b", "new", "__transaction_state"].map(str::to_owned);
    assert_eq!(controller.auto_create("/10.0.0.1", &names), None);
    let names: Vec<&str> = controller.image.topics().map(|topic| &*topic.name).collect();
    assert_eq!(names, ["new", "t1"]);
}

#[test]
fn topics_are_deleted_by_name_or_id_with_their_configs() {
    let mut controller = Controller::with_topic("t1");
    controller.create(&with_configs(&[("retention.ms", Some("5"))])).unwrap();
    let id = controller.image.topic("c").unwrap().id;
    assert_eq!(controller.delete(6, &[(None, id)]), [(ErrorCode::None, String::new())]);
    assert_eq!(controller.image.topic_by_id(id), None);
    assert_eq!(controller.value(2, "c", "retention.ms"), None);
    let (noted, topic) = controller.image.deleted().next().unwrap();
    assert_eq!((noted, &*topic.name), (id, "c"));
    assert_eq!(controller.delete(6, &[(Some("t1"), Uuid::ZERO)])[0].0, ErrorCode::None);
    assert_eq!(controller.image.topics().count(), 0);
}

#[test]
fn deletions_are_refused_with_kafkas_words() {
    let mut controller = Controller::with_topic("t1");
    let (t1, other) = (controller.image.topic("t1").unwrap().id, Uuid([9; 16]));
    let zero = Uuid::ZERO;
    type Case<'a> = (&'a [(Option<&'a str>, Uuid)], ErrorCode, &'a str);
    let cases: &[Case<'_>] = &[
        (
            &[(Some("nope"), zero)],
            UnknownTopicOrPartition,
            "This server does not host this topic-partition.",
        ),
        (&[(None, zero)], InvalidRequest, "Neither topic name nor id were specified."),
        (&[(None, other)], UnknownTopicId, "This server does not host this topic ID."),
        (
            &[(Some("t1"), other)],
            InvalidRequest,
            "You may not specify both topic name and topic id.",
        ),
        (&[(Some("t1"), zero), (Some("t1"), zero)], InvalidRequest, "Duplicate topic name."),
        (&[(None, t1), (None, t1)], InvalidRequest, "Duplicate topic id."),
        (
            &[(Some("__consumer_offsets"), zero)],
            InvalidRequest,
            "Deletion of internal topic __consumer_offsets is prohibited.",
        ),
    ];
    for (topics, error, message) in cases {
        assert_eq!(controller.delete(6, topics), [(*error, (*message).to_owned())]);
    }
    assert!(controller.image.topic("t1").is_some());
    let twice = controller.delete(6, &[(None, t1), (Some("t1"), zero)]);
    let words = "The provided topic name maps to an ID that was already supplied.";
    assert_eq!(twice, [(InvalidRequest, words.to_owned())]);
    let by_name = (InvalidRequest, "Duplicate topic name.".to_owned());
    let by_id = (InvalidRequest, "Duplicate topic id.".to_owned());
    let (id, name) = ((None, t1), (Some("t1"), zero));
    let all = controller.delete(6, &[id, id, name]);
    assert_eq!(all, [by_id.clone(), (InvalidRequest, words.to_owned())]);
    assert_eq!(controller.delete(6, &[id, name, name, id]), [by_id, by_name.clone()]);
    for name in [(None, zero), (Some("t1"), t1)] {
        let each = controller.delete(6, &[name, name]);
        assert_eq!(each.len(), 2, "no topic is named: {each:?}");
        assert!(each.iter().all(|(error, _)| *error == InvalidRequest), "{each:?}");
    }
    assert!(controller.image.topic("t1").is_some());
    // If a name occurs several times, only the name is refused, and the topic is deleted by its id.
    let deleted = controller.delete(6, &[name, id, name]);
    assert_eq!(deleted, [(ErrorCode::None, String::new()), by_name]);
    assert!(controller.image.topic("t1").is_none());

    let mut controller = Controller::new(&["delete.topic.enable=false"]);
    let asked = [(Some("t1"), zero)];
    assert_eq!(controller.delete(2, &asked)[0].0, InvalidRequest);
    assert_eq!(controller.delete(3, &asked)[0].0, TopicDeletionDisabled);
}

#[test]
fn partitions_are_added_and_refused_with_kafkas_words() {
    let mut controller = Controller::with_topic("t1");
    type Case<'a> = (i32, Option<&'a [&'a [i32]]>, ErrorCode, &'a str);
    let cases: &[Case<'_>] = &[
        (2, None, InvalidPartitions, "Topic already has 2 partition(s)."),
        (
            1,
            None,
            InvalidPartitions,
            "The topic t1 currently has 2 partition(s); 1 would not be an increase.",
        ),
        (
            -3,
            None,
            InvalidPartitions,
            "The topic t1 currently has 2 partition(s); -3 would not be an increase.",
        ),
        (i32::MAX, None, PolicyViolation, "Excessively large number of partitions per request."),
        (
            3,
            Some(&[]),
            InvalidReplicaAssignment,
            "Attempted to add 1 additional partition(s), but only 0 assignment(s) were specified.",
        ),
        (
            4,
            Some(&[&[1]]),
            InvalidReplicaAssignment,
            "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
        ),
        (
            3,
            Some(&[&[9]]),
            InvalidReplicaAssignment,
            "The manual partition assignment includes broker 9, but no such broker is registered.",
        ),
        (
            3,
            Some(&[&[]]),
            InvalidReplicaAssignment,
            "The manual partition assignment includes an empty replica list.",
        ),
        (
            3,
            Some(&[&[0, 1]]),
            InvalidReplicaAssignment,
            "The manual partition assignment includes 2 replicas: muster keeps one replica of each \
             partition, whatever the number of brokers.",
        ),
    ];
    for (count, assignments, error, message) in cases {
        assert_eq!(controller.grow(*count, *assignments), refused(*error, message));
    }
    assert_eq!(
        controller.grow_all(&[("t1", 3), ("t1", 4)], None),
        [refused(InvalidRequest, "Duplicate topic name.")]
    );
    assert_eq!(controller.grow_all(&[("nope", 3)], None), [refused(UnknownTopicOrPartition, "")]);
    assert_eq!(
        controller.grow_all(&[("__consumer_offsets", 99)], None),
        [refused(InvalidRequest, "Extension of internal topic __consumer_offsets is prohibited.")]
    );
    assert_eq!(controller.grow(3, None), Ok(()));
    assert_eq!(controller.image.topic("t1").unwrap().partitions, 3);
}

#[test]
fn messages_do_not_grow_with_what_a_client_sends() {
    let mut controller = Controller::new(&[]);
    let name = "ü".repeat(16_000);
    let (_, message) = controller.create(&topic(&name)).unwrap_err();
    assert!(message.len() <= 2_000 && message.starts_with("Topic name is invalid: the length"));
}

/// The records of a group have the version of the topics for which the group resolved its regular
/// expressions. So after a restart, a new topic must have a higher version than this.
#[test]
fn a_start_does_not_lower_the_version_of_the_topics() {
    let mut controller = Controller::with_topic("kept");
    for _ in 0..9 {
        controller.create(&topic("gone")).unwrap();
        controller.delete(5, &[(Some("gone"), Uuid::ZERO)]);
    }
    let resolved = controller.image.version();
    let mut found = ClusterImage::new(&controller.config);
    controller.image.records(&controller.config).iter().for_each(|record| found.apply(record));
    assert!(found.version() < resolved, "fewer changes are found than were made");
    found.loaded_at(controller.position);
    assert!(found.version() >= resolved, "independent of the clock");
    controller.image = found.clone();
    controller.create(&topic("new")).unwrap();
    assert!(controller.image.version_of_newest() > found.version());
}
