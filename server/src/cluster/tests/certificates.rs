//! Listener certificates that clients alter, with the expected answers of Kafka 4.3.

use super::*;
use crate::config::{Address, ListenerIndex, SecurityProtocol, Served, ServedListener, ShardTls};
use ErrorCode::InvalidRequest;
use muster_codec::ControllerRequest;
use std::path::Path;

const BROKER: i8 = 4;
const LOCATION: &str = "listener.name.out.ssl.keystore.location";
const CERTIFICATES: ListenerIndex = ListenerIndex(1);

/// A controller of two brokers, each with a plaintext listener and a TLS listener.
fn controller() -> Controller {
    let mut controller = Controller::new(&["ssl.keystore.location=/fixed.pem"]);
    let listener = |(name, protocol): (&str, SecurityProtocol)| {
        let address = Address { host: "127.0.0.1".to_owned(), port: 9092 };
        let (listen, advertised) = (address.clone(), address);
        ServedListener { name: name.to_owned(), protocol, listen, advertised }
    };
    let listeners = [("IN", SecurityProtocol::Plaintext), ("OUT", SecurityProtocol::Ssl)];
    let listeners = listeners.map(listener).to_vec();
    controller.config.served = Some(Served { listeners, data: "data".to_owned() });
    controller
}

/// The certificates that must be checked before a request is decided.
fn checked(controller: &mut Controller, resources: &[(i8, &str, &[Op])]) -> Vec<ShardTls> {
    let request: ControllerRequest<'_> = incremental(resources, false).into();
    let mut checked = Vec::new();
    controller.decide(|view, _| {
        checked = certificates_of(view, &request);
        Change { records: Vec::new(), response: () }
    });
    checked
}

/// The key store paths to check, with their shards.
fn locations(checked: &[ShardTls]) -> Vec<(u32, &str)> {
    let all = checked.iter().flat_map(|of| of.replacements.iter().map(|it| (of.shard, it)));
    let location = |(shard, it): (u32, &crate::config::Replacement)| {
        assert_eq!(it.listener, CERTIFICATES);
        (
            shard,
            it.settings.key_store.location.as_deref().and_then(Path::to_str).unwrap().to_owned(),
        )
    };
    all.map(location).map(|(shard, it)| (shard, &*it.leak())).collect()
}

#[test]
fn a_change_of_certificates_has_those_checked_that_it_leads_to() {
    let mut controller = controller();
    let set: &[Op] = &[(LOCATION, 0, Some("/new.pem"))];
    let both = [(BROKER, "0", set), (BROKER, "1", &[("log.retention.ms", 0, Some("5"))])];
    assert_eq!(locations(&checked(&mut controller, &both)), [(0, "/new.pem")]);
    assert_eq!(controller.alter(BROKER, "1", set), Ok(()));
    // Broker 1 already has /new.pem. If the request sets this path again, the file is read again.
    // If it removes the path, the file of the server's config is read again.
    assert_eq!(locations(&checked(&mut controller, &[(BROKER, "1", set)])), [(1, "/new.pem")]);
    let removed: &[Op] = &[(LOCATION, 1, None)];
    let both = [(BROKER, "0", removed), (BROKER, "1", removed)];
    let fixed = [(0, "/fixed.pem"), (1, "/fixed.pem")];
    assert_eq!(locations(&checked(&mut controller, &both)), fixed);

    let replaced = AlterConfigsRequest {
        resources: vec![ReplacedConfigsResource {
            resource_type: BROKER,
            resource_name: "1".into(),
            configs: Vec::new(),
        }],
        validate_only: false,
    };
    let request: ControllerRequest<'_> = replaced.into();
    let mut of_replaced = Vec::new();
    controller.decide(|view, _| {
        of_replaced = certificates_of(view, &request);
        Change { records: Vec::new(), response: () }
    });
    assert_eq!(locations(&of_replaced), [(1, "/fixed.pem")], "what is not named is removed");
}

#[test]
fn what_is_refused_anyway_is_not_checked() {
    let mut controller = controller();
    let other: &[Op] = &[(LOCATION, 0, Some("/new.pem")), ("ssl.provider", 0, Some("1"))];
    let plain: &[Op] = &[("listener.name.in.ssl.keystore.location", 0, Some("/new.pem"))];
    let set: &[Op] = &[(LOCATION, 0, Some("/new.pem"))];
    let all = [(BROKER, "0", other), (BROKER, "1", plain), (BROKER, "9", set), (BROKER, "", set)];
    assert_eq!(checked(&mut controller, &all), []);
}

#[test]
fn certificates_that_cannot_be_used_are_refused_with_the_reason() {
    let mut controller = controller();
    controller.refused = BTreeMap::from([(0, "listener OUT: a reason".to_owned())]);
    let set: &[Op] = &[(LOCATION, 0, Some("/new.pem"))];
    let words = "Validation of dynamic config update of SSLFactory failed: listener OUT: a reason";
    let refused = Err((InvalidRequest, words.to_owned()));
    let all = [(BROKER, "0", set), (BROKER, "1", set)];
    assert_eq!(controller.alter_all(&all, false), [refused, Ok(())]);
    assert_eq!(controller.value(BROKER, "0", LOCATION), None);
    assert_eq!(controller.value(BROKER, "1", LOCATION), Some("/new.pem"));
    let nonsense: &[Op] = &[(LOCATION, 0, Some("/new.pem")), ("log.retention.ms", 0, Some("x"))];
    let answer = controller.alter(BROKER, "0", nonsense).unwrap_err();
    assert!(answer.1.contains("log.retention.ms"), "other reasons come first: {answer:?}");
}

#[test]
fn certificates_are_altered_for_a_listener_of_one_broker() {
    let mut controller = controller();
    let per_listener = "These security configs can be dynamically updated only per-listener using \
                        the listener prefix: [ssl.keystore.location]";
    let per_broker = "Cannot update these configs at default cluster level, broker id must be \
                      specified: [listener.name.out.ssl.keystore.location]";
    let not_dynamic = "Cannot update these configs dynamically";
    let cases = [
        ("0", "ssl.keystore.location", per_listener.to_owned()),
        ("", LOCATION, per_broker.to_owned()),
        ("0", "ssl.client.auth", format!("{not_dynamic}: [ssl.client.auth]")),
        ("0", "ssl.allow.dn.changes", format!("{not_dynamic}: [ssl.allow.dn.changes]")),
        // Kafka stores the next three without effect.
        (
            "0",
            "listener.name.out.ssl.client.auth",
            format!("{not_dynamic}: [listener.name.out.ssl.client.auth]"),
        ),
        (
            "0",
            "listener.name.in.ssl.keystore.location",
            format!("{not_dynamic}: [listener.name.in.ssl.keystore.location]"),
        ),
        (
            "0",
            "listener.name.nowhere.ssl.keystore.location",
            format!("{not_dynamic}: [listener.name.nowhere.ssl.keystore.location]"),
        ),
    ];
    for (broker, name, words) in cases {
        let ops: &[Op] = &[(name, 0, Some("/new.pem"))];
        assert_eq!(controller.alter(BROKER, broker, ops), Err((InvalidRequest, words)), "{name}");
        assert_eq!(controller.alter(BROKER, broker, &[(name, 1, None)]), Ok(()), "{name}");
    }
}
