//! AlterClientQuotas: sets and removes client quotas, by the rules of Kafka's
//! `ClientQuotaControlManager`.

use super::View;
use super::change::{Change, Refused};
use super::client_quotas::{entity, name_of, record};
use super::limits::{QUOTA_ENTITIES_MAX, QUOTA_ENTITY_BYTES_MAX};
use crate::quotas::{Bound, CLIENT_ID, Entity, IP, Name, QuotaKey, USER};
use muster_codec::messages::{
    AlterClientQuotasRequest, AlterClientQuotasResponse, QuotaAlteration, QuotaAlterationResult,
    QuotaEntity, QuotaOp,
};
use muster_codec::records::ClusterRecord;
use muster_codec::{ErrorCode, Str};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// The parts of an entity in the request, by kind; None is the default entity.
type Parts<'r> = BTreeMap<&'r str, Option<&'r str>>;

/// Changes quotas. If the request names an entity twice, its first alteration is applied, although
/// the answer for the entity is an error. The second alteration is ignored.
pub fn alter_client_quotas(
    view: &View<'_>,
    request: &AlterClientQuotasRequest<'_>,
) -> Change<AlterClientQuotasResponse<'static>> {
    let (mut records, mut added) = (Vec::new(), BTreeSet::new());
    let mut results: Vec<(Parts<'_>, Option<Refused>)> = Vec::new();
    let mut places = BTreeMap::new();
    for alteration in &request.entries {
        let parts = parts_of(alteration);
        if let Some(place) = places.get(&parts) {
            let words = format!("Ignoring duplicate entity {}", shown(&parts));
            let (_, refused): &mut (_, _) = &mut results[*place];
            *refused = Some(invalid(words));
            continue;
        }
        places.insert(parts.clone(), results.len());
        let decided = decide(view, &parts, &alteration.ops, &mut added);
        let refused = decided.map(|decided| records.extend(decided)).err();
        results.push((parts, refused));
    }
    if request.validate_only {
        records.clear();
    }
    let entries = results.into_iter().map(|(parts, refused)| result(&parts, refused)).collect();
    Change { records, response: AlterClientQuotasResponse { entries, throttle_time_ms: 0 } }
}

/// The parts of an alteration's entity. If a kind is named twice, its last name counts.
fn parts_of<'r>(alteration: &'r QuotaAlteration<'_>) -> Parts<'r> {
    let parts = alteration.entity.iter();
    parts.map(|it| (&*it.entity_type, it.entity_name.as_deref())).collect()
}

fn result(parts: &Parts<'_>, refused: Option<Refused>) -> QuotaAlterationResult<'static> {
    let entity = parts.iter().map(|(kind, name)| QuotaEntity {
        entity_type: (*kind).to_owned().into(),
        entity_name: name.map(|name| name.to_owned().into()),
    });
    let error = refused.as_ref().map_or(ErrorCode::None, |refused| refused.error);
    let error_message: Option<Str<'static>> = refused.and_then(Refused::error_message);
    QuotaAlterationResult { error_code: error.code(), error_message, entity: entity.collect() }
}

/// The records of an alteration. `added` collects the entities that the request adds.
fn decide(
    view: &View<'_>,
    parts: &Parts<'_>,
    ops: &[QuotaOp<'_>],
    added: &mut BTreeSet<Entity>,
) -> Result<Vec<ClusterRecord<'static>>, Refused> {
    let mut named = BTreeSet::new();
    if let Some(twice) = ops.iter().find(|op| !named.insert(&*op.key)) {
        let (key, entity) = (&twice.key, shown(parts));
        let words =
            format!("Duplicate quota key {key} not updating quota for this entity {entity}");
        return Err(invalid(words));
    }
    let entity = checked(parts)?;
    let mut records = Vec::new();
    for op in ops {
        let key = QuotaKey::by_name(&op.key).filter(|key| key.is_of(&entity));
        let before = key.and_then(|key| view.image.client_quotas().get(&entity, key));
        let bound = if op.remove { None } else { Some(bound(key, op)?) };
        if let Some(key) = key.filter(|_| bound != before) {
            records.push(record(&entity, key, bound));
        }
    }
    admit(view, entity, added)?;
    Ok(records)
}

/// Checks the limits on the number of entities and on the length of their names.
fn admit(view: &View<'_>, entity: Entity, added: &mut BTreeSet<Entity>) -> Result<(), Refused> {
    let quotas = view.image.client_quotas();
    if quotas.of(&entity).is_some() {
        return Ok(());
    }
    let bytes: usize = entity.parts().filter_map(|(_, name)| name.as_str()).map(str::len).sum();
    if bytes > QUOTA_ENTITY_BYTES_MAX {
        let words = format!(
            "The names of an entity may have {QUOTA_ENTITY_BYTES_MAX} bytes \
             (QUOTA_ENTITY_BYTES_MAX)"
        );
        return Err(invalid(words));
    }
    added.insert(entity);
    if quotas.len() + added.len() > QUOTA_ENTITIES_MAX {
        let words = format!(
            "There are {QUOTA_ENTITIES_MAX} entities with quotas already (QUOTA_ENTITIES_MAX)."
        );
        return Err(Refused::new(ErrorCode::PolicyViolation, words));
    }
    Ok(())
}

/// Checks an entity. The order of the checks is Kafka's.
fn checked(parts: &Parts<'_>) -> Result<Entity, Refused> {
    if parts.is_empty() {
        return Err(invalid("Invalid empty client quota entity"));
    }
    for (kind, name) in parts {
        if ![USER, CLIENT_ID, IP].contains(kind) {
            return Err(invalid(format!("Unhandled client quota entity type: {kind}")));
        }
        if *name == Some("") {
            return Err(invalid(format!("Empty {kind} not supported")));
        }
    }
    let names = parts.iter().map(|(kind, name)| (*kind, name_of(*name))).collect();
    let Some(entity) = entity(names) else {
        let words = "Invalid quota entity combination, IP entity shouldnot be combined with User \
                     or ClientId";
        return Err(invalid(words));
    };
    let Entity::Ip(Name::Of(ip)) = &entity else { return Ok(entity) };
    // An address has several spellings; the canonical spelling is stored and looked up.
    match ip.parse::<IpAddr>() {
        Ok(ip) => Ok(Entity::Ip(Name::of(&ip.to_canonical().to_string()))),
        Err(_) => Err(invalid(format!("{ip} is not a valid IP or resolvable host."))),
    }
}

/// The new bound of a quota.
fn bound(key: Option<QuotaKey>, op: &QuotaOp<'_>) -> Result<Bound, Refused> {
    let (name, value) = (&op.key, op.value);
    let Some(key) = key else {
        return Err(invalid(format!("Invalid configuration key {name}")));
    };
    // NaN is refused, too. Kafka accepts it, and then limits nothing, as no rate exceeds NaN.
    let Some(bound) = Bound::new(value).filter(|_| value > 0.0) else {
        return Err(invalid(format!("Quota {name} must be greater than 0")));
    };
    if let Some((kind, max)) = key.integer() {
        if value > max {
            return Err(invalid(format!("Proposed value for {name} is too large for {kind}.")));
        }
        if (value % 1.0).abs() > 1e-6 {
            return Err(invalid(format!("{name} cannot be a fractional value.")));
        }
    }
    Ok(bound)
}

/// An entity as Kafka prints it.
fn shown(parts: &Parts<'_>) -> String {
    let part = |(kind, name): (&&str, &Option<&str>)| format!("{kind}={}", name.unwrap_or("null"));
    let parts: Vec<_> = parts.iter().map(part).collect();
    format!("ClientQuotaEntity(entries={{{}}})", parts.join(", "))
}

fn invalid(words: impl Into<String>) -> Refused {
    Refused::new(ErrorCode::InvalidRequest, words)
}
