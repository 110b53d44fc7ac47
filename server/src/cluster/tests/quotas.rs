//! AlterClientQuotas and DescribeClientQuotas: changes, refusals and answers.

use super::*;
use crate::admin::describe_client_quotas;

type Parts<'e> = &'e [(&'e str, Option<&'e str>)];

fn entity<'e>(parts: Parts<'e>) -> Vec<QuotaEntity<'e>> {
    let part = |(kind, name): &(&'e str, Option<&'e str>)| QuotaEntity {
        entity_type: (*kind).into(),
        entity_name: name.map(Into::into),
    };
    parts.iter().map(part).collect()
}

fn set<'e>(parts: Parts<'e>, ops: &[(&'e str, f64)]) -> QuotaAlteration<'e> {
    let op = |(key, value): &(&'e str, f64)| QuotaOp {
        key: (*key).into(),
        value: *value,
        remove: false,
    };
    QuotaAlteration { entity: entity(parts), ops: ops.iter().map(op).collect() }
}

fn remove<'e>(parts: Parts<'e>, key: &'e str) -> QuotaAlteration<'e> {
    let ops = vec![QuotaOp { key: key.into(), value: 0.0, remove: true }];
    QuotaAlteration { entity: entity(parts), ops }
}

fn alter(controller: &mut Controller, entries: Vec<QuotaAlteration<'_>>) -> Vec<Answer> {
    let request = AlterClientQuotasRequest { entries, validate_only: false };
    let response = controller.decide(|view, _| alter_client_quotas(view, &request));
    response.entries.iter().map(|it| (code(it.error_code), text(&it.error_message))).collect()
}

/// An entity, its quotas, and the expected reason for the refusal.
type Case<'c> = (Parts<'c>, &'c [(&'c str, f64)], &'c str);

/// The described entities and values as text, or the error.
fn describe(
    controller: &mut Controller,
    components: &[(&str, i8, Option<&str>)],
    strict: bool,
) -> Result<Vec<String>, Answer> {
    let components = components.iter().map(|(kind, match_type, name)| QuotaFilterComponent {
        entity_type: (*kind).into(),
        match_type: *match_type,
        match_name: name.map(Into::into),
    });
    let request = DescribeClientQuotasRequest { components: components.collect(), strict };
    controller.decide(|view, _| {
        let response = describe_client_quotas(view, &request);
        let described = answer(response.error_code, &response.error_message)
            .map(|()| response.entries.iter().flatten().map(shown).collect());
        Change { records: Vec::new(), response: described }
    })
}

fn shown(entry: &QuotaEntry<'_>) -> String {
    let parts = entry.entity.iter().map(|it| {
        let name = it.entity_name.as_deref().unwrap_or("<default>");
        format!("{} {name}", it.entity_type)
    });
    let values = entry.values.iter().map(|it| format!("{}={}", it.key, it.value));
    format!("{}: {}", parts.collect::<Vec<_>>().join(", "), values.collect::<Vec<_>>().join(" "))
}

const ALICE: Parts<'static> = &[("user", Some("alice"))];
const ALICE_IN_APP: Parts<'static> = &[("user", Some("alice")), ("client-id", Some("app"))];
const APPS: Parts<'static> = &[("client-id", None)];
const ADDRESS: Parts<'static> = &[("ip", Some("10.0.0.1"))];

fn controller_with_quotas() -> Controller {
    let mut controller = Controller::new(&[]);
    let entries = vec![
        set(ALICE, &[("producer_byte_rate", 1024.0), ("request_percentage", 12.5)]),
        set(ALICE_IN_APP, &[("consumer_byte_rate", 2048.0)]),
        set(APPS, &[("controller_mutation_rate", 0.5)]),
        set(ADDRESS, &[("connection_creation_rate", 7.0)]),
    ];
    let none = (ErrorCode::None, String::new());
    assert_eq!(alter(&mut controller, entries), vec![none; 4]);
    controller
}

#[test]
fn quotas_are_set_described_kept_and_removed() {
    let mut controller = controller_with_quotas();
    let all = [
        "user alice: request_percentage=12.5 producer_byte_rate=1024",
        "client-id <default>: controller_mutation_rate=0.5",
        "user alice, client-id app: consumer_byte_rate=2048",
        "ip 10.0.0.1: connection_creation_rate=7",
    ];
    assert_eq!(describe(&mut controller, &[], false).unwrap(), all);
    let mut again = ClusterImage::new(&Config::default());
    controller.image.records(&Config::default()).iter().for_each(|record| again.apply(record));
    assert_eq!(again.client_quotas(), controller.image.client_quotas());

    alter(&mut controller, vec![remove(ALICE, "producer_byte_rate"), remove(APPS, "none")]);
    let alice = [("user", 0, Some("alice"))];
    let rest = "user alice: request_percentage=12.5";
    assert_eq!(describe(&mut controller, &alice, true).unwrap(), [rest]);
    alter(&mut controller, vec![remove(ALICE, "request_percentage")]);
    assert_eq!(controller.image.client_quotas().len(), 3);
}

#[test]
fn filters_ask_for_names_defaults_and_kinds() {
    let mut controller = controller_with_quotas();
    let mut count = |components: &[(&str, i8, Option<&str>)], strict| {
        describe(&mut controller, components, strict).unwrap().len()
    };
    assert_eq!(count(&[("user", 0, Some("alice"))], false), 2);
    assert_eq!(count(&[("user", 0, Some("alice"))], true), 1);
    assert_eq!(count(&[("user", 2, None)], false), 2);
    assert_eq!(count(&[("user", 2, None), ("client-id", 2, None)], true), 1);
    assert_eq!(count(&[("client-id", 1, None)], true), 1);
    assert_eq!(count(&[("user", 1, None)], false), 0);
    assert_eq!(count(&[], true), 0);
    let mut refused = |components: &[(&str, i8, Option<&str>)]| {
        describe(&mut controller, components, false).unwrap_err().0
    };
    assert_eq!(refused(&[("team", 2, None)]), ErrorCode::UnsupportedVersion);
    assert_eq!(refused(&[("", 2, None)]), ErrorCode::InvalidRequest);
    assert_eq!(refused(&[("user", 2, None), ("user", 1, None)]), ErrorCode::InvalidRequest);
    assert_eq!(refused(&[("user", 2, None), ("ip", 2, None)]), ErrorCode::InvalidRequest);
    assert_eq!(refused(&[("user", 0, None)]), ErrorCode::InvalidRequest);
    assert_eq!(refused(&[("user", 1, Some("a"))]), ErrorCode::InvalidRequest);
    assert_eq!(refused(&[("user", 3, None)]), ErrorCode::InvalidRequest);
}

#[test]
fn kafkas_refusals() {
    let mut controller = Controller::new(&[]);
    let rate = &[("producer_byte_rate", 1.0)];
    let cases: &[Case<'_>] = &[
        (&[], rate, "Invalid empty client quota entity"),
        (&[("team", Some("a"))], rate, "Unhandled client quota entity type: team"),
        (&[("user", Some(""))], rate, "Empty user not supported"),
        (
            &[("user", Some("a")), ("ip", None)],
            rate,
            "Invalid quota entity combination, IP entity shouldnot be combined with User or \
             ClientId",
        ),
        (&[("ip", Some("nowhere"))], rate, "nowhere is not a valid IP or resolvable host."),
        (&[("ip", Some("::1"))], rate, "Invalid configuration key producer_byte_rate"),
        (&[("user", Some("b"))], &[("rate", 1.0)], "Invalid configuration key rate"),
        (
            &[("user", Some("c"))],
            &[("request_percentage", 0.0)],
            "Quota request_percentage must be greater than 0",
        ),
        (
            &[("user", Some("d"))],
            &[("consumer_byte_rate", 1.5)],
            "consumer_byte_rate cannot be a fractional value.",
        ),
        (
            &[("ip", Some("10.0.0.2"))],
            &[("connection_creation_rate", 3e9)],
            "Proposed value for connection_creation_rate is too large for an INT.",
        ),
        (
            &[("user", Some("e"))],
            &[("request_percentage", 1.0), ("request_percentage", 2.0)],
            "Duplicate quota key request_percentage not updating quota for this entity \
             ClientQuotaEntity(entries={user=e})",
        ),
    ];
    for (parts, ops, words) in cases {
        let answers = alter(&mut controller, vec![set(parts, ops)]);
        assert_eq!(answers, [(ErrorCode::InvalidRequest, (*words).to_owned())]);
    }
    assert!(controller.image.client_quotas().is_empty());

    let twice = vec![set(ALICE, rate), set(ALICE, &[("producer_byte_rate", 2.0)])];
    let words = "Ignoring duplicate entity ClientQuotaEntity(entries={user=alice})".to_owned();
    assert_eq!(alter(&mut controller, twice), [(ErrorCode::InvalidRequest, words)]);
    assert_eq!(controller.image.client_quotas().len(), 1, "the first one is obeyed");
}

#[test]
fn the_number_of_entities_is_limited() {
    let mut controller = Controller::new(&[]);
    let names: Vec<_> = (0..=limits::QUOTA_ENTITIES_MAX).map(|n| n.to_string()).collect();
    let parts: Vec<_> = names.iter().map(|name| [("user", Some(&**name))]).collect();
    let entries = parts.iter().map(|parts| set(parts, &[("request_percentage", 1.0)]));
    let answers = alter(&mut controller, entries.collect());
    let refused = answers.iter().filter(|(error, _)| *error == ErrorCode::PolicyViolation);
    assert_eq!(refused.count(), 1);
    assert_eq!(controller.image.client_quotas().len(), limits::QUOTA_ENTITIES_MAX);
}
