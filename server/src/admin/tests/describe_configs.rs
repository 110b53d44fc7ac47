//! DescribeConfigs: each value, its source and its synonyms.

use super::*;

fn describe(
    cluster: &Cluster,
    resource_type: i8,
    name: &'static str,
    keys: &[&'static str],
) -> Result<Vec<String>, (ErrorCode, String)> {
    let resource = DescribeConfigsResource {
        resource_type,
        resource_name: name.into(),
        configuration_keys: Some(keys.iter().map(|key| (*key).into()).collect()),
    };
    let request = DescribeConfigsRequest {
        resources: vec![resource],
        include_synonyms: true,
        ..Default::default()
    };
    let response = describe_configs(&cluster.view(), &request);
    let [result] = &response.results[..] else { panic!("{response:?}") };
    match code(result.error_code) {
        ErrorCode::None => Ok(result.configs.iter().map(line).collect()),
        error => Err((error, result.error_message.as_deref().unwrap().to_owned())),
    }
}

/// A config as text: name, value, source, whether it can be altered, and its synonyms.
fn line(config: &DescribeConfigsResourceResult<'_>) -> String {
    let value = config.value.as_deref().unwrap_or("null");
    let access = if config.read_only { "r" } else { "w" };
    let mut text = format!("{}={value} {}{access}", config.name, config.config_source);
    for synonym in &config.synonyms {
        let value = synonym.value.as_deref().unwrap();
        text += &format!(" {}:{}={value}", synonym.source, synonym.name);
    }
    text
}

#[test]
fn topic_configs_have_their_sources() {
    let mut cluster = Cluster::new(&[]);
    let keys = ["retention.ms", "cleanup.policy", "flush.ms", "nope"];
    let lines = |cluster: &Cluster| describe(cluster, 2, "t1", &keys).unwrap();
    assert_eq!(
        lines(&cluster),
        [
            "cleanup.policy=delete 5w 5:log.cleanup.policy=delete",
            "flush.ms=9223372036854775807 5w",
            "retention.ms=604800000 5w",
        ]
    );
    cluster.set(4, "", "log.retention.ms", "86400001");
    cluster.set(4, "0", "log.retention.ms", "86400002");
    cluster.set(2, "t1", "cleanup.policy", "delete,compact");
    assert_eq!(
        lines(&cluster),
        [
            "cleanup.policy=delete,compact 1w 1:cleanup.policy=delete,compact \
         5:log.cleanup.policy=delete",
            "flush.ms=9223372036854775807 5w",
            "retention.ms=86400002 2w 2:log.retention.ms=86400002 3:log.retention.ms=86400001 \
         5:log.retention.hours=168",
        ]
    );
    let offsets = ["cleanup.policy", "compression.type", "segment.bytes"];
    assert_eq!(
        describe(&cluster, 2, OFFSETS_TOPIC, &offsets).unwrap(),
        [
            "cleanup.policy=compact 1w 1:cleanup.policy=compact 5:log.cleanup.policy=delete",
            "compression.type=producer 1w 1:compression.type=producer 5:compression.type=producer",
            "segment.bytes=16777216 1w 1:segment.bytes=16777216 5:log.segment.bytes=1073741824",
        ]
    );
    assert_eq!(describe(&cluster, 2, "t1", &[]).unwrap().len(), 37);
}

#[test]
fn subscriptions_to_metrics_have_their_own_values_and_defaults() {
    let mut cluster = Cluster::new(&[]);
    cluster.set(16, "slow", "interval.ms", "5000");
    cluster.set(16, "slow", "metrics", "a, b,a");
    assert_eq!(
        describe(&cluster, 16, "slow", &[]).unwrap(),
        ["interval.ms=5000 7w 7:interval.ms=5000", "match= 5w", "metrics=a,b 7w 7:metrics=a,b"]
    );
    let none = ["interval.ms=300000 5w", "match= 5w", "metrics= 5w"];
    assert_eq!(describe(&cluster, 16, "another", &[]).unwrap(), none);
    let words = "Client metrics subscription name must not be empty".to_owned();
    assert_eq!(describe(&cluster, 16, "", &[]), Err((InvalidRequest, words)));
}

/// The described value of a topic config that was set to `text`.
fn topic_value(key: &'static str, text: &str) -> String {
    let mut cluster = Cluster::new(&[]);
    cluster.set(2, "t1", key, text);
    let [line] = &describe(&cluster, 2, "t1", &[key]).unwrap()[..] else { panic!("{key}") };
    let (value, synonyms) = line.split_once(" 1w 1:").unwrap();
    let own = synonyms.split_once(" 5:").map_or(synonyms, |(own, _)| own);
    assert_eq!(value, own);
    value.split_once('=').unwrap().1.to_owned()
}

#[test]
fn values_are_described_in_the_form_of_their_type() {
    let cases = [
        ("preallocate", " TRUE ", "true"),
        ("segment.ms", "+007", "7"),
        ("message.timestamp.type", " CreateTime", "CreateTime"),
        ("cleanup.policy", "delete ,compact,delete", "delete,compact"),
        ("leader.replication.throttled.replicas", "0:1, 0:1", "0:1,0:1"),
    ];
    for (key, text, described) in cases {
        assert_eq!(topic_value(key, text), described);
    }
    for (text, described) in [
        (".5", "0.5"),
        ("5e-1", "0.5"),
        ("1", "1.0"),
        ("0.5f", "0.5"),
        ("0.0001", "1.0E-4"),
        ("0.00012", "1.2E-4"),
        ("1E-3", "0.001"),
        ("0", "0.0"),
    ] {
        assert_eq!(topic_value("min.cleanable.dirty.ratio", text), described);
    }
}

#[test]
fn configs_of_listeners_are_those_that_were_altered() {
    let key = "listener.name.out.max.connections";
    let mut cluster = Cluster::new(&[]);
    assert_eq!(describe(&cluster, 4, "0", &[key]).unwrap(), Vec::<String>::new());
    cluster.set(4, "", key, "5");
    cluster.set(4, "0", key, "06");
    cluster.set(4, "", "max.connections", "9");
    assert_eq!(
        describe(&cluster, 4, "0", &[key]).unwrap(),
        ["listener.name.out.max.connections=6 2r 2:listener.name.out.max.connections=06 \
          3:listener.name.out.max.connections=5 3:max.connections=9 \
          5:max.connections=2147483647"]
    );
    assert_eq!(
        describe(&cluster, 4, "", &[key]).unwrap(),
        ["listener.name.out.max.connections=5 3r 3:listener.name.out.max.connections=5"]
    );
}

#[test]
fn synonyms_of_brokers_are_as_they_were_set() {
    let mut cluster = Cluster::new(&["log.cleaner.min.cleanable.ratio=.60"]);
    cluster.set(4, "", "log.cleanup.policy", "delete, delete");
    let keys = ["log.cleaner.min.cleanable.ratio", "log.cleanup.policy"];
    assert_eq!(
        describe(&cluster, 4, "0", &keys).unwrap(),
        [
            "log.cleaner.min.cleanable.ratio=0.6 4r 4:log.cleaner.min.cleanable.ratio=.60 \
         5:log.cleaner.min.cleanable.ratio=0.5",
            "log.cleanup.policy=delete 3w 3:log.cleanup.policy=delete, delete \
         5:log.cleanup.policy=delete",
        ]
    );
    assert_eq!(
        describe(&cluster, 4, "", &[]).unwrap(),
        ["log.cleanup.policy=delete, delete 3w 3:log.cleanup.policy=delete, delete"]
    );
    assert_eq!(
        describe(&cluster, 2, "t1", &["cleanup.policy"]).unwrap(),
        ["cleanup.policy=delete 3w 3:log.cleanup.policy=delete, delete \
         5:log.cleanup.policy=delete"]
    );
}

#[test]
fn broker_configs_have_their_sources() {
    let mut cluster = Cluster::new(&["auto.create.topics.enable=true", "log.dirs=/d"]);
    cluster.set(4, "", "log.retention.ms", "86400001");
    cluster.set(4, "1", "log.cleanup.policy", "delete,compact");
    let keys = [
        "auto.create.topics.enable",
        "group.consumer.regex.refresh.interval.ms",
        "log.cleanup.policy",
        "log.dirs",
        "log.retention.hours",
        "log.retention.ms",
        "log.roll.ms",
        "nonsense",
    ];
    assert_eq!(
        describe(&cluster, 4, "1", &keys).unwrap(),
        [
            "auto.create.topics.enable=true 4r 4:auto.create.topics.enable=true \
         5:auto.create.topics.enable=true",
            "log.cleanup.policy=delete,compact 2w 2:log.cleanup.policy=delete,compact \
         5:log.cleanup.policy=delete",
            "log.dirs=/d 4r 4:log.dirs=/d",
            "log.retention.hours=168 5r 5:log.retention.hours=168",
            "log.retention.ms=86400001 3w 3:log.retention.ms=86400001 5:log.retention.hours=168",
            "log.roll.ms=null 5w",
        ]
    );
    assert_eq!(
        describe(&cluster, 4, "0", &["log.cleanup.policy"]).unwrap(),
        ["log.cleanup.policy=delete 5w 5:log.cleanup.policy=delete"]
    );
    assert_eq!(
        describe(&cluster, 4, "", &[]).unwrap(),
        ["log.retention.ms=86400001 3w 3:log.retention.ms=86400001"]
    );
}

#[test]
fn invalid_resources_are_refused() {
    let cluster = Cluster::new(&[]);
    let cases = [
        (2, "nope", UnknownTopicOrPartition, ""),
        (2, "", InvalidTopicException, "Topic name is invalid: the empty string is not allowed"),
        (
            4,
            "7",
            InvalidRequest,
            "Unexpected broker id, expected 0 to 1 or empty string, but received 7",
        ),
        (4, "abc", InvalidRequest, "Broker id must be an integer, but it is: abc"),
        (8, "0", InvalidRequest, "muster has no broker loggers."),
        (0, "1", InvalidRequest, "Unexpected resource type 0"),
    ];
    for (resource_type, name, error, words) in cases {
        assert_eq!(describe(&cluster, resource_type, name, &[]), Err((error, words.to_owned())));
    }
    let resource = DescribeConfigsResource {
        resource_type: 2,
        resource_name: "t1".into(),
        configuration_keys: None,
    };
    let resources = vec![resource.clone(), resource];
    let request = DescribeConfigsRequest { resources, ..Default::default() };
    let results = describe_configs(&cluster.view(), &request).results;
    assert_eq!((results[0].error_code, results[0].configs.len()), (0, 37));
    assert!(results[0].configs.iter().all(|config| config.synonyms.is_empty()));
    assert_eq!(code(results[1].error_code), InvalidRequest);
    let of = |resource_type, name: &'static str| DescribeConfigsResource {
        resource_type,
        resource_name: name.into(),
        configuration_keys: None,
    };
    let errors = |resources| -> Vec<ErrorCode> {
        let request = DescribeConfigsRequest { resources, ..Default::default() };
        let results = describe_configs(&cluster.view(), &request).results;
        results.iter().map(|result| code(result.error_code)).collect()
    };
    let absent = UnknownTopicOrPartition;
    assert_eq!(errors(vec![of(2, "nope"), of(2, "nope")]), [absent, absent]);
    assert_eq!(errors(vec![of(2, "t1"), of(3, "x")]), [InvalidRequest, InvalidRequest]);
}

#[test]
fn group_configs_have_their_sources() {
    let mut cluster = Cluster::new(&["group.consumer.session.timeout.ms=46000"]);
    cluster.set(32, "g", "consumer.session.timeout.ms", "50000");
    let resource = DescribeConfigsResource {
        resource_type: 32,
        resource_name: "g".into(),
        configuration_keys: Some(vec![
            "consumer.session.timeout.ms".into(),
            "share.isolation.level".into(),
        ]),
    };
    let empty = DescribeConfigsResource { resource_type: 32, ..Default::default() };
    let resources = vec![resource, empty];
    let request =
        DescribeConfigsRequest { resources, include_synonyms: true, ..Default::default() };
    let view = cluster.view();
    let results = describe_configs(&view, &request).results;
    let described: Vec<_> = results[0]
        .configs
        .iter()
        .map(|config| {
            let synonyms = config.synonyms.iter();
            let synonyms = synonyms
                .map(|s| format!("{}:{}={}", s.source, s.name, s.value.as_deref().unwrap()));
            (
                config.value.as_deref().unwrap(),
                config.config_source,
                synonyms.collect::<Vec<_>>().join(" "),
            )
        })
        .collect();
    let session = "8:consumer.session.timeout.ms=50000 4:group.consumer.session.timeout.ms=46000 \
                   5:group.consumer.session.timeout.ms=45000";
    let isolation = "5:share.isolation.level=read_uncommitted";
    assert_eq!(
        described,
        [("50000", 8, session.to_owned()), ("read_uncommitted", 5, isolation.to_owned())]
    );
    assert_eq!(results[1].error_code, InvalidRequest.code());
    assert_eq!(results[1].error_message.as_deref(), Some("Group name must not be empty"));
}
