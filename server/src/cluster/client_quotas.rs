//! The client quotas of the image.

use super::ClusterImage;
use crate::quotas::{Bound, ClientQuotas, Entity, Name, QuotaKey};
use muster_codec::records::{ClientQuotaEntity, ClientQuotaKey, ClientQuotaValue, ClusterRecord};
use std::collections::BTreeMap;

/// Client quotas of the image.
impl ClusterImage {
    pub fn client_quotas(&self) -> &ClientQuotas {
        &self.client_quotas
    }

    /// Sets or removes a quota. A record with an unknown kind of entity or of quota has no effect.
    /// A value of NaN removes the quota, because no rate exceeds NaN.
    pub(super) fn put_client_quota(
        &mut self,
        key: &ClientQuotaKey<'_>,
        value: Option<&ClientQuotaValue>,
    ) {
        let parts = key.entity.iter().map(|it| (&*it.entity_type, it.entity_name.as_deref()));
        let entity = entity(parts.map(|(kind, name)| (kind, name_of(name))).collect());
        if let Some((entity, quota)) = entity.zip(QuotaKey::by_name(&key.quota)) {
            self.client_quotas.set(entity, quota, value.and_then(|it| Bound::new(it.value)));
        }
    }

    pub(super) fn client_quota_records(&self) -> impl Iterator<Item = ClusterRecord<'static>> {
        self.client_quotas.iter().flat_map(|(entity, bounds)| {
            let set = QuotaKey::ALL.into_iter().zip(bounds).filter(|(_, bound)| bound.is_some());
            set.map(|(key, bound)| record(entity, key, *bound))
        })
    }
}

/// The entity with these parts, by Kafka's names of kinds; None if Kafka has no such entity.
pub(super) fn entity(mut parts: BTreeMap<&str, Name>) -> Option<Entity> {
    use crate::quotas::{CLIENT_ID, IP, USER};
    let of_kinds = (parts.remove(USER), parts.remove(CLIENT_ID), parts.remove(IP));
    if !parts.is_empty() {
        return None;
    }
    match of_kinds {
        (Some(user), None, None) => Some(Entity::User(user)),
        (None, Some(client), None) => Some(Entity::Client(client)),
        (Some(user), Some(client), None) => Some(Entity::UserAndClient(user, client)),
        (None, None, Some(ip)) => Some(Entity::Ip(ip)),
        _ => None,
    }
}

/// The name of an entity in a record or request. None stands for the default entity.
pub(super) fn name_of(name: Option<&str>) -> Name {
    name.map_or(Name::Default, Name::of)
}

/// The record that sets or removes a quota.
pub(crate) fn record(
    entity: &Entity,
    key: QuotaKey,
    bound: Option<Bound>,
) -> ClusterRecord<'static> {
    let parts = entity.parts().map(|(kind, name)| ClientQuotaEntity {
        entity_type: kind.into(),
        entity_name: name.as_str().map(|name| name.to_owned().into()),
    });
    let key = ClientQuotaKey { entity: parts.collect(), quota: key.name().into() };
    ClusterRecord::ClientQuota(key, bound.map(|bound| ClientQuotaValue { value: bound.get() }))
}
